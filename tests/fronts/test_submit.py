import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import Pretend

from ongpu.lazy import replace
from ongpu.queue.config import Config
from ongpu.queue.job import Spec
from ongpu.report.layout import width_of

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    return tmp_path


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def last(pretend: Pretend) -> Spec:
    return list(pretend.told.values())[-1].spec


def test_only_the_id_is_printed(ask: Ask, pretend: Pretend, here: Path) -> None:
    assert ask("submit", "--", "echo", "--gpus") == (0, "1\n", "")
    spec = last(pretend)
    assert (spec.command, spec.gpus, spec.folder, spec.name) == (("echo", "--gpus"), 1, str(here), "echo")
    assert spec.environ["PATH"] == os.environ["PATH"]
    assert ask("submit", "echo", "-x")[:2] == (0, "2\n")


def test_every_option_reaches_the_job(ask: Ask, pretend: Pretend, here: Path) -> None:
    (here / "runs").mkdir()
    pretend.put("7", "running")
    words = (
        "--gpus 2 --memory 20GiB --model A100 --capability 8.0 --time 1h30m --cpus 4 --host-memory 64G --name n --project p --priority -3 "
        "--after 7 --after-any 7 --begin 2030-01-01T00:00 --retries 2 --retry-on any --checkpoint usr1 --saved ck/* --grace 1m --idle 30m "
        "--idle-stop --on-reboot fail --output runs/out.txt --notify mailto://a --reservation r --export none"
    )
    assert ask("submit", *words.split(), "--", "echo")[0] == 0
    spec = replace(last(pretend), environ={})
    assert spec == Spec(
        command=("echo",), gpus=2, memory=20480, model="A100", capability=(8, 0), limit=5400.0, cpus=4, host_memory=65536, name="n",
        project="p", priority=-3, after=(("ok", "7"), ("any", "7")), begin=spec.begin, retries=2, retry_on="any", checkpoint="SIGUSR1",
        saved="ck/*", grace=60.0, idle=1800.0, idle_stop=True, on_reboot="fail", output=str(here / "runs/out.txt"), notify="mailto://a",
        reservation="r", folder=str(here),
    )  # fmt: skip
    assert ask("submit", "--share", "--memory", "8GiB", "echo")[0] == 0
    assert last(pretend).share


def test_an_array_is_one_id(ask: Ask, pretend: Pretend, here: Path) -> None:
    assert ask("submit", "--array", "0-8:4%2", "echo")[:2] == (0, "1\n")
    assert [(job.id, job.spec.index, job.spec.at_once) for job in pretend.told.values()] == [("2", 0, 2), ("3", 4, 2), ("4", 8, 2)]
    out = ask("submit", "--array", "1,3", "--json", "echo")[1]
    assert json.loads(out) == {"id": "5", "ids": ["6", "7"]}


def test_a_script_says_what_it_needs_and_the_command_line_wins(ask: Ask, pretend: Pretend, here: Path) -> None:
    script(here / "job.sh", "#!/bin/sh\n#ONGPU --gpus 2 --time 4h --name mine\n#ONGPU --idle 30m --idle-stop\necho\n")
    assert ask("submit", "--gpus", "3", "job.sh", "arg")[0] == 0
    spec = last(pretend)
    assert (spec.command, spec.gpus, spec.limit, spec.name, spec.idle_stop) == (("./job.sh", "arg"), 3, 14400.0, "mine", True)


def test_a_script_behind_its_interpreter_says_it_too(ask: Ask, pretend: Pretend, here: Path) -> None:
    script(here / "train.py", "#ONGPU --gpus 2\nimport torch\n", 0o644)
    assert ask("submit", "bash", "train.py", "--lr", "3")[0] == 0
    assert (last(pretend).command, last(pretend).gpus) == (("bash", "train.py", "--lr", "3"), 2)
    assert ask("submit", "cat", "train.py")[0] == 0
    assert last(pretend).gpus == 1


def test_the_run_bit_is_not_needed_where_the_script_names_its_program(ask: Ask, pretend: Pretend, here: Path) -> None:
    script(here / "job.sh", "#!/bin/sh -e\necho\n", 0o644)
    assert ask("submit", "job.sh", "1")[0] == 0
    assert last(pretend).command == ("/bin/sh", "-e", "job.sh", "1")
    assert ask("submit", "./job.sh")[0] == 0


