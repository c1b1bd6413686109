"""What is known about Python and the frameworks in it."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One installed Python package. build: conda's build string or the local version ("cu121", "cpu")."""

    name: str  # normalised: lower case, "-" for "_" and "."
    version: str
    build: str = ""
    channel: str = ""
    location: str = ""
    ref: Ref | None = None
    direct: bool = False  # installed from a file or an address, not from an index (PEP 610)
    prose: bool | None = None  # told in a sentence or banner, not in a list of what is installed

    @property
    def local(self) -> str:
        """The local version: "cu121" of "2.1.0+cu121"."""
        return self.version.partition("+")[2]

    @property
    def public(self) -> str:
        """The version without its local part."""
        return self.version.partition("+")[0]


@dataclass(frozen=True, kw_only=True)
class Packages(Fact):
    """Installed Python packages, by normalised name. `complete`: a whole list, so absence means absence."""

    packages: Mapping[str, Package] = field(default_factory=dict)
    complete: bool | None = None
    duplicates: tuple[Package, ...] = ()  # a second copy of a package on the same path

    def get(self, *names: str) -> Package | None:
        """The first of these that is installed."""
        return next((self.packages[name] for name in names if name in self.packages), None)

    def version(self, name: str) -> str | None:
        """Its version, if installed."""
        package = self.packages.get(name)
        return package.version if package else None

    def cite(self, *names: str) -> tuple[Ref, ...]:
        """The lines that name these packages."""
        return tuple(p.ref for n in names if (p := self.packages.get(n)) and p.ref)


@dataclass(frozen=True, kw_only=True)
class Python(Fact):
    """The interpreter that is examined."""

    version: str | None = None  # "3.12.4"
    executable: str | None = None
    prefix: str | None = None
    conda: bool | None = None
    others: tuple[str, ...] = ()  # other interpreters or environments seen, "path: torch 2.1.0+cpu"
    shadows: tuple[tuple[str, str], ...] = ()  # (module, file): local files that would be imported instead of the package


@dataclass(frozen=True, kw_only=True)
class Torch(Fact):
    """PyTorch. cuda: what it was built for ("12.1"), "" for a CPU-only build."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    archs: tuple[str, ...] | None = None  # compiled architectures: ("sm_80", "sm_90", "compute_90")
    available: bool | None = None  # torch.cuda.is_available()
    device_count: int | None = None
    cudnn: str | None = None
    location: str | None = None
    computed: bool | None = None  # our probe did a computation on every GPU, and it was right
    probe_error: str | None = None
    probed: tuple[tuple[int, str], ...] = ()  # (device, error) of those on which our computation failed
    visible: str | None = None  # CUDA_VISIBLE_DEVICES as the probed process saw it

    def working(self) -> bool:
        """It reaches a GPU."""
        return bool(self.available and self.computed is not False)


@dataclass(frozen=True, kw_only=True)
class TensorFlow(Fact):
    """TensorFlow. cuda: what it was built for, "" for a CPU-only build."""

    version: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    gpus: int | None = None  # devices of type GPU that it lists

    def working(self) -> bool:
        """It lists a GPU."""
        return bool(self.gpus)


@dataclass(frozen=True, kw_only=True)
class Jax(Fact):
    """JAX."""

    version: str | None = None
    backend: str | None = None  # "cpu", "gpu", "cuda"
    plugin: str | None = None  # version of the CUDA plugin

    def working(self) -> bool:
        """It runs on a GPU."""
        return self.backend in ("gpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class OnnxRuntime(Fact):
    """ONNX Runtime and the execution providers that it lists."""

    version: str | None = None
    providers: tuple[str, ...] | None = None
    session: tuple[str, ...] | None = None  # those that a session was given: session.get_providers(), "Applied providers"

    @property
    def cpu_session(self) -> bool:
        """Whether a session runs on the CPU alone."""
        return self.session is not None and not any(p.startswith(("CUDA", "Tensorrt", "Dml", "ROCM")) for p in self.session)

    @property
    def offers_cuda(self) -> bool:
        """Whether the installed package has the CUDA provider."""
        return any(p.startswith(("CUDA", "Tensorrt")) for p in self.providers or ())
