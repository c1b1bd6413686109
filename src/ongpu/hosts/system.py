"""Small things that no file or command tells in one piece: the PCI bus, the container, who holds the GPU, shared memory.

Each line of the answer is a JSON object {"name", "value", "from"}: what, how much, and which file or call said so.
"""

import glob
import json
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ongpu.hosts.live import Live

Item = tuple[str, Any, str]
LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64",
)  # fmt: skip
VARIABLES = re.compile(
    r"^(CUDA_|NVIDIA_|NCCL_|PYTORCH_|TORCH_|TF_|XLA_|JAX_|LD_LIBRARY_PATH$|LD_PRELOAD$|SLURM_|VIRTUAL_ENV$|CONDA_|PYTHONPATH$|CUDNN|"
    r"HIP_|ROCR_|GPU_|OMP_NUM_THREADS$|LOCAL_RANK$|RANK$|WORLD_SIZE$|KUBERNETES_SERVICE_HOST$|WSL_|PATH$)"
)


def ask(machine: Live, limit: float) -> tuple[str, str | None]:
    """All of it, one JSON object a line. What cannot be read is left out: its absence says so."""
    end = time.monotonic() + limit
    lines = []
    for part in (_system, _container, _driver, _kernel, _leftovers, _shared_memory, _variables, _holders):
        try:
            lines += [json.dumps({"name": n, "value": v, "from": f}) for n, v, f in part(machine)]
        except OSError as error:
            lines.append(json.dumps({"name": "problem", "value": f"{part.__name__}: {error.strerror}", "from": error.filename}))
        if time.monotonic() > end:
            return "\n".join(lines), f"timed out after {limit:g} s"
    return "\n".join(lines), None


def _text(machine: Live, path: str) -> str:
    try:
        return machine.place(path).read_text("utf-8", "replace")[: 1 << 20]
    except OSError:
        return ""


def _names(machine: Live, *patterns: str) -> Iterator[str]:
    root = str(machine.root).rstrip("/")
    for pattern in patterns:
        for path in sorted(glob.glob(root + pattern)):
            yield path[len(root) :]


def _system(machine: Live) -> Iterable[Item]:
    yield "system", machine.system, "sys.platform"
    yield "architecture", platform.machine().lower(), "uname -m"
    release = _text(machine, "/etc/os-release")
    for name, key in (("distribution", "ID"), ("distribution_version", "VERSION_ID")):
        if match := re.search(rf'^{key}="?([^"\n]+)', release, re.MULTILINE):
            yield name, match[1].split("-")[0] if name == "distribution" else match[1], "/etc/os-release"
    version = _text(machine, "/proc/version")
    if "microsoft" in version.lower():
        yield "wsl", 2 if "WSL2" in version or machine.place("/dev/dxg").exists() else 1, "/proc/version"
    if machine.place("/etc/nv_tegra_release").exists() or "tegra" in version.lower():
        yield "jetson", True, "/etc/nv_tegra_release"
    product = _text(machine, "/sys/class/dmi/id/product_name").strip()
    if product:
        yield "product", product, "/sys/class/dmi/id/product_name"
    if uptime := _text(machine, "/proc/uptime").split():
        yield "uptime_days", round(float(uptime[0]) / 86400, 2), "/proc/uptime"


def _container(machine: Live) -> Iterable[Item]:
    cgroup = _text(machine, "/proc/1/cgroup")
    for path, runtime in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/.singularity.d", "apptainer")):
        if machine.place(path).exists():
            yield "container", runtime, path
            break
    else:
        match = re.search(r"kubepods|docker|containerd|lxc|libpod", cgroup)
        if match:
            yield "container", {"kubepods": "kubernetes", "libpod": "podman"}.get(match[0], match[0]), "/proc/1/cgroup"
    daemon = _text(machine, "/etc/docker/daemon.json")
    if daemon:
        yield "docker_daemon", "nvidia" in daemon, "/etc/docker/daemon.json"
    toolkit = next(_names(machine, "/usr/bin/nvidia-ctk", "/usr/bin/nvidia-container-runtime"), None)
    docker = next(_names(machine, "/usr/bin/docker", "/usr/bin/podman", "/snap/bin/docker"), None)
    if docker:
        yield "container_engine", docker, docker
        yield "toolkit", toolkit or "", "ls /usr/bin/nvidia-ctk"


