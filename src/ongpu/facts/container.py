"""What is known about containers, Kubernetes and Slurm."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field
from ongpu.model import Fact, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One container that was started, or that a file tells to start (a compose service, a systemd quadlet)."""

    program: str  # "docker", "podman", "nerdctl", "apptainer", "compose"
    image: str = ""
    name: str = ""
    gpu: bool = False  # --gpus, --runtime=nvidia, CDI device, --nv, a device request, nvidia-docker
    gpus: str = ""  # what was asked: "all", "device=0", "nvidia.com/gpu=all"
    nodes: tuple[str, ...] = ()  # /dev/nvidia* passed one by one
    privileged: bool = False
    shm: str = ""  # --shm-size as typed
    ipc: str = ""  # --ipc
    environ: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()  # what runs inside
    ref: Ref | None = None


@dataclass(frozen=True, kw_only=True)
class Container(Fact):
    """The container that the program runs in, or that was asked for."""

    inside: bool | None = None  # the evidence comes from inside a container
    runtime: str | None = None  # "docker", "podman", "containerd", "kubernetes", "apptainer"
    image: str | None = None
    image_cuda: str | None = None  # CUDA of the image: its tag, NVIDIA_REQUIRE_CUDA or banner
    gpu_requested: bool | None = None  # --gpus, device requests, runtime: nvidia, --nv
    privileged: bool | None = None
    capabilities: str | None = None  # NVIDIA_DRIVER_CAPABILITIES
    toolkit: str | None = None  # NVIDIA Container Toolkit version; "" = known to be missing
    toolkit_configured: bool | None = None  # the runtime knows "nvidia"
    docker_desktop: bool | None = None
    rootless: bool | None = None
    snap: bool | None = None
    shm_bytes: int | None = None  # size of /dev/shm
    shm_used: int | None = None
    devices_denied: bool | None = None  # the cgroup refuses the NVIDIA devices
    runs: tuple[Run, ...] = ()  # the run lines and compose services, in order
    context: str | None = None  # the active docker context: "default", "desktop-linux"
    default_runtime: str | None = None  # of dockerd or containerd: "runc", "nvidia"
    runtimes: tuple[str, ...] | None = None  # that the daemon knows
    cgroup_driver: str | None = None  # "systemd", "cgroupfs"
    no_cgroups: bool | None = None  # config.toml of the toolkit
    driver_seen: bool | None = None  # False: the image's entrypoint said that it found no driver
    shm_lines: tuple[Ref, ...] = ()
    kernel_vm: str | None = None  # "linuxkit": the daemon runs in a virtual machine

    @property
    def without_gpu(self) -> tuple[Run, ...]:
        """The runs that asked for no GPU, where none did."""
        return () if any(run.gpu for run in self.runs) else self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod (or the template of a controller) as its manifest or `kubectl describe pod` tells it."""

    name: str = ""
    gpus: int = 0  # the most that it asks of a GPU resource
    resource: str = ""  # "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
    limits: bool = True  # asked in limits; False: only in requests, which Kubernetes refuses
    without: tuple[str, ...] = ()  # containers that ask for none
    images: tuple[str, ...] = ()
    runtime_class: str = ""
    amount: str = ""  # as written: "0.5"
    shm: str = ""  # size limit of a Memory volume on /dev/shm; "unlimited"
    selector: tuple[str, ...] = ()
    tolerates: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    ref: Ref | None = None


@dataclass(frozen=True, kw_only=True)
class Kubernetes(Fact):
    """What the cluster says about GPUs. Counts are of nvidia.com/gpu."""

    capacity: int | None = None
    allocatable: int | None = None
    requested: int | None = None  # by the pod
    per_node: tuple[int, ...] = ()
    plugin_desired: int | None = None  # DESIRED of the device plugin's DaemonSet
    plugin_seen: bool | None = None
    instance_type: str | None = None
    pod_without_gpu: bool | None = None  # a pod spec was given and asks for none
    pods: tuple[Pod, ...] = ()
    listed: bool | None = None  # a node's Capacity was shown whole, so a resource that is not in it is not there
    allocated: int | None = None  # GPUs that running pods hold on the node
    plugin_ready: int | None = None  # READY of the DaemonSet
    plugin_absent: bool | None = None  # it was looked for and nothing came
    resources: Mapping[str, int] = field(default_factory=dict)  # GPU-like resources of the node's allocatable
    runtime_classes: tuple[str, ...] = ()
    plugin_lines: tuple[Ref, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Slurm(Fact):
    """What the batch system gave."""

    job: bool | None = None
    gres: str | None = None  # as asked: "gpu:1"; "" = the script asks for none
    gpus: tuple[str, ...] | None = None  # SLURM_JOB_GPUS, CUDA_VISIBLE_DEVICES of the job
    memory: str | None = None
    limits: tuple[Ref, ...] = ()
    system: str | None = None  # "slurm", "pbs", "lsf", "sge", "htcondor"
    allocated: str | None = None  # TRES that the job got: "cpu=4,mem=16G,node=1,gres/gpu=1"
    node_gres: str | None = None  # GRES of the node or partition: "gpu:a100:4"; "(null)" where it has none
    partition: str | None = None
    constraint: str | None = None
    asked_lines: tuple[Ref, ...] = ()  # the directives or the command that asked for resources
    interactive: bool | None = None  # srun --pty, salloc, qlogin
    launcher: str | None = None  # "srun", "sbatch" of the line
    step_sees_more: tuple[int, int] | None = None  # (GPUs asked for, GPUs that the step lists)
    step_blind: bool | None = None  # what srun started answered that there is no GPU