@pytest.mark.parametrize(
    ("text", "mode", "code", "words"),
    [
        ("#!/bin/sh\n#ONGPU --gpus x\n", 0o755, 2, "--gpus x: a whole number"),
        ("#!/bin/sh\n#ONGPU --gpu-count 2\n", 0o755, 2, "job.sh: #ONGPU: unrecognized arguments: --gpu-count"),
        ("#!/bin/sh\n#ONGPU --wait\n", 0o755, 2, "unrecognized arguments"),
        ("#!/bin/sh\n#ONGPU python x\n", 0o755, 2, "line 2: options only"),
        ("print(1)\n", 0o644, 126, "write: ongpu submit -- bash job.sh"),
        ("#!/nowhere/python\n", 0o755, 127, "/nowhere/python, which is not here"),
        ("#!/bin/sh\r\necho\r\n", 0o755, 126, "as Windows has them"),
    ],
)
def test_scripts_that_cannot_run_are_refused_now(
    ask: Ask, pretend: Pretend, here: Path, text: str, mode: int, code: int, words: str
) -> None:
    script(here / "job.sh", text, mode)
    told = ask("submit", "job.sh")
    assert (told[0], told[1], told[2].count("\n")) == (code, "", 1)
    assert words in told[2]
    assert not pretend.told


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "no command; write: ongpu submit -- python train.py"),
        (("no-such-program",), 127, "no-such-program: command not found"),
        (("./none",), 127, "./none: no such file"),
        (("/",), 126, "/: a folder"),
        (("--gpus", "-1", "echo"), 2, "--gpus -1"),
        (("--gpus", "two", "echo"), 2, "--gpus two: a whole number"),
        (("--memory", "20", "echo"), 2, "--memory 20: write 20GiB"),
        (("--time", "4", "echo"), 2, "--time 4: write"),
        (("--array", "5-1", "echo"), 2, "--array 5-1: write"),
        (("--share", "echo"), 2, "--share: say how much memory"),
        (("--share", "--memory", "4GiB", "--gpus", "2", "echo"), 2, "--share: a part of one GPU, not --gpus 2"),
        (("--array", "0-99999999", "echo"), 2, "--array 0-99999999: at most 100000 jobs in one array"),
        (("--notify", "foo", "echo"), 2, "--notify foo: is to be an address that Apprise takes"),
        (("--output", "/", "echo"), 2, "--output /: a folder"),
        (("",), 2, "no command; write"),
        (("--priority", "11", "echo"), 2, "--priority 11"),
        (("--retry-on", "luck", "echo"), 2, "--retry-on: invalid choice"),
        (("--on-reboot", "pray", "echo"), 2, "--on-reboot: invalid choice"),
        (("--checkpoint", "KILL", "echo"), 2, "--checkpoint KILL"),
        (("--saved", "x", "echo"), 2, "--saved: needs a checkpoint signal: --checkpoint SIGUSR1"),
        (("--idle", "3s", "--idle-stop", "echo"), 2, "--idle: at least 1m"),
        (("--idle-stop", "echo"), 2, "--idle-stop: after how long"),
        (("--share", "--memory", "4GiB", "--idle", "30m", "echo"), 2, "--idle: not with --share"),
        (("--gpus", "0", "--memory", "1G", "echo"), 2, "--gpus 0: --memory"),
        (("--chdir", "/nowhere", "echo"), 2, "--chdir /nowhere: no such folder"),
        (("--output", "none/x", "echo"), 2, "--output none/x: no folder"),
        (("--export", "NO_SUCH_ONE", "echo"), 2, "--export NO_SUCH_ONE: no such variable"),
        (("--output", "x", "--array", "0-3", "echo"), 2, "put %a (the index) into its name"),
        (("python train.py --lr 3",), 127, "one word with blanks"),
        (("--begin", "yesterday", "echo"), 2, "--begin yesterday"),
        (("--after", "a b", "echo"), 2, "--after a b"),
        (("--frobnicate", "echo"), 2, "--frobnicate"),
    ],
)
def test_what_cannot_be_is_one_line(ask: Ask, pretend: Pretend, here: Path, words: tuple[str, ...], code: int, said: str) -> None:
    told = ask("submit", *words)
    assert (told[0], told[1]) == (code, "")
    assert said in told[2]
    assert "Traceback" not in told[2]
    assert not pretend.told
    chinese = ask("submit", "--lang", "zh", *words)
    assert chinese[0] == code
    assert any("\u4e00" <= char <= "\u9fff" for char in chinese[2])


