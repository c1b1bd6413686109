"""What is known about CUDA libraries, toolkits and the loader."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


@dataclass(frozen=True, kw_only=True)
class Toolkit(Fact):
    """CUDA toolkits and host compilers."""

    nvcc: str | None = None  # "12.1": nvcc --version
    nvcc_path: str | None = None
    cuda_home: str | None = None
    gcc: str | None = None
    cudnn: str | None = None  # cuDNN of the system ("8.9.7")
    told_cuda: str | None = None  # "CUDA 11.7" in prose, without saying which CUDA is meant
    installed: tuple[str, ...] = ()  # toolkit folders found: /usr/local/cuda-12.1


@dataclass(frozen=True, slots=True)
class Loaded:
    """One library as the loader resolves it; path "" = not found."""

    name: str
    path: str
    by: str = ""  # the file that needs it
    ref: Ref | None = None


@dataclass(frozen=True, kw_only=True)
class Loader(Fact):
    """How libraries resolve: ldd, LD_DEBUG, ldconfig -p, our own walk."""

    loaded: tuple[Loaded, ...] = ()
    cache: Mapping[str, str] = field(default_factory=dict)  # ld.so.cache: soname -> path

    def missing(self) -> tuple[Loaded, ...]:
        """Libraries that were needed and not found."""
        return tuple(item for item in self.loaded if not item.path)
