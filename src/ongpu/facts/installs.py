"""What is known about installs of Python packages: what was asked for, where it was looked for, what came of it."""


from ongpu.lazy import dataclass
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One install: a command, or what pip printed of it.

    tool: "pip", "conda", "uv", "poetry". asked: requirements as typed ("torch==2.5.1", "cudatoolkit=11.3").
    indexes: --index-url, --extra-index-url, -f, or "Looking in indexes"; for conda its channels.
    versions: what the index offered, of "(from versions: ...)"; None where that was not printed.
    """

    tool: str
    asked: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()  # "torch-2.1.0+cpu", of "Successfully installed"
    removed: tuple[str, ...] = ()  # "torch-2.1.0+cu121", of "Found existing installation" with an uninstall
    refused: str | None = None  # the requirement that could not be satisfied
    versions: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()  # --no-deps, --user, --pre ...
    ref: Ref

    def asks(self, *names: str) -> bool:
        """Whether one of these packages was asked for."""
        return any(name_of(item) in names for item in self.asked)


def name_of(requirement: str) -> str:
    """The normalised name of "torch==2.1.0", "pytorch::pytorch=1.9" or "jax[cuda12]"."""
    text = requirement.rsplit("::", 1)[-1]
    for mark in ("[", "=", "<", ">", "!", "~", ";", "@", " "):
        text = text.partition(mark)[0]
    return text.strip().lower().replace("_", "-").replace(".", "-")


@dataclass(frozen=True, kw_only=True)
class Installs(Fact):
    """The installs, in order."""

    installs: tuple[Install, ...] = ()

    def of(self, *names: str) -> tuple[Install, ...]:
        """Those that asked for, brought or were refused one of these packages."""
        return tuple(
            item
            for item in self.installs
            if item.asks(*names)
            or (item.refused and name_of(item.refused) in names)
            or any(done.lower().replace("_", "-").startswith(f"{name}-") for done in item.installed for name in names)
        )
