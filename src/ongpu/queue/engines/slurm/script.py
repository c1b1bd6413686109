"""A job as sbatch takes it: its options, and the script in which the command runs. Pure.

The command does not run alone in the batch script: a few lines of sh around it note each run (start, GPUs, exit code) where Slurm would
forget it, pass the checkpoint signal on, outlive the SIGTERM that ends the command (when the batch shell ends, Slurm kills the rest at
once), and ask Slurm to run the job again where that was asked for.
"""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ongpu.lazy import dataclass, field_names
from ongpu.queue.engines import EngineError
from ongpu.queue.job import Spec

NICE = 100  # Slurm's nice points for one of our priority: its factors are of some thousands (priority/multifactor)
NOT_FOUND = 127  # as a shell ends that finds no such command
PER_TASK = frozenset({"command", "index", "output"})  # fields in which the tasks of an array may differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What the cluster and the configuration add. gres: as --gres takes it; memory: MiB where none was asked for and Slurm has no
    default; folder: of the records; ongpu: the words that start it on the nodes; settled: what of `after` is so already."""

    gres: str = ""
    memory: int | None = None
    folder: Path
    ongpu: tuple[str, ...] = ("ongpu",)
    partition: str = ""
    account: str = ""
    qos: str = ""
    wckey: bool = False
    extra: tuple[str, ...] = ()
    settled: frozenset[tuple[str, str]] = frozenset()
    held: bool = False


def groups(specs: Sequence[Spec]) -> list[list[Spec]]:
    """Jobs of their own, and arrays: specs with an index that stand together and differ in nothing but PER_TASK."""
    found: list[list[Spec]] = []
    for spec in specs:
        last = found[-1][-1] if found else None
        if last is not None and spec.index is not None and last.index is not None and _alike(last, spec) and spec.index > last.index:
            found[-1].append(spec)
        else:
            found.append([spec])
    return found


def _alike(a: Spec, b: Spec) -> bool:
    return all(getattr(a, name) == getattr(b, name) for name in field_names(a) if name not in PER_TASK)


def options(specs: Sequence[Spec], where: Where, now: float, comment: str) -> list[str]:
    """sbatch's options for a job, or for an array (its specs by index). now: seconds since the epoch."""
    spec = specs[0]
    found = ["--parsable", "--nodes=1", "--ntasks=1", "--open-mode=append", "--export=ALL", f"--comment={comment}"]
    found.append(f"--job-name={spec.name or Path(spec.command[0]).name or 'ongpu'}")
    if spec.folder:
        found.append(f"--chdir={spec.folder}")
    found.append(f"--output={pattern(specs, where.folder)}")
    if where.gres:
        found.append(f"--gres={where.gres}")
    if memory := spec.host_memory or where.memory:
        found.append(f"--mem={memory}M")
    if spec.cpus:
        found.append(f"--cpus-per-task={spec.cpus}")
    if spec.limit is not None:
        found.append(f"--time={clock(spec.limit)}")
    if spec.index is not None:
        at_once = f"%{spec.at_once}" if spec.at_once else ""
        found.append(f"--array={ranges(one.index for one in specs if one.index is not None)}{at_once}")
    if after := [pair for pair in spec.after if pair not in where.settled]:
        found += [f"--dependency={dependency(after)}", "--kill-on-invalid-dep=yes"]
    if spec.begin is not None and spec.begin > now:
        found.append(f"--begin=now+{math.ceil(spec.begin - now)}seconds")
    found.append("--requeue" if spec.on_reboot == "requeue" or spec.retries or spec.checkpoint else "--no-requeue")
    if spec.checkpoint:
        found.append(f"--signal=B:{spec.checkpoint.removeprefix('SIG')}@{max(1, min(65_535, math.ceil(spec.grace)))}")
    if spec.priority:
        found.append(f"--nice={-NICE * spec.priority}")
    if spec.reservation:
        found.append(f"--reservation={spec.reservation}")
    if spec.project and where.wckey:
        found.append(f"--wckey={spec.project}")
    for name, value in (("partition", where.partition), ("account", where.account), ("qos", where.qos)):
        if value:
            found.append(f"--{name}={value}")
    return [*found, *where.extra, *(["--hold"] if where.held else [])]


def ranges(numbers: Iterable[int]) -> str:
    """ "0-3,10-30:10" of 0, 1, 2, 3, 10, 20, 30."""
    parts: list[list[int]] = []  # first, last, step
    for number in sorted(numbers):
        step = number - parts[-1][1] if parts else 0
        if parts and parts[-1][2] in (0, step):
            parts[-1][1:] = [number, step]
        else:
            parts.append([number, number, 0])
    return ",".join(
        f"{first}" if not step else f"{first},{last}" if step == last - first > 1 else f"{first}-{last}{f':{step}' if step > 1 else ''}"
        for first, last, step in parts
    )


