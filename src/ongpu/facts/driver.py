"""What is known about the NVIDIA driver: user space, kernel module, device nodes, packages."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


@dataclass(frozen=True, kw_only=True)
class Driver(Fact):
    """The driver. Versions as printed ("535.183.01")."""

    version: str | None = None  # user space: nvidia-smi, libcuda, NVML
    module: str | None = None  # the loaded kernel module: /proc/driver/nvidia/version, "NVRM: loading ..."
    module_on_disk: str | None = None  # modinfo
    cuda: str | None = None  # newest CUDA the driver knows: nvidia-smi "CUDA Version", cuDriverGetVersion
    flavour: str | None = None  # "open" or "proprietary" kernel module
    module_loaded: bool | None = None
    uvm_loaded: bool | None = None
    nouveau_loaded: bool | None = None
    installed: bool | None = None  # user-space files or packages are there
    nvml: str | None = None  # NVML's answer to init: "ok" or its error text
    smi_works: bool | None = None
    hung: bool | None = None  # a call into the driver did not return within its limit
    on_disk: bool | None = None  # whether a module file for the running kernel is there (modinfo, modprobe)
    hung_in: str | None = None  # which call: "nvmlInit", "GPU 3"
    modprobe: bool | None = None  # nvidia-modprobe is there and setuid: it loads modules and makes nodes at the first CUDA call


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One device node. mode as ls prints it ("crw-rw-rw-")."""

    path: str
    mode: str | None = None
    owner: str | None = None
    group: str | None = None
    openable: bool | None = None  # whether this user could open it
    problem: str | None = None
    ref: Ref | None = None


@dataclass(frozen=True, kw_only=True)
class Nodes(Fact):
    """The /dev/nvidia* nodes, as listed. `listed`: the listing covers all of them, so absence means absence."""

    nodes: tuple[Node, ...] = ()
    listed: bool | None = None
    absent: tuple[str, ...] = ()  # paths that were asked for and are not there
    user: str | None = None  # of `id`
    groups: tuple[str, ...] | None = None  # groups of that user

    def has(self, path: str) -> bool:
        """Whether the node was listed."""
        return any(node.path == path for node in self.nodes)


@dataclass(frozen=True, kw_only=True)
class Kernel(Fact):
    """The kernel and what it was told."""

    release: str | None = None  # uname -r
    booted_with: str | None = None  # /proc/cmdline
    secure_boot: bool | None = None
    headers: bool | None = None  # headers of the running kernel are installed
    dkms: tuple[str, ...] = ()  # "nvidia/535.183.01, 6.1.0-18-amd64: installed", as `dkms status` prints
    modules_for: tuple[str, ...] = ()  # kernel releases that an nvidia.ko was found for
    blacklisted: tuple[str, ...] = ()  # modules blacklisted in modprobe.d
    dkms_listed: bool | None = None  # `dkms status` was shown whole, so what is not in `dkms` is not there
    lockdown: bool | None = None  # kernel_lockdown refuses unsigned modules


@dataclass(frozen=True, kw_only=True)
class SystemPackages(Fact):
    """Packages of the distribution (dpkg, rpm, pacman) that matter here: name -> version; and the leftovers of others."""

    packages: Mapping[str, str] = field(default_factory=dict)
    half_installed: tuple[str, ...] = ()  # removed with configuration left, or broken ("rc", "iF")
    runfile: tuple[str, ...] = ()  # files that only NVIDIA's .run installer leaves
    upgrades: tuple[str, ...] = ()  # "libnvidia-compute-535 535.54 -> 535.86", from apt or dnf history
    listed: bool | None = None  # the NVIDIA packages were listed whole, so absence means absence
    runfile_version: str | None = None  # of NVIDIA-Linux-x86_64-<version>.run
    source_version: str | None = None  # of open-gpu-kernel-modules that were built by hand
    library_versions: tuple[str, ...] = ()  # driver versions of libcuda.so.*, libnvidia-ml.so.* on disk
    unattended: bool | None = None  # an upgrade was done by unattended-upgrade


@dataclass(frozen=True, kw_only=True)
class Services(Fact):
    """systemd units by name -> state ("active", "inactive", "failed", "missing")."""

    states: Mapping[str, str] = field(default_factory=dict)
