"""What was pasted around an output: prompts, markdown, quotes, log prefixes, colours. Line numbers stay the user's."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from ongpu.hosts import programs
from ongpu.lazy import lazy
from ongpu.model import Evidence

Line = tuple[int, str]
MAX_PARTS = 300  # commands of one text that are told apart
MAX_BLANK = 4  # blank lines in a row that are kept
MAX_WIDTH = 4000  # characters of one line; a longer one is judged in pieces that share its number
_WIDE = lazy(r"[ \t]{200,}")

_ANSI = lazy(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)?|[()*+][0-9A-Za-z]|[@-Z\\-_=>])"
    r"|[\[\u241b]\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m"  # colours whose escape character was lost or drawn
)
_INVISIBLE = lazy("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_SURROGATE = lazy("[\ud800-\udfff]")
_PROGRAMS = (  # noqa: SIM905
    "nvidia-smi nvidia-settings nvidia-debugdump nvidia-modprobe nvidia-persistenced nv-fabricmanager nvcc "
    "nvidia-ctk nvidia-container-cli dcgmi docker docker-compose podman nerdctl kubectl helm k3s minikube pip "
    "pip3 pipx python python2 python3 py conda mamba micromamba uv pixi apt apt-get apt-cache dpkg rpm dnf yum "
    "pacman zypper brew winget choco snap ls cat less lspci lshw lsmod inxi modinfo modprobe insmod rmmod dmesg "
    "journalctl dkms mokutil uname systemctl service ldd ldconfig echo env printenv export set sudo grep egrep "
    "find srun sbatch salloc squeue scontrol sinfo sacct nvtop nvitop gpustat fuser lsof kill df free top htop ps "
    "head tail make cmake ninja gcc git cd wsl bash sh ./ torchrun accelerate deepspeed ollama vllm jupyter "
    "singularity apptainer enroot readelf nm strings which where whereis poetry time watch id groups lsb_release "
    "hostnamectl ubuntu-drivers update-initramfs module ml curl wget ray mpirun horovodrun Get-WmiObject "
    "Get-CimInstance Get-PnpDevice dxdiag systeminfo wmic pnputil numactl nice nohup "
).split()
_PROGRAM = "|".join(re.escape(p) for p in sorted(_PROGRAMS, key=len, reverse=True))
# "$ cmd", "% cmd", "> cmd", "user@host:~/x$ cmd", "[user@host dir]# cmd", "(env) $ cmd", "PS C:\> cmd", "C:\x> cmd", "# nvidia-smi",
# "sh-5.1# cmd", "+ cmd" of set -x, "In [3]: !cmd" and "!cmd" of notebooks, the arrows of fancy prompts
_PROMPT = lazy(
    r"^\s{0,4}(?:\([\w.\-/]{1,60}\)\s?)?"
    r"(?:(?:\[?[\w.\-]{1,40}@[\w.\-]{1,60}[^\n$#%>]{0,120})[$#%>]\s?|[\w.\-]{0,30}\$\s+|%\s+"
    r"|PS [A-Za-z]:[^\n>]{0,120}>\s?|[A-Za-z]:\\[^\n>]{0,120}>\s?|(?:ba|da|z)?sh-[\d.]{1,6}[#$]\s?"
    rf"|[#>]\s+(?=(?:{_PROGRAM})(?:\s|$))"
    rf"|(?:In \[\d{{1,5}}\]: ?)?[!%](?=(?:{_PROGRAM})(?:\s|$))"
    rf"|\+{{1,3}} (?=(?:sudo )?(?:{_PROGRAM})(?:\s|$))"
    rf"|[➜❯λ»]\s+(?:[~/\w.\-]{{1,80}}\s+)?(?:git:\([^)\n]{{1,60}}\)\s(?:✗\s)?)?(?=(?:{_PROGRAM})(?:\s|$)))"
    r"(?P<command>[^\s|+].{0,2000})$"
)
_SECTION = lazy(r"^_{20,}\s*$")
_SECTION_FILE = lazy(r"^\*\*\* (?P<path>/[^\s*]{1,300})$")
_SECTION_COMMAND = lazy(rf"^(?:/[\w.\-/]{{1,120}}/)?(?P<command>(?:{_PROGRAM})\b.{{0,300}}?):?$")

_FENCE = lazy(r"^\s{0,3}(?:`{3,}|~{3,})[\w.+\- ]{0,40}$")
_TAGS = lazy(r"</?(?:details|summary|pre|code|br|p|b)(?: open)? ?/?>", re.IGNORECASE)
_QUOTE = lazy(r"^(?:> ?)+")
_NUMBERED = lazy(r"^\s{0,8}(?P<n>\d{1,7})(?:\t|: ?| ?[|│] ?)")
_LOG = lazy(
    r"^(?P<all>(?:"
    r"(?P<rank>\[rank\d{1,5}\]: ?|\[?default\d{1,4}\]?: ?|\([\w.:+\- ]{1,60}pid=\d{1,9}[^)\n]{0,80}\) ?"
    r"|\[\d{1,4},\d{1,4}\]<std(?:err|out)>: ?|\d{1,4}: )"
    r"|(?P<journal>(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d))"
    r" [\w.\-]{1,64} (?!kernel)[\w.\-/@()]{1,64}(?:\[\d{1,9}\])?: )"
    r"|(?P<pod>\[pod/[\w.\-/]{1,200}\] )"
    r"|(?P<service>[\w.\-]{1,64} {1,20}\| )"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?: std(?:err|out) [FP])? )"
    r")+)"
)
_TABLE = lazy(
    r"^(?:\+[-=+]{20,}|[|╒╔┌][-=═─|]{10,}|\| NVIDIA-SMI|={10,}NVSMI LOG|Collecting environment info|PyTorch version: )"
)


def lines_of(text: str, first: int = 1) -> list[Line]:
    """The numbered lines, without colours and invisible characters; the states of a progress bar share a number."""
    if _SURROGATE.search(text):
        text = _SURROGATE.sub("?", text)
    if "\x1b" in text or "[0m" in text:
        text = _ANSI.sub("", text)
    text = text.replace("\r\n", "\n").replace("\xa0", " ")
    while "\r\n" in text:  # "\r\r\n", as Windows tools write into pipes
        text = text.replace("\r\n", "\n")
    if "\r" in text and "\n" not in text and text.count("\r") < 10_000 and "%|" not in text:
        text = text.replace("\r", "\n")  # line ends of old
    text = _INVISIBLE.sub("", text)
    lines: list[Line] = []
    blank = 0
    for number, line in enumerate(text.split("\n"), first):
        if not line or line.isspace():
            blank += 1
            if blank <= MAX_BLANK:
                lines.append((number, ""))
            continue
        blank = 0
        if len(line) > MAX_WIDTH or "\r" in line:
            line = _WIDE.sub(" " * 200, line)
            parts = [part for part in line.split("\r") if part.strip()]
            lines += [(number, piece) for part in parts for piece in _pieces(part)]
        else:
            lines.append((number, line))
    return lines or [(first, "")]


def _pieces(line: str) -> Iterator[str]:
    """A line that no program prints, cut where it may be: what reads lines need not be ready for megabytes."""
    while len(line) > MAX_WIDTH:
        cut = line.rfind(" ", MAX_WIDTH // 2, MAX_WIDTH) + 1 or MAX_WIDTH
        yield line[:cut]
        line = line[cut:]
    yield line


def unwrap(lines: list[Line]) -> list[Line]:
    """Without the dress of a forum or a log collector; as many lines as before, with their numbers."""
    lines = _unquote(lines)
    if any(_FENCE.match(line) or "<details" in line or "<summary" in line for _, line in lines):
        lines = [(n, "" if _FENCE.match(line) else _TAGS.sub("", line)) for n, line in lines]
    return _unlog(_unnumber(lines))


def _unquote(lines: list[Line]) -> list[Line]:
    """Without "> " where at least two lines in a row are quoted so (one alone may be a prompt)."""
    if not any(line.startswith(">") for _, line in lines):
        return lines
    result: list[Line] = []
    for quoted, group in groupby(lines, key=lambda item: item[1].startswith(">") and not item[1].startswith(">>>")):
        run = list(group)
        commands = sum(bool(_PROMPT.match(line)) for _, line in run)
        if quoted and len(run) > 1 and commands < len(run):
            run = [(n, _QUOTE.sub("", line, count=1)) for n, line in run]
        result += run
    return result


def _unnumber(lines: list[Line]) -> list[Line]:
    """Without the numbers of `cat -n` and of viewers, where at least five lines count up."""
    found = [_NUMBERED.match(line) for _, line in lines]
    if sum(match is not None for match in found) < 5:
        return lines
    result = list(lines)
    start = 0
    while start < len(lines):
        end, first = start, found[start]
        while first and end < len(lines) and (match := found[end]) and int(match["n"]) == int(first["n"]) + end - start:
            end += 1
        if end - start >= 5:
            for i in range(start, end):
                match = found[i]
                result[i] = (lines[i][0], lines[i][1][match.end() if match else 0 :])
        start = max(end, start + 1)
    return result


def _unlog(lines: list[Line]) -> list[Line]:
    """Tables below a collector's prefix, without it; lines of several ranks that cross each other are put in order.

    Only around tables: tracebacks are read with their prefixes, which tell the ranks apart, and times are worth keeping.
    """
    found = [_LOG.match(line[:400]) for _, line in lines]
    rests = [line[match.end() :] if match else line for (_, line), match in zip(lines, found, strict=True)]
    if not any(match and _TABLE.match(rest) for match, rest in zip(found, rests, strict=True)):
        return lines
    result: list[Line] = []
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and (found[end] is None) == (found[start] is None):
            end += 1
        run = range(start, end)
        if found[start] and any(_TABLE.match(rests[i]) for i in run):
            order = sorted(run, key=lambda i: _who(found[i]))
            result += [(lines[i][0], rests[i]) for i in order]
        else:
            result += lines[start:end]
        start = end
    return result


def _who(match: re.Match[str] | None) -> str:
    return (match["rank"] or match["service"] or match["pod"] or "") if match else ""


def split(lines: Sequence[Line], origin: str) -> Iterator[Evidence]:
    """One Evidence per command that was typed (or section of a bug report); what stands before the first is its own."""
    report = sum(line.startswith("_____") and bool(_SECTION.match(line)) for _, line in lines) >= 3
    start, parts, command = 0, 0, None
    for i, (_, line) in enumerate(lines):
        if parts >= MAX_PARTS:
            break
        if report:
            begins, new = bool(_SECTION.match(line)), None
            if begins:
                new = _section(lines[i + 1 : i + 5])
        else:
            match = _PROMPT.match(line)
            begins, new = match is not None, match["command"].strip() if match else None
        if begins:
            if command or any(text.strip() for _, text in lines[start:i]):
                yield from _evidence(lines[start:i], origin, command)
                parts += 1
            start, command = i, new
    yield from _evidence(lines[start:], origin, command)


def _section(lines: Sequence[Line]) -> str | None:
    """The command that a section of nvidia-bug-report.log shows; a file's section is as if it had been printed."""
    text = next((line.strip() for _, line in lines if line.strip()), "")
    if match := _SECTION_FILE.match(text):
        return "cat " + match["path"].replace("/./", "/")
    match = _SECTION_COMMAND.match(text)
    return match["command"] if match else None


def _evidence(lines: Sequence[Line], origin: str, command: str | None) -> Iterator[Evidence]:
    """The text; of a program, what a person says in it, too: it may quote output."""
    end = len(lines)
    while end > 1 and not lines[end - 1][1].strip():
        end -= 1
    lines = lines[:end]
    first = lines[0][0] if lines else 1
    plain = all(number == first + i for i, (number, _) in enumerate(lines))
    text = "\n".join(line for _, line in lines)
    program = programs.is_program(text)
    numbers = () if plain else tuple(n for n, _ in lines)
    yield Evidence("pasted", text, origin, command, None, first, numbers, ("python", "env_vars") if program else ())
    said = [(lines[number - 1][0], words) for number, words in programs.told(text)] if program else []
    if said:
        yield Evidence("pasted", "\n".join(words for _, words in said), origin, None, None, 1, tuple(number for number, _ in said))
