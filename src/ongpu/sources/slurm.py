"""Batch systems: job scripts and their directives, srun and salloc lines, what scontrol and sinfo print; PBS, LSF, SGE, HTCondor."""


import re
from collections.abc import Iterable, Iterator

from ongpu.facts.container import Slurm
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source
from ongpu.sources.commands import parse, split

_DIRECTIVE = lazy(r"^[ \t]*#(?P<kind>SBATCH|PBS|BSUB|\$|COBALT|PJM)[ \t]+(?P<rest>-.*)$", re.MULTILINE)
_SYSTEM = {"SBATCH": "slurm", "PBS": "pbs", "BSUB": "lsf", "$": "sge"}
_GPU_SLURM = lazy(r"(?:--gres|--tres-per-\w+|--gpus(?:-per-\w+)?)[= ]\"?(?P<a>\S+)|(?:^|\s)-G[ =]?(?P<b>\d\S*|\w+:\d+)")
_GPU_OTHER = lazy(r"n?gpus?(?:_\w+)?\s*[=:]\s*(?P<n>\w+)|-gpu\s+(?P<lsf>\S+)|num=(?P<num>\d+)|request_gpus\s*=\s*(?P<condor>\d+)|ngpus_excl_p", re.IGNORECASE)
_CONDOR = lazy(r"^[ \t]*(?P<key>request_gpus|request_cpus|executable|queue)\b[ \t]*=?[ \t]*(?P<v>\S*)", re.MULTILINE | re.IGNORECASE)
_PARTITION = lazy(r"(?:--partition[= ]|(?:^|\s)-p[ =]?)(?P<v>[\w,.-]+)")
_CONSTRAINT = lazy(r"(?:--constraint[= ]|(?:^|\s)-C[ =]?)(?P<v>\S+)")
_VARIABLES = lazy(r"\b(?:SLURM_(?:JOB_ID|JOBID|JOB_NODELIST|NODELIST|PROCID|NTASKS|JOB_PARTITION|STEP_ID|SUBMIT_DIR)|PBS_JOBID|LSB_JOBID)\b[=: ]+[\"']?\w")
_JOB_GPUS = lazy(r"\b(?:SLURM_JOB_GPUS|SLURM_STEP_GPUS|SLURM_GPUS_ON_NODE|SLURM_GPUS|SLURM_JOB_GRES)[=: ]+[\"']?(?P<v>[\w:,\-]*)")
_TRES = lazy(r"^[ \t]*(?:Alloc|Req)?TRES=(?P<v>cpu=\S+|\S*gres/\S+)", re.MULTILINE)
_PER_NODE = lazy(r"\bTresPer(?:Node|Job|Task)=(?P<v>\S+)|\bGres=(?P<g>\S+)")
_SINFO = lazy(r"^[ \t]*(?P<name>[\w*.-]+)[ \t].*?(?P<gres>gpu:[\w:.()\-,]+|\(null\))[ \t]*\S*[ \t]*$", re.MULTILINE)
_LOG = lazy(r"\bslurmstepd:|\bsrun: |\bsbatch: |Submitted batch job|slurmd\[|slurm-\d+\.out|\bSlurm\b|\bSLURM\b|/var/spool/slurm|\bsalloc: ")


_NO = lazy(r"^[ \t#]*(?:False|0|\[\]|No devices were found|.*No CUDA GPUs are available.*)[ \t]*$")


_APART = lazy(r"^[ \t]*srun\b[^\n]{0,200}(?:is_available|device_count|nvidia-smi|list_physical_devices|jax\.devices)[\s\S]{0,2000}?^[ \t]*(?:True[ \t]*\n[ \t]*False|[1-9]\d?[ \t]*\n[ \t]*0)[ \t]*$", re.MULTILINE)


def _asked(rest: str) -> str | None:
    match = _GPU_SLURM.search(rest)
    if not match:
        return None
    value = (match["a"] or match["b"]).strip("\"'")
    named = re.search(r"gpus?", match.group())
    if value.lower().startswith(("none", "0")) or not (named or "gpu" in value or match["b"]):
        return ""
    return value


