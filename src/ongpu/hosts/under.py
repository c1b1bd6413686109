"""A command below a tool (compute-sanitizer, nsys): its streams, signals and exit code stay its own, whatever the tool makes of them.

compute-sanitizer 2026.4 ends at SIGTERM and leaves the command running, and its exit code is 0 or 255 where the command made no CUDA
call; nsys writes its own words among the command's, and with a time limit it ends long before the command; the compute-sanitizer of
one wheel (nvidia-cuda-sanitizer-api-cu12 12.9.79) says "0" and starts nothing. (All seen with the real programs, without a GPU.) So
this file, run as a script between the tool and the command, gives the command the streams that it would have had, and writes down
its process and how it ended.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # typing itself takes milliseconds to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

STREAMS = "ONGPU_STREAMS"  # where the command's standard output and error are kept: "process,descriptor,device,inode" of each
IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)  # by the script: they are the command's business
CANNOT_RUN, NOT_FOUND = 126, 127  # as shells have them
MOST = 256  # bytes of the file


class Under:
    """What a tool is asked to run, and what became of it. told: a file that does not exist yet; log: where the tool's own words go."""

    def __init__(self, told: str, log: str) -> None:
        self.told, self.log = told, log

    def argv(self, command: list[str]) -> list[str]:
        """What the tool is to run instead of the command."""
        return [sys.executable, "-I", "-S", os.path.abspath(__file__), self.told, *command]

    def prepare(self, environ: dict[str, str]) -> None:
        """In the new process, before the tool: the streams are kept for the command, the tool writes to its log."""
        kept = [os.dup(number) for number in (1, 2)]
        for number in kept:
            os.set_inheritable(number, True)
        environ[STREAMS] = ";".join(f"{os.getpid()},{number},{os.fstat(number).st_dev},{os.fstat(number).st_ino}" for number in kept)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        for number in (1, 2):
            os.dup2(log, number)

    def words(self) -> dict[str, int]:
        """{"pid": n, "ended": wait status}, as far as they are written."""
        try:
            with open(self.told, "rb") as file:
                lines = file.read(MOST).decode("ascii", "replace").split("\n")
        except OSError:
            return {}
        pairs = (line.partition(" ") for line in lines[:-1])  # a line without its end is not written yet
        return {name: int(number) for name, _, number in pairs if number.isdecimal()}

    def pid(self) -> int | None:
        """The command's process; None before it began."""
        return self.words().get("pid")

    def status(self) -> int | None:
        """How the command ended (as wait(2) has it), or -1 where it ended and nobody knows how; None: it runs on."""
        words = self.words()
        if "ended" in words:
            return words["ended"]
        if "pid" not in words:
            return -1
        try:
            os.kill(words["pid"], 0)
        except ProcessLookupError:
            return self.words().get("ended", -1)
        except OSError:
            pass
        return None


def main(told: str, command: list[str]) -> int:
    """Run it with its own streams, and write down its process and its end. The command's exit code, 128 + n for signal n."""
    kept = os.environ.pop(STREAMS, "").split(";")
    for number, words in enumerate(kept if len(kept) == 2 else (), 1):
        file = _kept(*(int(word) for word in words.split(",")))
        os.dup2(file, number)
        os.close(file)
    file = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    pid = os.fork()
    if pid == 0:
        become(command)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.write(file, f"pid {pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(file, f"ended {status}\n".encode())
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _kept(process: int, number: int, device: int, inode: int) -> int:
    """A stream that was kept: inherited, or of the tool's process where the tool closed it for those that it starts."""
    try:
        about = os.fstat(number)
        if (about.st_dev, about.st_ino) == (device, inode):
            return number
    except OSError:
        pass
    return os.open(f"/proc/{process}/fd/{number}", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)


def become(command: list[str], environ: "Mapping[str, str] | None" = None, prepare: "Callable[[], object]" = lambda: None) -> "NoReturn":
    """In a new process, once it is prepared: the command (in this environment where none is given), with the signals that programs
    expect, or the exit codes of shells where it cannot be run."""
    try:
        prepare()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], command, os.environ if environ is None else environ)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        os._exit(NOT_FOUND)
    except BaseException as error:
        os.write(2, f"ongpu: {command[0]}: {getattr(error, 'strerror', None) or error}\n".encode())
    finally:
        os._exit(CANNOT_RUN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