def _driver(machine: Live) -> Iterable[Item]:
    for folder in LIBRARIES:
        for path in _names(machine, f"{folder}/libcuda.so.[0-9]*.[0-9]*", f"{folder}/libnvidia-ml.so.[0-9]*.[0-9]*"):
            if match := re.search(r"\.so\.(\d{3}\.\d{2,3}(?:\.\d{2})?)$", path):
                yield "library", match[1], path
    for path in _names(machine, "/usr/lib/wsl/lib/libcuda.so*", *(f"{f}/libcuda.so.1" for f in LIBRARIES), "/usr/bin/nvidia-smi"):
        yield "installed", path, path
    if machine.place("/usr/local/cuda").exists():
        for path in _names(machine, "/usr/local/cuda-*"):
            yield "cuda_toolkit", path, path


def _kernel(machine: Live) -> Iterable[Item]:
    release = _text(machine, "/proc/sys/kernel/osrelease").strip()
    if not release:
        return
    yield "kernel", release, "/proc/sys/kernel/osrelease"
    if machine.place("/lib/modules").exists():
        yield "headers", machine.place(f"/lib/modules/{release}/build").exists(), f"/lib/modules/{release}/build"
        patterns = ("kernel/drivers/video", "kernel/drivers/char/drm", "updates/dkms", "extra", "kernel/nvidia*", "updates", "extra/nvidia", "misc")
        for path in _names(machine, *(f"/lib/modules/*/{p}/nvidia.ko*" for p in patterns), "/lib/modules/*/updates/dkms/nvidia*-current.ko*"):
            yield "module_file", path.split("/")[3], path
    for path in _names(machine, "/sys/firmware/efi/efivars/SecureBoot-*"):
        state = machine.place(path).read_bytes()
        if state:
            yield "secure_boot", bool(state[-1]), path
    for path in _names(machine, "/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf"):
        for name in re.findall(r"^\s*blacklist\s+(nvidia\S*|nouveau)", _text(machine, path), re.MULTILINE):
            yield "blacklisted", name, path
    for path in _names(machine, "/var/lib/dkms/nvidia*/*/*/*"):
        parts = path.split("/")
        if len(parts) == 8 and re.match(r"\d", parts[5]) and re.match(r"\d", parts[6]):
            yield "dkms", f"nvidia/{parts[5]}, {parts[6]}, {parts[7]}: installed", path


def _leftovers(machine: Live) -> Iterable[Item]:
    for path in _names(machine, "/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer", "/var/log/nvidia-installer.log"):
        yield "runfile", path, path


def _shared_memory(machine: Live) -> Iterable[Item]:
    if hasattr(os, "statvfs") and machine.place("/dev/shm").is_dir():  # noqa: S108
        info = os.statvfs(machine.place("/dev/shm"))  # noqa: S108
        yield "shm", [info.f_blocks * info.f_frsize, (info.f_blocks - info.f_bfree) * info.f_frsize], "df -B1 /dev/shm"


def _variables(machine: Live) -> Iterable[Item]:
    for name, value in sorted(machine.environ.items()):
        if VARIABLES.match(name):
            yield "variable", [name, value[:4000]], "env"


def _holders(machine: Live) -> Iterable[Item]:
    """Processes that have a GPU's device node open: those whose /proc entry we may read."""
    if not next(_names(machine, "/dev/nvidia[0-9]*"), None):
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
            yield "holder", [pid, _text(machine, f"/proc/{pid}/comm").strip(), nodes[0]], f"/proc/{pid}/fd"


def pci(machine: Live, limit: float) -> tuple[str, str | None]:
    """The display and compute devices of /sys/bus/pci, one JSON object a line; `bus` counts all devices."""
    del limit  # sysfs answers at once
    folders = list(_names(machine, "/sys/bus/pci/devices/*"))
    lines = [json.dumps({"bus": len(folders)})]
    for folder in folders:
        get: dict[str, Any] = {n: _text(machine, f"{folder}/{n}").strip() for n in ("vendor", "device", "class")}
        display = get["class"].startswith(("0x03", "0x12"))
        if not display and get["vendor"] != "0x10de":
            continue
        for name in ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width"):
            get[name] = _text(machine, f"{folder}/{name}").strip()
        driver = machine.place(f"{folder}/driver")
        regions = [r.split() for r in _text(machine, f"{folder}/resource").splitlines()[:6]]
        get["driver"] = os.path.basename(os.path.realpath(driver)) if driver.exists() else ""
        get["no_bar"] = bool(regions) and all(int(r[1], 16) == 0 for r in regions if len(r) == 3)
        lines.append(json.dumps({"slot": os.path.basename(folder), **get}))
    return "\n".join(lines), None if folders else "no PCI bus is visible here"
