"""Small things that no file or command tells in one piece: the container, driver files, kernel, who holds the GPU, shared memory.

Each line of the answer is a JSON object {"name", "value", "from"}: what, how much, and which file or call said so.
"""

import glob
import json
import os
import re
import stat
import time
from collections.abc import Iterable
from datetime import date
from typing import Any

from ongpu.hosts.live import Live
from ongpu.lazy import lazy

Item = tuple[str, Any, str]
LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current", "/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64",
)  # fmt: skip
VARIABLES = lazy(
    r"^(CUDA|NVIDIA_|NCCL_|PYTORCH_|TORCH_|TF_|XLA_|JAX_|LD_LIBRARY_PATH$|LD_PRELOAD$|SLURM_|VIRTUAL_ENV$|CONDA_|PYTHONPATH$|"
    r"PYTHONHOME$|PYTHONNOUSERSITE$|HIP_|ROCR_|HSA_|GPU_|OMP_NUM_THREADS$|LOCAL_RANK$|RANK$|WORLD_SIZE$|KUBERNETES_SERVICE_HOST$|"
    r"WSL_|PATH$|CUPY_|NUMBA_|OLLAMA_|GGML_|LLAMA_|VLLM_|ACCELERATE_|KERAS_BACKEND$|THEANO_FLAGS$|PJRT_DEVICE$|USE_CPU$|FORCE_C|"
    r"USE_CUDA$|NO_CUDA$|DEVICE$|COLAB_|OPENMM_|MXNET_|PADDLE_|FLAGS_|TRITON_|CUBLAS|container$)"
)
SECRET = lazy(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL", re.IGNORECASE)
MODULE_FOLDERS = (
    "kernel/drivers/video", "kernel/drivers/char/drm", "updates/dkms", "extra", "kernel/nvidia*", "updates", "extra/nvidia",
    "extra/drivers/video/nvidia", "misc", "extramodules", "kernel/drivers/video/nvidia", "weak-updates/nvidia", "kernel/drivers/gpu/nvidia",
)  # fmt: skip
VIRTUAL = (
    ("vmware", "vmware"), ("virtualbox", "virtualbox"), ("innotek", "virtualbox"), ("qemu", "kvm"), ("kvm", "kvm"),
    ("microsoft corporation virtual machine", "hyper-v"), ("xen", "xen"), ("amazon ec2", "kvm"), ("google compute engine", "kvm"),
)  # fmt: skip


def ask(machine: Live, limit: float) -> tuple[str, str | None]:
    """All of it, one JSON object a line. What cannot be read is left out: its absence says so."""
    end = time.monotonic() + limit
    lines = []
    for part in (_system, _container, _driver, _kernel, _leftovers, _shared_memory, _variables, _holders, _mps):
        try:
            lines += [json.dumps({"name": n, "value": v, "from": f}) for n, v, f in part(machine)]
        except OSError as error:
            lines.append(json.dumps({"name": "problem", "value": f"{part.__name__}: {error.strerror}", "from": error.filename}))
        if time.monotonic() > end:
            return "\n".join(lines), f"timed out after {limit:g} s"
    return "\n".join(lines), None


def _architecture() -> str:
    if hasattr(os, "uname"):
        return os.uname().machine.lower()
    return os.environ.get("PROCESSOR_ARCHITECTURE", "").lower()  # Windows; `platform` would cost 2 ms of the start


def _system(machine: Live) -> Iterable[Item]:
    yield "system", machine.system, "sys.platform"
    yield "today", date.today().isoformat(), "date"
    yield "architecture", _architecture(), "uname -m"
    release = machine.text("/etc/os-release")
    for name, key in (("distribution", "ID"), ("distribution_version", "VERSION_ID")):
        if match := re.search(rf'^{key}="?([^"\n]+)', release, re.MULTILINE):
            yield name, match[1].split("-")[0] if name == "distribution" else match[1], "/etc/os-release"
    version = machine.text("/proc/version")
    if "microsoft" in version.lower():
        yield "wsl", 2 if "WSL2" in version or machine.place("/dev/dxg").exists() else 1, "/proc/version"
    if machine.place("/etc/nv_tegra_release").exists() or "tegra" in version.lower():
        yield "jetson", True, "/etc/nv_tegra_release"
    product, vendor = (machine.text(f"/sys/class/dmi/id/{name}").strip() for name in ("product_name", "sys_vendor"))
    if product:
        yield "product", product, "/sys/class/dmi/id/product_name"
    words = f"{vendor} {product}".lower()
    if kind := next((name for word, name in VIRTUAL if word in words), None):
        yield "virtual", kind, "/sys/class/dmi/id/sys_vendor"
    if "amazon ec2" in words or "google compute" in words:
        yield "cloud", f"{vendor} {product}", "/sys/class/dmi/id/product_name"
    if any(name.startswith("COLAB_") for name in machine.environ):
        yield "colab", True, "env"
    if uptime := machine.text("/proc/uptime").split():
        yield "uptime_days", round(float(uptime[0]) / 86400, 2), "/proc/uptime"


def container_of(machine: Live) -> tuple[str, str] | None:
    """(runtime, the file that says so) of the container that we are in; None outside."""
    for path, runtime in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/.singularity.d", "apptainer")):
        if machine.place(path).exists():
            return runtime, path
    if "KUBERNETES_SERVICE_HOST" in machine.environ:
        return "kubernetes", "env"
    names = {"kubepods": "kubernetes", "kubelet": "kubernetes", "libpod": "podman", "io.containerd": "containerd"}
    mounts = "\n".join(line for line in machine.text("/proc/1/mountinfo").splitlines() if " / / " in line or "/etc/hostname" in line)
    for text, path in ((machine.text("/proc/1/cgroup"), "/proc/1/cgroup"), (mounts, "/proc/1/mountinfo")):
        if match := re.search(r"kubepods|kubelet|/docker[/-]|containerd|/lxc[./]|libpod|machine\.slice/libpod", text):
            word = match[0].strip("/-.")
            return names.get(word, word), path
    return None


def _container(machine: Live) -> Iterable[Item]:
    inside = container_of(machine)
    if inside:
        yield "container", *inside
        rules = machine.text("/sys/fs/cgroup/devices/devices.list").split("\n")  # cgroup v1; v2 keeps them in the kernel
        if rules != [""] and not any(rule.startswith(("a ", "c *:", "c 195:")) for rule in rules):
            yield "devices_denied", True, "/sys/fs/cgroup/devices/devices.list"
    elif machine.system == "linux":
        yield "not_in_container", True, "/proc/1/cgroup"
    daemon = machine.text("/etc/docker/daemon.json")
    if daemon:
        yield "docker_daemon", "nvidia" in daemon, "/etc/docker/daemon.json"
    toolkit = next(iter(machine.names("/usr/bin/nvidia-ctk", "/usr/bin/nvidia-container-runtime")), None)
    docker = next(iter(machine.names("/usr/bin/docker", "/usr/bin/podman", "/snap/bin/docker")), None)
    if docker:
        yield "container_engine", docker, docker
        yield "toolkit", toolkit or "", "ls /usr/bin/nvidia-ctk"


def _driver(machine: Live) -> Iterable[Item]:
    seen: set[str] = set()
    for folder in LIBRARIES:
        for path in machine.names(f"{folder}/libcuda.so.[0-9]*.[0-9]*", f"{folder}/libnvidia-ml.so.[0-9]*.[0-9]*"):
            match = re.search(r"\.so\.(\d{3}\.\d{2,3}(?:\.\d{2})?)$", path)
            real = os.path.realpath(machine.place(path))
            if match and real not in seen:
                seen.add(real)
                yield "library", match[1], path
    for path in machine.names("/usr/lib/wsl/lib/libcuda.so*", *(f"{f}/libcuda.so.1" for f in LIBRARIES), "/usr/bin/nvidia-smi"):
        yield "installed", path, path
    if seen:
        helpers = [p for p in machine.names("/usr/bin/nvidia-modprobe", "/usr/sbin/nvidia-modprobe") if _setuid(machine, p)]
        yield "nvidia_modprobe", bool(helpers), helpers[0] if helpers else "/usr/bin/nvidia-modprobe"
    for path in machine.names("/usr/local/cuda-*"):
        if machine.place(path).is_dir():
            yield "cuda_toolkit", path, path


def _setuid(machine: Live, path: str) -> bool:
    try:
        return bool(os.stat(machine.place(path)).st_mode & stat.S_ISUID)
    except OSError:
        return False


def _kernel(machine: Live) -> Iterable[Item]:
    release = machine.text("/proc/sys/kernel/osrelease").strip()
    if not release:
        return
    yield "kernel", release, "/proc/sys/kernel/osrelease"
    if container_of(machine):  # the host's modules are not seen from here
        return
    if machine.place(f"/lib/modules/{release}").exists():
        yield "headers", machine.place(f"/lib/modules/{release}/build").exists(), f"/lib/modules/{release}/build"
        for path in machine.names(*(f"/lib/modules/*/{p}/nvidia{s}.ko*" for p in MODULE_FOLDERS for s in ("", "-current*"))):
            yield "module_file", path.split("/")[3], path
    for path in machine.names("/sys/firmware/efi/efivars/SecureBoot-*"):
        state = machine.place(path).read_bytes()
        if state:
            yield "secure_boot", bool(state[-1]), path
    for path in machine.names("/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf"):
        for name in re.findall(r"^\s*blacklist\s+(nvidia\S*|nouveau)", machine.text(path), re.MULTILINE):
            yield "blacklisted", name, path
    if machine.place("/var/lib/dkms").is_dir():
        yield "dkms_listed", True, "/var/lib/dkms"
    for version in machine.names("/var/lib/dkms/nvidia*/[0-9]*"):
        name, number = version.split("/")[4:6]
        built = [path for path in machine.names(f"{version}/[0-9]*/*") if machine.place(path).is_dir()]
        for path in built:
            kernel, architecture = path.split("/")[6:8]
            files = machine.place(f"{path}/module").exists()
            yield "dkms", f"{name}/{number}, {kernel}, {architecture}: {'installed' if files else 'added'}", path
        if not built:
            yield "dkms", f"{name}/{number}: added", version


def _leftovers(machine: Live) -> Iterable[Item]:
    for path in machine.names("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer", "/var/lib/nvidia/dirs"):
        yield "runfile", path, path
    if match := re.search(r"NVIDIA-Linux-\w+-(\d{3}\.\d{2,3}(?:\.\d{2})?)|driver version[^\d\n]*(\d{3}\.\d{2,3}(?:\.\d{2})?)",
                          machine.text("/var/log/nvidia-installer.log"), re.IGNORECASE):  # fmt: skip
        yield "runfile_version", match[1] or match[2], "/var/log/nvidia-installer.log"


def _shared_memory(machine: Live) -> Iterable[Item]:
    recorded = machine.recorded.get("df -B1 /dev/shm", "").split()
    if len(recorded) >= 3:
        yield "shm", [int(recorded[-5]), int(recorded[-4])], "df -B1 /dev/shm"
    elif machine.commands and hasattr(os, "statvfs") and os.path.isdir("/dev/shm"):
        info = os.statvfs("/dev/shm")
        yield "shm", [info.f_blocks * info.f_frsize, (info.f_blocks - info.f_bfree) * info.f_frsize], "df -B1 /dev/shm"


def _variables(machine: Live) -> Iterable[Item]:
    for name, value in sorted(machine.environ.items()):
        if VARIABLES.match(name):
            yield "variable", [name, "***" if SECRET.search(name) else value[:4000]], "env"


def _holders(machine: Live) -> Iterable[Item]:
    """Processes that have a GPU's device node open: those whose /proc entry we may read."""
    if not next(iter(machine.names("/dev/nvidia[0-9]*")), None):
        return
    root = str(machine.root).rstrip("/")
    for folder in sorted(glob.glob(root + "/proc/[0-9]*/fd")):
        try:
            links = {os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}
        except OSError:
            continue
        nodes = sorted(link for link in links if re.match(r"/dev/nvidia\d", link))
        if nodes:
            pid = int(folder.split("/")[-2])
            yield "holder", [pid, machine.text(f"/proc/{pid}/comm").strip(), nodes[0]], f"/proc/{pid}/fd"


def _mps(machine: Live) -> Iterable[Item]:
    """The pipe of CUDA's multi-process service, and whether its daemon lives (one that died leaves the pipe behind)."""
    pipe = machine.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    if not machine.place(f"{pipe}/control").exists():
        return
    pid = machine.text(f"{pipe}/nvidia-cuda-mps-control.pid").strip()
    lives = machine.place(f"/proc/{pid}").exists() if pid.isdigit() else None
    yield "mps", [pipe, lives], f"{pipe}/control"
