"""The commands that the user ran, split as a shell would: prompts, sudo, VAR=value and timing words taken off."""


import re
import shlex
from collections.abc import Iterable, Iterator

from ongpu.facts.environment import Commands, Ran
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

MAX_RAN = 200
MAX_COMMAND = 6000
MAX_LINES = 50_000

# Programs whose name alone at the start of a line is a command, unless the next word makes it a sentence.
_SURE_TEXT = """
nvidia-smi nvcc nvidia-ctk nvidia-container-cli nvidia-container-toolkit nvidia-docker nvidia-modprobe
nvidia-xconfig docker docker-compose podman nerdctl kubectl helm minikube k3s microk8s crictl ctr pip pip3 pipx
python python2 python3 conda mamba micromamba uv poetry apt apt-get aptitude dpkg rpm dnf yum pacman zypper snap
lspci lsmod modinfo modprobe insmod rmmod dmesg journalctl dkms mokutil uname systemctl ldd ldconfig srun sbatch
salloc squeue scontrol sinfo sacct qsub bsub qrsh nvtop nvitop gpustat fuser lsof torchrun accelerate deepspeed
mpirun mpiexec horovodrun ollama vllm jupyter jupyter-lab singularity apptainer enroot pyxis ray wsl wsl.exe dxdiag
bitsandbytes dcgmi numactl taskset llama-server llama-cli ubuntu-drivers update-initramfs cmake lshw
nvidia-debugdump nvidia-bug-report.sh nvidia-persistenced nv-fabricmanager nvidia-cuda-mps-control deviceQuery
./deviceQuery nvidia-settings powershell gunicorn uvicorn streamlit ktransformers lmdeploy sglang tritonserver
trtexec nsys ncu compute-sanitizer
"""
_SURE = frozenset(_SURE_TEXT.split())
# Words that are programs and English too: they need an argument that looks like one.
_MAYBE_TEXT = """
ls cat echo env export grep find make git cd bash sh source time watch which id kill killall pkill df free top htop
ps head tail mount sudo service getent usermod chmod chown ln rm cp mv mkdir tee sed awk set unset screen tmux nohup
test ninja gcc g++ reboot shutdown node npm cargo go strace printenv whereis readelf nm strings curl wget tar unzip
apt-cache xhost ulimit sysctl
"""
_MAYBE = frozenset(_MAYBE_TEXT.split())
_ENGLISH = ("python", "python3", "python2", "pip", "pip3", "conda", "ray", "make", "snap", "ollama", "git", "docker")
_PROSE = lazy(
    r"(?:is|are|was|were|has|have|had|and|or|with|without|does|doesn'?t|did|didn'?t|can|can'?t|could|cannot|will|would|should|version|versions|says?|"
    r"shows?|showed|prints?|gives?|works?|worked|fails?|failed|seems?|not|reports?|returns?|returned|output|error|errors|on|in|from|image|images|"
    r"container|containers|environment|itself|only|also|inside|outside|host|script|code|still|=|:|->|package|command|lists|sees|driver|:.*|"
    r"\d+(?:\.\d+)+,?|got|looks?|runs?(?= (?:fine|ok|but|without|with no)\b)|has been|the|it|this|but|for|for:|to|that|reported)$",
    re.IGNORECASE,
)
# "$ ", "# ", "user@host:~$ ", "(env) ", "[root@host x]# ", "PS C:\x> ", "C:\x>", "In [3]: !", "%%bash" cells' "!"
_PROMPT = lazy(
    r"^[ \t]{0,8}(?:[-*] )?(?:\([\w.\-]{1,40}\)[ \t]?)*(?:(?:\[?[\w.\-]{1,40}@[\w.\-]{1,60}[^\n$#%>]{0,120})[$#%>][ \t]?|[\w.\-/~]{0,40}\$[ \t]+|[%>#+][ \t]+"
    r"|PS [A-Za-z]:[^\n>]{0,120}>[ \t]?|[A-Za-z]:\\[^\n>]{0,120}>[ \t]?|(?:In ?\[\d*\]:[ \t]*)?!|\$(?=docker|sudo|nvidia|kubectl|pip)|RUN[ \t]+|ExecStart=-?)"
)
_TICKS = lazy(r"`{1,3}(?P<command>[^`\n]{3,600})`{1,3}")
_ASSIGN = lazy(r"^[A-Za-z_][A-Za-z0-9_]{0,60}=.*$", re.DOTALL)
_WRAPPERS = frozenset(("sudo", "env", "time", "nohup", "exec", "command", "stdbuf", "unbuffer", "watch", "timeout", "nice", "ionice", "doas"))
_VALUED = {"sudo": ("-u", "-g", "-h", "-p"), "env": ("-u",), "watch": ("-n",), "nice": ("-n",), "timeout": ("-k", "-s"), "ionice": ("-c", "-n")}
_OPERATORS = frozenset(("|", "||", "&&", ";", "&", "|&", ";;"))
_COMMENT = lazy(r"\s#\s.*$")


def split(text: str) -> list[str]:
    """The words of a command line; plain words where its quotes are not closed. Windows paths keep their backslashes."""
    text = _COMMENT.sub("", text[:MAX_COMMAND])
    windows = bool(re.search(r"[A-Za-z]:\\|\.\\", text))
    try:
        lexer = shlex.shlex(text, posix=not windows, punctuation_chars="|&;")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        words = text.split()
    return [word.strip("\"'") if windows else word for word in words]


def segments(words: Iterable[str]) -> Iterator[list[str]]:
    """The single commands of a line with pipes and &&."""
    part: list[str] = []
    for word in words:
        if word in _OPERATORS:
            if part:
                yield part
            part = []
        else:
            part.append(word)
    if part:
        yield part


