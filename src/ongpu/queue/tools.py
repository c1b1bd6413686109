"""The tools that `ongpu run` can put a command under: what they are asked to do, where to get them, what their words mean. Pure.

Options: https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html, https://docs.nvidia.com/nsight-systems/UserGuide/index.html,
and what the programs themselves say (compute-sanitizer 2026.4 of CUDA 13.5, nsys 2022.4), without a GPU.
"""

from collections.abc import Iterable, Mapping

from ongpu.facts.profile import Profile
from ongpu.facts.sanitizer import Sanitizer
from ongpu.lazy import replace
from ongpu.model import Finding, Report

CHECKS = ("memcheck", "racecheck", "initcheck", "synccheck", "leakcheck")  # leakcheck: memcheck, and what was never freed
PROFILERS = ("auto", "nsys", "torch")
LONGEST = 300  # seconds that nsys records: NVIDIA's guide advises against more than five minutes at a time
REPORT, TRACE = "report.txt", "trace"  # files of a tool
UNUSED = "Target application terminated before first instrumented API call"  # compute-sanitizer's words where nothing was checked
# How to get them: (command, what it is for). The wheel of CUDA 13 checks Turing and newer (its release notes); older cards need CUDA 12's.
GET: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "compute-sanitizer": (
        ("pip install nvidia-cuda-sanitizer-api", "Turing and newer", "Turing 及更新的 GPU"),
        ("conda install -c conda-forge cuda-sanitizer-api", "conda", "conda"),
        ("sudo apt install cuda-sanitizer-12-8", "NVIDIA's repository, Volta too", "NVIDIA 软件源，也支持 Volta"),
        ("sudo apt install nvidia-cuda-toolkit", "Debian, Ubuntu", "Debian、Ubuntu"),
    ),
    "nsys": (
        ("sudo apt install nsight-systems-cli", "NVIDIA's repository", "NVIDIA 软件源"),
        ("sudo apt install nsight-systems", "Debian non-free", "Debian non-free"),
    ),
}  # fmt: skip


def sanitizer(program: str, check: str, folder: str) -> list[str]:
    """compute-sanitizer before a command: its report goes to a file, a program that makes no CUDA call is no error, and the processes
    that it starts are followed (until 2022 they were not, unless asked for)."""
    tool = "memcheck" if check == "leakcheck" else check
    more = ["--leak-check", "full"] if check == "leakcheck" else []
    place = f"{folder}/{REPORT}".replace("%", "%%")  # %p and others mean something in these names
    return [program, "--tool", tool, *more, "--target-processes", "all", "--require-cuda-init", "no", "--log-file", place]


def nsys(program: str, folder: str) -> list[str]:
    """nsys before a command: what CUDA does and what NVTX names. No sampling of the CPU: it needs rights. The command outlives it."""
    traced = ["--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", f"--duration={LONGEST}", "--kill=none"]
    return [program, "profile", *traced, "--output", f"{folder}/{TRACE}".replace("%", "%%")]


def export(program: str, folder: str) -> list[str]:
    """nsys, to turn what it recorded into a database that can be read."""
    return [program, "export", "--type", "sqlite", "--output", f"{folder}/{TRACE}.sqlite", f"{folder}/{TRACE}.nsys-rep"]


def environ(kind: str, given: Mapping[str, str]) -> dict[str, str]:
    """What a command under a sanitizer gets besides: PyTorch's allocator would hide what is beyond or not written, where it is not told
    otherwise (https://docs.pytorch.org/docs/stable/notes/cuda.html)."""
    if kind in ("memcheck", "initcheck", "leakcheck") and "PYTORCH_NO_CUDA_MEMORY_CACHING" not in given:
        return {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    return {}


def missing(name: str) -> tuple[str, str]:
    """Where to get a tool that is not there, in English and Chinese."""
    english = "; ".join(f"{command} ({words})" for command, words, _ in GET[name])
    chinese = "；".join(f"{command}（{words}）" for command, _, words in GET[name])
    return f"{name} is not there: not on PATH, in CUDA_HOME or /usr/local/cuda*. To get it: {english}", (
        f"找不到 {name}（PATH、CUDA_HOME、/usr/local/cuda* 中都没有）。获取方法：{chinese}"
    )


def told(report: Report, origins: Iterable[str]) -> tuple[Finding, ...]:
    """The findings that rest on these files."""
    names = set(origins)
    return tuple(f for f in (*report.findings, *report.hidden) if any(ref.source in names for ref in f.refs))


def only(report: Report, findings: tuple[Finding, ...]) -> Report:
    """A report of these alone."""
    return replace(report, findings=findings, hidden=(), unknown=(), unread=())


def clean(report: Report) -> bool:
    """Whether the sanitizer checked the whole program, and found nothing."""
    fact = report.fact(Sanitizer)
    return bool(fact and fact.working())


def idle(report: Report) -> bool:
    """Whether a profile was read that shows nothing of a GPU."""
    fact = report.fact(Profile)
    return bool(fact and not fact.working())
