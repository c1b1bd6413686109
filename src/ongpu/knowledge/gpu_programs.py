"""Which kind of program a command line starts: one that waits for a person or for requests may hold an idle GPU on purpose."""

from ongpu.knowledge._tables import table

KINDS = ("debugger", "notebook", "server")
MOST = 5  # names at the beginning: `uv run python -m vllm`
PLAIN = ("-m", "-u", "-p", "-s", "-e", "-i", "-o", "-b")  # of Python, without a value; lower-case


def kind(command: str | None) -> str | None:
    """ "debugger", "notebook" or "server"; None for all else."""
    named = _names(command or "")
    return next((sort for sort in KINDS for one in table("gpu_programs")[sort] for name in named if _is(name, one)), None)


def _is(name: str, one: str) -> bool:
    """Whether it is that, or a part of it: a module below it, a process of its own that it has named so."""
    return name == one or name.startswith((one + ".", one + ":"))


def _names(command: str) -> list[str]:
    """The program, and the scripts or modules that it runs: what stands before the first option with a meaning of its own."""
    found: list[str] = []
    for word in command.lower().split()[: 2 * MOST]:
        if word.startswith("-") and word not in PLAIN:
            break
        if not word.startswith("-"):
            found.append(word.rsplit("/", 1)[-1])
    return found[:MOST]