def clock(seconds: float) -> str:
    """ "D-HH:MM:00": Slurm counts whole minutes, so up to the next."""
    minutes = max(1, math.ceil(seconds / 60))
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def dependency(after: Sequence[tuple[str, str]]) -> str:
    """ "afterok:1:2,afterany:3"."""
    found = []
    for kind, word in (("ok", "afterok"), ("any", "afterany")):
        ids = [job for how, job in after if how == kind]
        if ids:
            found.append(":".join([word, *ids]))
    return ",".join(found)


def pattern(specs: Sequence[Spec], folder: Path) -> str:
    """Where sbatch puts the output: the file that was asked for, literally, else one of ours. An array whose tasks have each their own
    writes Slurm's own words into ours (the script sends the command's where they belong)."""
    if specs[0].output and not _own_output(specs):
        place = Path(specs[0].folder or ".", specs[0].output) if specs[0].folder else Path(specs[0].output)
        return str(place).replace("%", "%%")
    ours = str(folder).replace("%", "%%")
    return f"{ours}/%A_%a.out" if specs[0].index is not None else f"{ours}/%j.out"


def _own_output(specs: Sequence[Spec]) -> bool:
    """Whether the script itself sends the command's output to its file: each task has another, or its name holds a backslash, which
    Slurm takes out of any path."""
    return len({spec.output for spec in specs}) > 1 or "\\" in (specs[0].output and specs[0].folder + specs[0].output)


def output(spec: Spec, job: str, folder: Path) -> Path:
    """The file that `pattern` names, of one job."""
    return Path(spec.folder or ".", spec.output) if spec.output else folder / f"{job}.out"


def script(specs: Sequence[Spec], where: Where) -> str:
    """The batch script."""
    spec = specs[0]
    runs = shlex.quote(str(where.folder))
    check = (spec.checkpoint.removeprefix("SIG") or "TERM").upper()
    size = 'ongpu_size=$(stat -L -c %s "${ongpu_out:-/proc/$$/fd/1}" 2>/dev/null) || ongpu_size=0'
    start = '"$ONGPU_ATTEMPT" "$(date +%s)" "${SLURMD_NODENAME:-$(hostname -s)}" "${SLURM_JOB_GPUS:--}" "${ongpu_size:-0}"'
    lines = [
        "#!/bin/sh",
        "# by ongpu submit",
        "ONGPU_JOB=$SLURM_JOB_ID",
        '[ -z "$SLURM_ARRAY_JOB_ID" ] || ONGPU_JOB=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID',
        "ONGPU_ATTEMPT=$((${SLURM_RESTART_COUNT:-0} + 1))",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "export ONGPU_JOB ONGPU_ATTEMPT CUDA_DEVICE_ORDER",
        '[ -z "$SLURM_ARRAY_TASK_ID" ] || export ONGPU_ARRAY_INDEX="$SLURM_ARRAY_TASK_ID"',
        f"ongpu_runs={runs}/$ONGPU_JOB.runs",
        'ongpu_note() { printf \'%s\\n\' "$*" >>"$ongpu_runs"; } 2>/dev/null',
        *_commands(specs),
        size,
        f"ongpu_note start {start}",
        *_folder(spec),
        "ongpu_stopped=",
        *_traps(check),
        *_run(check),
    ]
    lines += _again(spec, where)
    lines += ['ongpu_note end "$ONGPU_ATTEMPT" "$(date +%s)" "$ongpu_code"', 'exit "$ongpu_code"', ""]
    return "\n".join(lines)


def _commands(specs: Sequence[Spec]) -> list[str]:
    """Sets $1 ... to the command, and sends its output where this task has a file of its own."""
    own = _own_output(specs)

    def line(spec: Spec) -> str:
        place = f"; ongpu_out={shlex.quote(str(Path(spec.folder or '.', spec.output)))}" if own and spec.output else ""
        return f"set -- {shlex.join(spec.command)}{place}"

    if len({line(spec) for spec in specs}) == 1:
        lines = [line(specs[0])]
    else:
        lines = ['case "$SLURM_ARRAY_TASK_ID" in', *(f"{spec.index}) {line(spec)} ;;" for spec in specs), "esac"]
    return [*lines, *(['[ -z "$ongpu_out" ] || exec >>"$ongpu_out" 2>&1'] if own else [])]