def bare(words: list[str]) -> list[str]:
    """Without VAR=value, sudo, env, time, watch and their options."""
    at = 0
    while at < len(words):
        word = words[at]
        name = word.rsplit("/", 1)[-1]
        if _ASSIGN.match(word) and not word.startswith("-"):
            at += 1
        elif name in _WRAPPERS:
            at += 1
            while at < len(words) and words[at].startswith("-"):
                at += 2 if words[at] in _VALUED.get(name, ()) else 1
            if name == "timeout" and at < len(words) and re.match(r"^\d+[smhd]?$", words[at]):
                at += 1
        else:
            break
    found = words[at:]
    if found:
        first = found[0].replace("\\", "/").rsplit("/", 1)[-1] if "\\" in found[0] else found[0]
        found = [re.sub(r"\.exe$", "", first, flags=re.IGNORECASE), *found[1:]]
    return found


def _command(text: str, prompted: bool) -> bool:
    """Whether the line is a command and not a sentence or output."""
    words = text.split(None, 12)
    rest = bare(words)
    if not rest:
        return prompted and bool(words)
    name = re.sub(r"\.exe$", "", rest[0].rsplit("/", 1)[-1].lower())
    if prompted and (name in _SURE or name in _MAYBE or re.match(r"^[\w./~-]+$", rest[0])):
        return not (len(rest) > 1 and name in _SURE and _PROSE.match(rest[1]) and not rest[1].startswith(("run", "image", "container", "-")))
    script = (rest[0].startswith("./") and len(rest[0]) > 3) or bool(re.match(r"python(?:[23](?:\.\d{1,2})?)?$", name))
    if name not in _SURE and name not in _MAYBE and not script:
        return False
    if rest[0] != rest[0].lower() and not script:
        return False  # "Docker version 24": output or prose
    if len(rest) == 1:
        return name in _SURE or script
    if _PROSE.match(rest[1]) and not (name in ("docker", "podman", "kubectl", "nerdctl") and rest[1] in ("run", "image", "version", "container")):
        return False
    sentence = len(rest) > 4 and text.rstrip().endswith(".") and not re.search(r" \.$|/\.$| -", text)
    if name in _ENGLISH and (re.match(r"^[A-Z]", rest[1]) or rest[1][-1:] in ",;" or sentence):
        return False
    if name in _MAYBE:
        return bool(re.match(r"^(?:[-/.~$\"']|\d|[A-Z_]+=)", rest[1]) or "|" in text or re.search(r"\s-{1,2}\w|/", text)) and not text.rstrip().endswith(".")
    return True


def _joined(lines: list[tuple[int, str]], at: int) -> str:
    """The line with those that its trailing backslash (or PowerShell's backtick, cmd's caret) continues."""
    text = lines[at][1].rstrip()
    steps = 0
    while text.endswith(("\\", " `", " ^")) and at + 1 < len(lines) and steps < 60:
        at += 1
        steps += 1
        text = text[:-1].rstrip() + " " + re.sub(r"^[ \t]*>[ \t]", "", lines[at][1]).strip()
    return text


def lines_of(evidence: Evidence) -> Iterator[tuple[str, Ref]]:
    """(command line without its prompt, where it stands) of each line that is a command."""
    lines = evidence.lines()[:MAX_LINES]
    told = re.sub(r"^(?:[#$%>!][ \t]+)+", "", (evidence.command or "").strip())
    shown = False
    until = -1
    for at, (number, line) in enumerate(lines):
        if at <= until or not line.strip() or len(line) > 3 * MAX_COMMAND:
            continue
        match = _PROMPT.match(line)
        text = line[match.end() :] if match else line.strip()
        text = re.sub(r"^(?:\([\w.\-]{1,40}\)[ \t]?)+", "", text.lstrip())
        prompted = bool(match) or bool(told and text.strip() == told)
        if _command(text, prompted):
            whole = _joined([(number, text), *lines[at + 1 : at + 62]], 0)
            until = at
            while lines[until][1].rstrip().endswith(("\\", " `", " ^")) and until + 1 < len(lines):
                until += 1
            shown = shown or (bool(told) and (text.strip().startswith(told[:200]) or told.startswith(text.strip()[:200])))
            yield whole, evidence.ref(number, line)
        elif "`" in line:
            for tick in _TICKS.finditer(line):
                inside = tick["command"].strip()
                inside = inside[_PROMPT.match(inside).end() :] if _PROMPT.match(inside) else inside  # type: ignore[union-attr]
                if len(inside.split()) > 1 and _command(inside, False):
                    yield inside, evidence.ref(number, line)
    if told and not shown:
        yield told, evidence.ref(evidence.first_line, told)


def parse(evidence: Evidence) -> Iterator[Ran]:
    """Every command of the text, those joined by pipes and && one by one."""
    count = 0
    for text, ref in lines_of(evidence):
        for part in segments(split(text)):
            argv = bare(part)
            if argv:
                count += 1
                yield Ran(text=text[:MAX_COMMAND], argv=tuple(argv), ref=ref)
            if count >= MAX_RAN:
                return


def read(evidence: Evidence) -> Iterable[Fact]:
    """The commands that were run, in order."""
    ran = tuple(dict.fromkeys(parse(evidence)))
    if ran:
        yield Commands(ran=ran, refs=tuple(run.ref for run in ran[:4]))


def looks_like(evidence: Evidence) -> bool:
    """Whether a command may stand in it: nearly any text."""
    return bool(evidence.command or evidence.text)


SOURCES = (
    Source(kind="commands", read=read, looks_like=looks_like, gives=(Commands,), settle="the command that was run, with its whole output"),
)
