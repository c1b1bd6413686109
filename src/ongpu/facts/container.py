"""What is known about containers, Kubernetes and Slurm."""

from dataclasses import dataclass

from ongpu.model import Fact, Ref


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


@dataclass(frozen=True, kw_only=True)
class Slurm(Fact):
    """What the batch system gave."""

    job: bool | None = None
    gres: str | None = None  # as asked: "gpu:1"; "" = the script asks for none
    gpus: tuple[str, ...] | None = None  # SLURM_JOB_GPUS, CUDA_VISIBLE_DEVICES of the job
    memory: str | None = None
    limits: tuple[Ref, ...] = ()
