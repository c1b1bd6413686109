"""Slurm's programs, asked: each under a time limit, in one language and one clock; what they refuse becomes one line with what to do."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Mapping, Sequence

from ongpu.hosts.processes import end, which
from ongpu.lazy import dataclass
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.slurm.errors import told

LIMIT = 12.0  # seconds; Slurm's own MessageTimeout is 10 where nobody says (slurm.conf(5))
PATIENCE = 1.0  # seconds after which the controller is pinged
FOLDERS = "/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin"  # beside PATH: where it is installed by hand
# Of the environment of a job that submits others: sbatch and srun would take its limits for ours.
KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_DEBUG_FLAGS"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program printed, its complaints, and its exit code."""

    out: str
    err: str
    code: int


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what Slurm tells of the job that we may be in."""
    return {name: value for name, value in environ.items() if not name.startswith("SLURM") or name in KEPT}


def ask(argv: Sequence[str], given: str | None = None, environ: Mapping[str, str] | None = None, limit: float | None = None) -> Answer:
    """One program. given: its input. environ: besides what Slurm needs (default: ours). limit: seconds (default: LIMIT). Raises
    EngineError where it is not installed or does not answer in time; what it refuses is in the answer (`expect`)."""
    limit = LIMIT if limit is None else limit
    place = which(argv[0], f"{os.environ.get('PATH') or os.defpath}:{FOLDERS}")
    if place is None:
        raise EngineError(
            f"Slurm is not installed here: no {argv[0]} on PATH (Debian and Ubuntu: apt install slurm-client; one machine with GPUs: "
            "ongpu queue setup slurm --single-node)",
            f"这里没有安装 Slurm：PATH 上没有 {argv[0]}（Debian、Ubuntu：apt install slurm-client；"
            "单机多卡：ongpu queue setup slurm --single-node）",
            3,
        )
    conf = os.environ.get("SLURM_CONF")
    if conf and not os.path.exists(conf):  # Slurm would look for one over the network
        raise EngineError(f"SLURM_CONF={conf}: no such file", f"SLURM_CONF={conf}：没有这个文件", 3)
    if environ is None:
        # lists of an array's tasks whole, not cut after 64 characters
        env = {**clean(os.environ), "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}
    else:
        env = clean(environ)  # a job gets it, so nothing is added
    source = subprocess.DEVNULL if given is None else subprocess.PIPE
    try:
        started = subprocess.Popen(
            [place, *argv[1:]], stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
        )
    except OSError as error:
        long = error.errno == errno.E2BIG  # of an array of numbers without order, of an environment
        said = "数组编号、参数或环境变量太长" if long else error.strerror
        raise EngineError(f"{argv[0]}: {error.strerror}", f"{argv[0]}：{said}") from None
    with started as process:
        data = None if given is None else given.encode("utf-8", "surrogateescape")
        out, err = _wait(process, argv, data, limit)
    return Answer(out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), process.returncode)


def _wait(process: "subprocess.Popen[bytes]", argv: Sequence[str], data: bytes | None, limit: float) -> tuple[bytes, bytes]:
    """What it prints. Slurm's programs try a dead controller for nine seconds; a ping says so at once, and is asked after one."""
    soon = min(PATIENCE, limit)
    try:
        return process.communicate(data, timeout=soon)
    except subprocess.TimeoutExpired:
        pass
    trouble = _trouble() if limit > soon and argv[1:2] != ["ping"] else ""
    try:
        if not trouble:
            return process.communicate(timeout=limit - soon)
    except subprocess.TimeoutExpired:
        pass
    end(process)
    said = trouble.encode()
    with contextlib.suppress(subprocess.TimeoutExpired):
        said = said or process.communicate(timeout=1.0)[1]
    english, chinese, _ = told(said.decode("utf-8", "replace"))
    if english and not english.startswith("Slurm says"):  # it retries, and would have gone on so
        raise EngineError(english, chinese, 3)
    raise Late(argv[0], limit)


def _trouble() -> str:
    """What keeps the controller from answering, as a ping says it; "": it answers, or that cannot be told."""
    try:
        answer = ask(["scontrol", "ping"], limit=4.0)
    except EngineError:
        return ""
    if " is DOWN" not in answer.out or " is UP" in answer.out:
        return ""
    return answer.err.strip() or "Unable to contact slurm controller"


class Late(EngineError):
    """It did not answer in time: what it was asked to do may have been done."""

    def __init__(self, program: str, limit: float) -> None:
        super().__init__(
            f"{program} did not answer within {limit:g} s: slurmctld hangs or is overloaded (scontrol ping; sdiag)",
            f"{program} 在 {limit:g} 秒内没有应答：slurmctld 卡住或过载（scontrol ping；sdiag）",
            3,
        )


def expect(answer: Answer, doing: str) -> str:
    """What it printed. Raises EngineError for what it refused. doing: what was asked ("sbatch"), where its words are not known."""
    if answer.code == 0:
        return answer.out
    raise refusal(answer, doing)


def refusal(answer: Answer, doing: str) -> EngineError:
    """Its complaint in one line, with what to do."""
    english, chinese, down = told(answer.err or answer.out)
    return EngineError(english or f"{doing} ended with {answer.code}", chinese or f"{doing} 以 {answer.code} 结束", 3 if down else 2)