def test_a_folder_that_is_gone(ask: Ask, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = here / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, _, said = ask("submit", "echo")
    assert (code, "has been removed" in said) == (2, True)
    assert ask("submit", "--chdir", str(here), "echo")[0] == 0


def test_the_environment_that_is_asked_for(ask: Ask, pretend: Pretend, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setenv("MINE", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("ONGPU_JOB", "3")
    ask("submit", "echo")
    assert {"SECRET", "MINE"} <= set(last(pretend).environ)
    assert not {"CUDA_VISIBLE_DEVICES", "ONGPU_JOB"} & set(last(pretend).environ)
    ask("submit", "--export", "MINE,X=a=b", "echo")
    environ = last(pretend).environ
    assert (environ["MINE"], environ["X"], "SECRET" in environ, environ["PATH"]) == ("2", "a=b", False, os.environ["PATH"])
    ask("submit", "--export", "none", "echo")
    assert "MINE" not in last(pretend).environ
    ask("submit", "--export", "all,CUDA_VISIBLE_DEVICES=5", "echo")
    assert (last(pretend).environ["SECRET"], last(pretend).environ["CUDA_VISIBLE_DEVICES"]) == ("1", "5")


def test_secrets_are_not_written_down_unasked(ask: Ask, pretend: Pretend, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "key.json").write_text("{}")
    for name, value in (
        ("HF_TOKEN", "x1y2"), ("WANDB_API_KEY", "/+base64=="), ("DATABASE", "postgres://ann:pass@host/db"), ("MINE", "2"),
        ("GOOGLE_APPLICATION_CREDENTIALS", str(here / "key.json")), ("MAX_TOKENS", "512"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    secrets = {"HF_TOKEN", "WANDB_API_KEY", "DATABASE"}
    plain = {"MINE", "GOOGLE_APPLICATION_CREDENTIALS", "MAX_TOKENS", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "PWD", "PATH"}
    code, out, said = ask("submit", "echo")
    assert (code, out, said.count("\n")) == (0, "1\n", 1)
    assert "DATABASE, HF_TOKEN, WANDB_API_KEY" in said
    assert "--export all" in said
    assert "x1y2" not in said
    assert not secrets & set(last(pretend).environ)
    assert plain <= set(last(pretend).environ)
    assert "看似密钥" not in ask("submit", "--lang", "zh", "--gpus", "x", "echo")[2]  # what is refused is told alone
    assert "看似密钥" in ask("submit", "--lang", "zh", "echo")[2]
    code, _, said = ask("submit", "--export", "default,HF_TOKEN", "echo")
    assert (code, "HF_TOKEN" in said.split(";")[0], "WANDB_API_KEY" in said) == (0, False, True)
    assert secrets & set(last(pretend).environ) == {"HF_TOKEN"}
    assert plain <= set(last(pretend).environ)
    assert ask("submit", "--export", "HF_TOKEN,DATABASE", "echo")[2] == ""
    assert secrets & set(last(pretend).environ) == {"HF_TOKEN", "DATABASE"}
    assert ask("submit", "--export", "all", "echo")[2] == ""
    assert secrets | plain <= set(last(pretend).environ)


def test_idle_stop_where_the_configuration_says_after_how_long(
    ask: Ask, pretend: Pretend, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ongpu.queue.config.load", lambda: Config(idle_after=3600.0))
    assert ask("submit", "--idle-stop", "echo")[0] == 0
    assert (last(pretend).idle, last(pretend).idle_stop) == (3600.0, True)
    assert ask("submit", "echo")[0] == 0
    assert last(pretend).idle is None  # as the configuration says, also if it says otherwise tomorrow


def test_cpus_and_host_memory_are_called_advisory(ask: Ask) -> None:
    from ongpu.queue.engines.local.engine import Local

    assert ask("submit", "--help")[1].count("advisory") == 2
    assert all("advisory" in english for english, _ in Local.advisory.values())
    assert {"gpus", "share", "cpus", "host_memory"} == set(Local.advisory)


def test_what_is_not_enforced_of_gpus_is_said_once_for_a_queue(ask: Ask, pretend: Pretend, here: Path) -> None:
    pretend.advisory = {"gpus": ("CUDA_VISIBLE_DEVICES says it", "只作告知")}
    assert ask("submit", "echo")[2] == ""  # of an engine without a folder `ongpu queue status` says it
    pretend.folder = here  # type: ignore[attr-defined]
    assert ask("submit", "--gpus", "0", "echo")[2] == ""
    assert ask("submit", "echo")[2] == "ongpu: CUDA_VISIBLE_DEVICES says it\n"
    assert ask("submit", "--gpus", "2", "echo")[2] == ""


def test_jobs_elsewhere_get_neither_this_folder_nor_this_environment(ask: Ask, pretend: Pretend, here: Path) -> None:
    pretend.name = "kubernetes"
    assert ask("submit", "no-such-program-here")[0] == 0
    assert (last(pretend).folder, dict(last(pretend).environ)) == ("", {})


def test_what_the_engine_cannot_do_is_refused_and_what_it_cannot_enforce_is_said(ask: Ask, pretend: Pretend, here: Path) -> None:
    pretend.honours = pretend.honours - {"cpus"}
    code, out, said = ask("submit", "--cpus", "4", "echo")
    assert (code, out, said) == (2, "", "ongpu: the engine local cannot honour: cpus\n")
    pretend.advisory = {"memory": ("memory is not enforced", "不强制")}
    assert ask("submit", "--memory", "8G", "echo") == (0, "1\n", "ongpu: memory is not enforced\n")
    assert ask("submit", "echo") == (0, "2\n", "")


@pytest.mark.parametrize(("state", "code", "expected"), [("done", 0, 0), ("failed", 3, 3), ("failed", 137, 137), ("lost", None, 1)])
def test_wait_ends_with_the_jobs_own_code(ask: Ask, pretend: Pretend, here: Path, state: str, code: int | None, expected: int) -> None:
    def step() -> None:
        if pretend.asked > 2:
            pretend.told["1"] = replace(pretend.told["1"], state=state, code=code, ending="program" if code else "")

    pretend.step = step
    told = ask("submit", "--wait", "echo")
    assert told[:2] == (expected, "1\n")
    assert bool(told[2]) == bool(expected)


def test_lines_of_sbatch_are_not_taken_for_ours(ask: Ask, pretend: Pretend, here: Path) -> None:
    script(here / "job.sh", "#!/bin/sh\n#SBATCH --gres=gpu:4\necho\n")
    assert ask("submit", "job.sh")[0] == 0
    assert last(pretend).gpus == 1


NAMES = (
    "gpus", "memory", "model", "capability", "time", "cpus", "host-memory", "chdir", "export", "output", "array", "retries", "retry-on",
    "checkpoint", "saved", "grace", "idle", "on-reboot", "name", "project", "priority", "after", "after-any", "begin", "reservation",
    "notify",
)  # fmt: skip
VALUES = st.text(max_size=20) | st.text(alphabet="0123456789.-:,%+hGiBSIGUR \x00\n\ud800", max_size=9)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3))
def test_no_value_of_an_option_is_a_traceback(options: dict[str, str]) -> None:
    from ongpu.fronts import cli

    words = ["submit", *(f"--{name}={value}" for name, value in options.items()), "--", "echo"]
    made = Pretend()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ongpu.fronts.submit.unasked", lambda names: None)  # of the machine of the tests
        patch.setattr("ongpu.queue.engines.engine", lambda name, config: made)
        patch.setattr("ongpu.queue.config.load", Config)
        patch.setattr("sys.argv", ["ongpu", *words])
        patch.setattr("sys.stdout", io.StringIO())
        patch.setattr("sys.stderr", errors := io.StringIO())
        try:
            code = cli.run(words)
        except SystemExit as end:
            code = end.code  # type: ignore[assignment]
    assert code in (0, 2)
    assert bool(made.told) == (code == 0)
    assert bool(errors.getvalue()) == (code == 2)


def test_on_a_terminal_no_word_is_broken(pretend: Pretend, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ongpu.fronts import cli

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    for name in ("HF_TOKEN", "WANDB_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "x")
    for words in (["submit", "echo"], ["submit", "--lang", "zh", "echo"], ["submit", "--memory", "x" * 200, "echo"]):
        monkeypatch.setattr("sys.argv", ["ongpu", *words])
        monkeypatch.setattr("sys.stderr", said := Terminal())
        cli.run(words)
        lines = said.getvalue().splitlines()
        assert len(lines) > 1
        assert max(map(width_of, lines)) <= 80