def _folder(spec: Spec) -> list[str]:
    """Slurm starts a job whose folder is not there in /tmp, and says so in its output alone."""
    if not spec.folder.startswith("/"):
        return []
    place = shlex.quote(spec.folder)
    words = '"ongpu: %s: no such folder on %s: not started（该节点没有这个目录，未启动）\\n"'
    return [
        f"[ . -ef {place} ] || cd -- {place} 2>/dev/null || {{",
        f'    printf {words} {place} "${{SLURMD_NODENAME:-$(hostname -s)}}" >&2',
        f'    ongpu_note end "$ONGPU_ATTEMPT" "$(date +%s)" {NOT_FOUND}',
        f"    exit {NOT_FOUND}",
        "}",
    ]


def _traps(check: str) -> list[str]:
    """Slurm sends SIGTERM at the time limit, for a preemption and when the job is cancelled, and not always to more than this shell: so it
    is passed on, as the signal at which the command saves its state."""
    lines = [f"trap 'ongpu_stopped=1; kill -s {check} \"$ongpu_pid\" 2>/dev/null' TERM"]
    if check != "TERM":
        lines.append(f"trap 'kill -s {check} \"$ongpu_pid\" 2>/dev/null' {check}")
    return lines


def _run(check: str) -> list[str]:
    """A shell without a terminal lets what it starts in the background ignore SIGINT and SIGQUIT; coreutils' env knows a way since 8.31."""
    heeds = f"env --default-signal={check}"
    return [
        *([f'! {heeds} true 2>/dev/null || set -- {heeds} "$@"'] if check in ("INT", "QUIT") else []),
        '"$@" &',
        "ongpu_pid=$!",
        "while :; do",
        '    wait "$ongpu_pid"',
        "    ongpu_code=$?",
        '    kill -0 "$ongpu_pid" 2>/dev/null || break  # else a signal came between',
        "done",
    ]


def _again(spec: Spec, where: Where) -> list[str]:
    """Asks Slurm to run it again; where only a fault of the GPU counts, what the gate says of the job's own GPUs decides."""
    if not spec.retries:
        return []
    words = shlex.join(where.ongpu)
    sick = ":" if spec.retry_on == "any" else "ongpu_sick"
    lines = []
    if spec.retry_on != "any":
        lines += [
            "ongpu_sick() {",
            '    [ -n "$SLURM_JOB_GPUS" ] || return 1',
            f'    ongpu_said=$(env -u CUDA_VISIBLE_DEVICES {words} gate --patience 15 --gpus "$SLURM_JOB_GPUS" 2>/dev/null)',
            '    [ $? -eq 1 ] && [ -n "$ongpu_said" ]',
            "}",
        ]
    return [
        *lines,
        'ongpu_tries=$(grep -c " again$" "$ongpu_runs" 2>/dev/null)',
        f'if [ "$ongpu_code" -ne 0 ] && [ -z "$ongpu_stopped" ] && [ "${{ongpu_tries:-0}}" -lt {spec.retries} ] && {sick}; then',
        '    ongpu_note end "$ONGPU_ATTEMPT" "$(date +%s)" "$ongpu_code" again',
        '    scontrol requeue "$SLURM_JOB_ID" && { trap - TERM; exec sleep 60; }  # Slurm ends this shell, at once where it lets it',
        "fi",
    ]


def gate_words(python: str) -> tuple[str, ...]:
    """How ongpu is started on the nodes: by our own interpreter, which shared homes have, else by its name."""
    ours = shlex.quote(python)
    return ("sh", "-c", f'if [ -x {ours} ]; then exec {ours} -m ongpu "$@"; else exec ongpu "$@"; fi', "ongpu")


def refuse_bad(spec: Spec, root: bool) -> None:
    """Raises EngineError for what sbatch would take in silence and not do."""
    if spec.priority > 0 and not root:
        raise EngineError(
            "Slurm lets only its operators raise a job: give other jobs a lower priority (-1 to -10)",
            "Slurm 只允许管理员提高优先级：请降低其他作业的优先级（-1 到 -10）",
        )


def environment(spec: Spec, ours: Mapping[str, str]) -> dict[str, str]:
    """The environment that sbatch is started with and the job gets. One that names PATH is whole; else it is added to ours."""
    whole = "PATH" in spec.environ
    base = {name: value for name, value in ours.items() if not whole or name in ("SLURM_CONF", "HOME", "USER", "LOGNAME")}
    return {**base, **spec.environ}
