"""Other machines, asked over ssh in parallel: ongpu's own answer where it is installed there, else what nvidia-smi and the kernel say."""

import os
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ongpu.hosts.processes import bounded, which
from ongpu.lazy import dataclass

AT_ONCE = 32  # connections at a time: each is a process here, and a burst of them trips sshd's MaxStartups on a jump host
OURS = "@ongpu"  # the line before ongpu's own JSON
# Asked where ongpu is not: each in the shape in which people paste it, a prompt and the output, so that the same sources read it.
PLAIN = ("nvidia-smi -q", "lspci -nn -d 10de:", "dmesg --color=never", "uname -r")
SSH_FAILED = "exit status 255"  # ssh's own failure; every other status is the command's


@dataclass(frozen=True, slots=True)
class Answer:
    """What a machine printed. ours: ongpu's JSON, else pasted text. problem: why there is none (then text holds ssh's words)."""

    host: str
    text: str
    ours: bool = False
    problem: str = ""


def script(lang: str) -> str:
    """What the remote shell runs; read-only. `sh -c`, for the login shell may be another one."""
    plain = "; ".join(f"echo '$ {command}'; {command} 2>&1 | tail -n 4000" for command in PLAIN)
    ours = f"if command -v ongpu >/dev/null 2>&1; then echo {OURS}; exec ongpu doctor --format json --lang {lang}; fi"
    return f"sh -c {shlex.quote(f'{ours}; {plain}')}"


def ask(
    hosts: Sequence[str], limit: float, lang: str, ssh: Sequence[str] = ("ssh",), told: Callable[[Answer], object] = lambda answer: None
) -> list[Answer]:
    """The answer of each host, in their order; `limit` seconds for each. told: called with each answer as it comes.

    ssh: the program and options of the user's own ("ssh", "-F", "file"). Never asks for a password (BatchMode), never takes an
    unknown host key by itself.
    """
    program = which(ssh[0], os.environ.get("PATH"))
    if program is None:
        return [Answer(host, "", problem=f"no program {ssh[0]} on this machine") for host in hosts]

    def one(host: str) -> Answer:
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, int(limit / 2))}", "-o", "LogLevel=ERROR", "-T"]
        text, problem = bounded([program, *ssh[1:], *options, "--", host, script(lang)], limit, os.environ)
        answer = read(host, text, problem)
        told(answer)
        return answer

    with ThreadPoolExecutor(max_workers=max(1, min(AT_ONCE, len(hosts)))) as pool:
        return list(pool.map(one, hosts))


def read(host: str, text: str, problem: str | None) -> Answer:
    """What was printed, told apart: ongpu's answer, other tools' output, or ssh's failure."""
    if problem == SSH_FAILED or (problem and problem.startswith(("timed out", "ended by"))):
        words = text.strip().splitlines()[-1][:200] if problem == SSH_FAILED and text.strip() else problem
        return Answer(host, text, problem=words)
    before, mark, answer = text.partition(f"{OURS}\n")
    return Answer(host, answer, ours=True) if mark else Answer(host, before)