def _script(evidence: Evidence, text: str) -> Iterator[Fact]:
    found = list(_DIRECTIVE.finditer(text))
    if not found:
        return
    system = _SYSTEM.get(found[0]["kind"], found[0]["kind"].lower())
    rest = [match["rest"].split(" #")[0] for match in found]
    refs = tuple(evidence.ref_at(match.start(), "asked") for match in found)
    gres = ""
    for words in rest:
        asked = _asked(words) if system == "slurm" else (m.group() if (m := _GPU_OTHER.search(words)) and not re.search(r"gpus?=0\b", words) else None)
        if asked:
            gres = asked
            break
    partition = next((m["v"] for words in rest if (m := _PARTITION.search(" " + words))), None)
    constraint = next((m["v"] for words in rest if (m := _CONSTRAINT.search(" " + words))), None)
    memory = next((m[1] for words in rest if (m := re.search(r"--mem(?:-per-cpu)?[= ](\S+)", words))), None)
    blind = bool(not gres and _APART.search(text)) or None  # the same line asked on the node and in a step: only the step is without GPU
    yield Slurm(job=True, gres=gres, system=system, partition=partition, constraint=constraint, memory=memory, step_blind=blind, asked_lines=refs[:8], launcher="sbatch", refs=refs[:4])


def _lines(evidence: Evidence) -> Iterator[Fact]:
    """srun, salloc, sbatch and qsub as typed."""
    for ran in parse(evidence):
        if ran.program not in ("srun", "salloc", "sbatch", "qsub", "bsub", "qlogin", "qrsh") or len(ran.argv) < 2:
            continue
        if ran.program in ("srun", "salloc", "sbatch"):
            inner = _own(split(ran.text))
            rest = " ".join(inner)
            asked = _asked(" " + rest)
            script = ran.program == "sbatch" and any(word.endswith((".sh", ".slurm", ".sbatch", ".job", ".batch")) for word in inner)
            if asked is None and (script or _inside(evidence)):
                continue  # the script asks, or the job that it is a step of
            system = "slurm"
        else:
            match = _GPU_OTHER.search(ran.text)
            asked = match.group() if match else None
            system = {"qsub": "pbs", "bsub": "lsf"}.get(ran.program, "sge")
            if asked is None and not any(word in ran.argv for word in ("-I", "-Is", "-l", "-R")):
                continue
            rest = " ".join(ran.argv)
        constraint = _CONSTRAINT.search(" " + rest)
        partition = _PARTITION.search(" " + rest)
        after = [line for number, line in evidence.lines() if ran.ref.line < number <= ran.ref.line + 4]
        blind = bool(ran.program == "srun" and any(_NO.match(line) for line in after)) or None
        yield Slurm(
            job=True, gres=asked or "", system=system, asked_lines=(ran.ref,), launcher=ran.program, step_blind=blind, step_sees_more=_more(ran.text, asked, evidence, ran.ref.line), partition=partition["v"] if partition else None,
            constraint=constraint["v"] if constraint else None, interactive="--pty" in ran.argv or ran.program in ("salloc", "qlogin", "qrsh") or None, refs=(ran.ref,),
        )
        return


def _more(typed: str, asked: str | None, evidence: Evidence, line: int) -> tuple[int, int] | None:
    """(asked, seen) where a step lists more GPUs than it asked for: `srun --gres=gpu:2 nvidia-smi -L | wc -l` and 16."""
    want = re.search(r"(?:^|:)(\d{1,3})$", asked or "")
    if not want or "srun" not in typed or not re.search(r"nvidia-smi (?:-L|--list-gpus)|device_count|nvidia-smi --query-gpu=(?:index|name|uuid)", typed):
        return None
    after = [text for number, text in evidence.lines() if line < number <= line + 40]
    count = re.match(r"\s*(\d{1,3})\s*$", after[0]) if after else None
    if re.search(r"(?:-n|-N|--ntasks\S*|--nodes)[= ]?(?:[2-9]|1\d)|--gpus-per|--gres=\S+.*--gres|--array", typed):
        return None  # several tasks answer, each with its own
    listed = [int(found[1]) for text in after if (found := re.match(r"\s*GPU (\d{1,3}):", text))]
    seen = int(count[1]) if count else max(listed, default=-1) + 1
    return (int(want[1]), seen) if seen > int(want[1]) else None


