"""What is known about the operating system, environment variables, and what the user ran."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


@dataclass(frozen=True, kw_only=True)
class Machine(Fact):
    """The operating system and what kind of machine it is."""

    system: str | None = None  # "linux", "windows", "macos"
    wsl: int | None = None  # 1 or 2; None where it is not WSL or nobody said
    distribution: str | None = None  # "ubuntu", "debian", "rhel", "rocky", "fedora", "arch", "opensuse", "nixos" ...
    distribution_version: str | None = None
    architecture: str | None = None  # "x86_64", "aarch64"
    jetson: bool | None = None
    virtual: str | None = None  # "vmware", "kvm", "hyper-v", "xen", "virtualbox"
    cloud: str | None = None  # instance type or provider, as told
    product: str | None = None  # "DGX Spark", "ProLiant DL380"
    colab: bool | None = None
    uptime_days: float | None = None
    today: str | None = None  # the machine's date, "2026-07-01"


@dataclass(frozen=True, kw_only=True)
class Variables(Fact):
    """Environment variables that were told or set; `where` says by what ("env", "Dockerfile", "shell")."""

    values: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, Ref] = field(default_factory=dict)
    complete: bool | None = None
    set_late: tuple[Ref, ...] = ()  # Python code: a line that uses CUDA, and the later one that sets CUDA_VISIBLE_DEVICES
    set_after_import: tuple[Ref, ...] = ()  # Python code: a framework's import, and the later line that sets it

    def get(self, name: str) -> str | None:
        """Its value; None where it was not told."""
        return self.values.get(name)

    def cite(self, *names: str) -> tuple[Ref, ...]:
        """The lines that set these."""
        return tuple(self.lines[name] for name in names if name in self.lines)


@dataclass(frozen=True, slots=True)
class Ran:
    """One command that the user ran. argv is split as a shell would; text is as pasted."""

    text: str
    argv: tuple[str, ...]
    ref: Ref

    @property
    def program(self) -> str:
        """The program's name without its path, after sudo, env and VAR=value."""
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else ""


@dataclass(frozen=True, kw_only=True)
class Commands(Fact):
    """The commands that the user ran, in order."""

    ran: tuple[Ran, ...] = ()

    def of(self, *programs: str) -> tuple[Ran, ...]:
        """The runs of these programs."""
        return tuple(run for run in self.ran if run.program in programs)