def _inside(evidence: Evidence) -> bool:
    """Whether the line stands in a job script."""
    return "#SBATCH" in evidence.text


def _own(words: list[str]) -> list[str]:
    """Options of srun itself: up to the program that it starts."""
    at = next((i for i, word in enumerate(words) if word.rsplit("/", 1)[-1] in ("srun", "salloc", "sbatch")), 0)
    kept, i = [], at + 1
    while i < len(words):
        word = words[i]
        if word.startswith("-"):
            kept.append(word)
            if "=" not in word and not word.startswith(("--pty", "--exclusive", "--unbuffered", "--label", "-l", "-u", "-v", "--overlap", "--mpi")) and i + 1 < len(words):
                kept.append(words[i + 1])
                i += 1
        else:
            if word.endswith((".sh", ".slurm", ".sbatch", ".job", ".batch")):
                kept.append(word)
            break
        i += 1
    return kept


def _shown(evidence: Evidence, text: str) -> Iterator[Fact]:
    """What scontrol, sinfo and the job's environment show."""
    if match := _TRES.search(text):
        yield Slurm(job=True, allocated=match["v"], system="slurm", refs=(evidence.ref_at(match.start(), "allocated"),))
    if (match := _PER_NODE.search(text)) and ("JobId=" in text or "NodeName=" in text):
        value = match["v"] or match["g"]
        node = "NodeName=" in text and "JobId=" not in text
        ref = evidence.ref_at(match.start(), "node_gres" if node else "gres")
        if node:
            yield Slurm(node_gres=value, system="slurm", refs=(ref,))
        elif match["v"] and "gpu" in value:
            yield Slurm(job=True, gres=value, system="slurm", asked_lines=(ref,), refs=(ref,))
    if "sinfo" in (evidence.command or "") or "GRES" in text:
        rows = [m for m in _SINFO.finditer(text) if m["name"] not in ("PARTITION", "NODELIST")]
        if rows:
            yield Slurm(node_gres=rows[0]["gres"], refs=(evidence.ref_at(rows[0].start(), "node_gres"),))
    if match := _JOB_GPUS.search(text):
        gpus = tuple(item for item in match["v"].split(",") if item)
        yield Slurm(job=True, gpus=gpus, system="slurm", refs=(evidence.ref_at(match.start(), "gpus"),))
    if match := _VARIABLES.search(text):
        system = "pbs" if match.group().startswith("PBS") else "lsf" if match.group().startswith("LSB") else "slurm"
        yield Slurm(job=True, system=system, refs=(evidence.ref_at(match.start(), "job"),))
    elif match := _LOG.search(text):
        yield Slurm(system="slurm", refs=(evidence.ref_at(match.start(), "system"),))


def read(evidence: Evidence) -> Iterable[Fact]:
    """What the batch job asked for and what it got."""
    text = evidence.text[:400_000]
    yield from _script(evidence, text)
    yield from _lines(evidence)
    yield from _shown(evidence, text)
    keys = {m["key"].lower(): m for m in _CONDOR.finditer(text)}
    if "queue" in keys and "executable" in keys:
        asked = keys.get("request_gpus")
        refs = tuple(evidence.ref_at(m.start(), "asked") for m in keys.values())
        yield Slurm(job=True, system="htcondor", gres=asked["v"] if asked else "", asked_lines=refs, refs=refs)


def looks_like(evidence: Evidence) -> bool:
    """Whether a batch system is spoken of."""
    low = (evidence.text + (evidence.command or "")).lower()
    return any(word in low for word in ("slurm", "#sbatch", "srun", "sbatch", "salloc", "#pbs", "#bsub", "#$ -", "qsub", "bsub", "pbs_jobid", "queue", "sinfo", "scontrol", "tres=", "qlogin"))


SOURCES = (
    Source(kind="slurm", read=read, looks_like=looks_like, gives=(Slurm,), settle="scontrol show job $SLURM_JOB_ID | grep -i -E 'tres|gres'"),
)
