"""Every fault that a live machine can show: how a healthy box is broken, and the slug that must come first."""

from collections.abc import Callable
from dataclasses import dataclass

from parts.machines import BOOT, DRIVER, KERNEL, Box, build_library


@dataclass(frozen=True)
class Fault:
    """slugs: any of these may come first (where two are equally right). sure: it is an error or a warning, not a note.

    repair: words of which at least one must stand in the repair commands or the remedy's words.
    """

    name: str
    breaks: Callable[[Box], None]
    slugs: tuple[str, ...]
    repair: tuple[str, ...] = ()
    note: bool = False


FAULTS: list[Fault] = []


def fault(
    *slugs: str, repair: tuple[str, ...] = (), note: bool = False
) -> Callable[[Callable[[Box], None]], Callable[[Box], None]]:
    """Put a way to break a box into the list."""

    def add(breaks: Callable[[Box], None]) -> Callable[[Box], None]:
        FAULTS.append(Fault(breaks.__name__, breaks, slugs, repair, note))
        return breaks

    return add


def unload(box: Box) -> None:
    """No module in the kernel."""
    box.module, box.modules, box.bus_driver, box.log = None, [], "", [BOOT]


def inside_docker(box: Box) -> None:
    """The same machine seen from a container that was given the GPU."""
    box.files["/.dockerenv"] = ""
    box.packages, box.services = {}, {}
    box.environ |= {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


# -- hardware ---------------------------------------------------------------------------------------------------------


@fault("no-nvidia-gpu")
def card_absent(box: Box) -> None:
    unload(box)
    box.absent, box.driver, box.packages = tuple(range(box.cards)), None, {}


@fault("gpu-not-on-bus")
def card_gone_with_driver_installed(box: Box) -> None:
    unload(box)
    box.absent = tuple(range(box.cards))


@fault("power-cable-missing", repair=("power", "cable"))
def power_cable(box: Box) -> None:
    last = box.slot(box.cards - 1)
    box.break_log(
        f"NVRM: GPU {last}: GPU does not have the necessary power cables connected.",
        f"NVRM: GPU {last}: RmInitAdapter failed! (0x24:0x1c:1435)",
        f"NVRM: GPU {last}: rm_init_adapter failed, device minor number {box.cards - 1}",
    )
    box.nvml.append(f"gpu.{box.cards - 1}.handle_error = 8")


@fault("pcie-link-degraded", repair=("slot", "reseat", "riser"))
def pcie_width_under_load(box: Box) -> None:
    last = box.cards - 1
    box.nvml += [f"gpu.{last}.pcie_width = 4", f"gpu.{last}.util = 97", f"gpu.{last}.power_mw = 280000"]
    box.links[last] = {"current_link_width": "4"}


@fault("ecc-uncorrectable")
def ecc_volatile(box: Box) -> None:
    box.nvml.append(f"gpu.{box.cards - 1}.ecc_vol_unc = 3")


@fault("row-remap-failure", repair=("nvidia-smi --gpu-reset", "reset", "reboot"))
def remap_pending(box: Box) -> None:
    box.nvml += [f"gpu.{box.cards - 1}.remap_cor = 1", f"gpu.{box.cards - 1}.remap_pending = 1"]


@fault("ecc-uncorrectable", "row-remap-failure", repair=("reset", "reboot"))
def remap_pending_after_an_error(box: Box) -> None:
    box.nvml += [f"gpu.{box.cards - 1}.remap_unc = 1", f"gpu.{box.cards - 1}.remap_pending = 1"]


@fault("row-remap-failure", repair=("replace", "RMA"))
def remap_failed(box: Box) -> None:
    box.nvml += [f"gpu.{box.cards - 1}.remap_unc = 8", f"gpu.{box.cards - 1}.remap_failed = 1"]


@fault("gpu-fell-off-bus")
def xid_79(box: Box) -> None:
    last = box.slot(box.cards - 1)
    box.break_log(
        f"NVRM: Xid (PCI:{last[:-2]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        f"NVRM: GPU {last}: GPU has fallen off the bus.",
    )
    box.nvml.append(f"gpu.{box.cards - 1}.handle_error = 15")
    box.dead = (box.cards - 1,)


@fault("gpu-fell-off-bus")
def lost_in_nvml(box: Box) -> None:
    box.nvml.append(f"gpu.{box.cards - 1}.handle_error = 15")


@fault("gpu-fell-off-bus")
def lost_while_asked(box: Box) -> None:
    box.nvml.append(f"gpu.{box.cards - 1}.error = 15")


@fault("ecc-uncorrectable")
def xid_48(box: Box) -> None:
    bus = box.slot(box.cards - 1)[:-2]
    box.break_log(
        f"NVRM: Xid (PCI:{bus}): 48, pid=2312, name=python3, DBE (double bit error) ECC Error",
        f"NVRM: Xid (PCI:{bus}): 45, pid=2312, name=python3, Ch 00000008",
    )


@fault("gsp-timeout")
def xid_119(box: Box) -> None:
    bus = box.slot(box.cards - 1)[:-2]
    box.break_log(
        f"NVRM: Xid (PCI:{bus}): 119, pid=2110, name=python3, Timeout after 6s of waiting for RPC response from GPU GSP! "
        "Expected function 76 (GSP_RM_CONTROL) (0x2080012b 0x4)."
    )


@fault("nvlink-error")
def xid_74(box: Box) -> None:
    bus = box.slot(box.cards - 1)[:-2]
    box.break_log(
        f"NVRM: Xid (PCI:{bus}): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 2(0x10000, 0x0, 0x0)"
    )


@fault("nvlink-error")
def nvlink_down(box: Box) -> None:
    box.name, box.devid = "NVIDIA A100-SXM4-80GB", "20b2"
    box.nvml += ["gpu.*.nvlinks = 12", f"gpu.{box.cards - 1}.nvlink_inactive = 3"]


@fault("thermal-throttle", repair=("cool", "fan", "airflow", "dust"))
def thermal(box: Box) -> None:
    last = box.cards - 1
    box.nvml += [
        f"gpu.{last}.reasons = 0x48",
        f"gpu.{last}.temp = 91",
        f"gpu.{last}.util = 99",
        f"gpu.{last}.sm_clock = 600",
    ]


@fault("thermal-throttle")
def thermal_by_software(box: Box) -> None:
    last = box.cards - 1
    box.nvml += [
        f"gpu.{last}.reasons = 0x20",
        f"gpu.{last}.temp = 86",
        f"gpu.{last}.util = 99",
        f"gpu.{last}.sm_clock = 900",
    ]


@fault("power-throttle")
def power_brake(box: Box) -> None:
    last = box.cards - 1
    box.nvml += [f"gpu.{last}.reasons = 0x88", f"gpu.{last}.util = 99", f"gpu.{last}.sm_clock = 400"]


@fault("power-throttle", repair=("nvidia-smi -pl", "-pl", "--power-limit", "power limit"))
def power_limit_lowered(box: Box) -> None:
    last = box.cards - 1
    box.nvml += [
        f"gpu.{last}.reasons = 0x4", f"gpu.{last}.util = 99", f"gpu.{last}.sm_clock = 700",
        f"gpu.{last}.limit_mw = 150000", f"gpu.{last}.power_mw = 149000",
    ]  # fmt: skip


@fault("compute-capability-too-new")
def torch_too_old_for_the_card(box: Box) -> None:
    box.name, box.devid, box.capability = "NVIDIA GeForce RTX 5090", "2b85", 120
    box.driver = box.module = "570.133.07"
    box.log = [
        BOOT,
        f"[    8.6] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {box.driver}  Release Build\n",
    ]
    box.packages = {name.replace("535", "570"): v.replace(DRIVER, box.driver) for name, v in box.packages.items()}
    box.nvml.append("cuda = 12080")


@fault("compute-capability-too-old", "driver-too-old-for-cuda", repair=("cu118",))
def no_build_for_kepler(box: Box) -> None:
    box.name, box.devid, box.capability = "Tesla K80", "102d", 37
    box.driver = box.module = "470.256.02"
    box.log = [BOOT, f"[    8.6] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {box.driver}  Thu May  2 14:37:44 UTC 2024\n"]
    box.packages = {name.replace("535", "470"): v.replace(DRIVER, box.driver) for name, v in box.packages.items()}
    box.nvml.append("cuda = 11040")


@fault("compute-capability-too-old", "wrong-index-for-gpu", repair=("cu126",))
def torch_too_new_for_the_card(box: Box) -> None:
    """The build for CUDA 13 has dropped Pascal; the one for 12.6 of the same version has not."""
    box.name, box.devid, box.capability = "NVIDIA GeForce GTX 1080", "1b80", 61
    box.driver = box.module = "580.95.05"
    box.log = [BOOT, f"[    8.6] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {box.driver}  Tue Sep 23 10:11:16 UTC 2025\n"]
    box.packages = {name.replace("535", "580"): v.replace(DRIVER, box.driver) for name, v in box.packages.items()}
    box.nvml.append("cuda = 13000")
    torch_for_cuda_13(box)


def torch_for_cuda_13(box: Box) -> None:
    """A PyTorch that needs driver 580, with its wheels."""
    box.wheels = {k: v for k, v in box.wheels.items() if "cu12" not in k}
    box.wheels |= {"torch": "2.9.1+cu130", "torchvision": "0.24.1+cu130", "triton": "3.5.1"}
    box.wheels |= {"nvidia_cublas": "13.0.0.19", "nvidia_cuda_runtime": "13.0.48", "nvidia_cudnn_cu13": "9.13.0.50"}
    box.cuda = "13.0"


# -- driver -----------------------------------------------------------------------------------------------------------


@fault("driver-not-installed", repair=("ubuntu-drivers", "apt"))
def no_driver(box: Box) -> None:
    unload(box)
    box.driver, box.packages = None, {}


@fault("driver-module-not-loaded", repair=("modprobe nvidia",))
def module_not_loaded(box: Box) -> None:
    unload(box)


@fault("device-node-missing", repair=("nvidia-modprobe",))
def no_nodes(box: Box) -> None:
    box.nodes = False
    box.nvml.append("error.Init = 9")


@fault("device-permission-denied", repair=("usermod", "chmod", "udev", "group"))
def nodes_closed(box: Box) -> None:
    box.node_mode = 0o600
    box.nvml.append("error.Init = 4")


@fault("driver-library-mismatch", repair=("reboot",))
def upgraded_without_reboot(box: Box) -> None:
    box.driver = "535.216.03"
    box.packages = {name: v.replace(DRIVER, "535.216.03") for name, v in box.packages.items()}
    box.nvml.append("error.Init = 18")
    box.files["/var/log/apt/history.log"] = (
        "Start-Date: 2024-11-05  06:11:02\nCommandline: /usr/bin/unattended-upgrade\nUpgrade: libnvidia-compute-535-server:amd64 "
        f"({DRIVER}-0ubuntu0.22.04.1, 535.216.03-0ubuntu0.22.04.1), vim:amd64 (1, 2)\nEnd-Date: 2024-11-05  06:12:14\n"
    )


@fault("nouveau-conflict", repair=("nouveau",))
def nouveau(box: Box) -> None:
    unload(box)
    box.modules, box.bus_driver = ["nouveau"], "nouveau"
    box.break_log("nouveau 0000:1a:00.0: NVIDIA GA100 (170000a1)")


@fault("secure-boot-unsigned-module", repair=("mokutil",))
def secure_boot(box: Box) -> None:
    unload(box)
    box.secure_boot = True
    box.log = [BOOT.replace("Secure boot disabled", "Secure boot enabled")]
    box.break_log(
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
        "Loading of unsigned module is rejected",
    )


@fault("driver-module-build-failed", repair=("linux-headers",))
def no_module_for_this_kernel(box: Box) -> None:
    unload(box)
    box.on_disk = False
    box.files[f"/var/lib/dkms/nvidia/{DRIVER}/5.15.0-112-generic/x86_64/module/nvidia.ko"] = ""
    box.files["/lib/modules/5.15.0-112-generic/updates/dkms/nvidia.ko"] = ""
    box.packages.pop("linux-headers-5.15.0-113-generic")
    box.remove = [f"/lib/modules/{KERNEL}/build/Makefile"]


@fault("mixed-driver-installs")
def package_and_runfile(box: Box) -> None:
    box.files |= {
        "/usr/bin/nvidia-uninstall": "", "/usr/bin/nvidia-installer": "", "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14": "x",
        "/var/log/nvidia-installer.log": "nvidia-installer log file '/var/log/nvidia-installer.log'\ndriver version: 550.54.14\n",
    }  # fmt: skip


@fault("uvm-module-missing", repair=("modprobe nvidia-uvm", "nvidia-modprobe -u", "nvidia_uvm"))
def no_uvm(box: Box) -> None:
    box.uvm_node = box.modprobe = False
    box.modules.remove("nvidia_uvm")


@fault("fabric-manager-not-running", repair=("nvidia-fabricmanager",))
def fabric_manager_down(box: Box) -> None:
    box.name, box.devid, box.switches = "NVIDIA A100-SXM4-80GB", "20b2", 6
    box.services["nvidia-fabricmanager"] = "failed"


@fault("fabric-manager-not-running", repair=("fabricmanager-535",))
def fabric_manager_not_installed(box: Box) -> None:
    box.name, box.devid, box.switches = "NVIDIA A100-SXM4-80GB", "20b2", 6


@fault("mig-misconfigured", repair=("nvidia-smi mig",))
def mig_without_devices(box: Box) -> None:
    box.nvml.append(f"gpu.{box.cards - 1}.mig = 1")


@fault("exclusive-process-mode", repair=("nvidia-smi -i", "nvidia-smi -c", "--compute-mode"))
def prohibited(box: Box) -> None:
    box.nvml.append(f"gpu.{box.cards - 1}.compute_mode = 2")


@fault("exclusive-process-mode", repair=("nvidia-smi -i", "nvidia-smi -c", "--compute-mode"), note=True)
def exclusive_and_taken(box: Box) -> None:
    last = box.cards - 1
    box.nvml += [f"gpu.{last}.compute_mode = 3", f"gpu.{last}.proc = 4711,300,C", f"gpu.{last}.mem_used_mib = 304"]
    box.files |= {"/proc/4711/comm": "python3\n", "/proc/4711/cgroup": "0::/user.slice\n"}


@fault("mps-stale")
def mps_left_behind(box: Box) -> None:
    box.files |= {"/tmp/nvidia-mps/control": "", "/tmp/nvidia-mps/nvidia-cuda-mps-control.pid": "3333\n"}


@fault("driver-too-old-for-cuda", repair=("580", "torch"))
def torch_too_new_for_the_driver(box: Box) -> None:
    torch_for_cuda_13(box)


# -- libraries, framework, environment --------------------------------------------------------------------------------


@fault("mixed-cuda-wheels")
def two_sets_of_wheels(box: Box) -> None:
    box.wheels |= {
        "nvidia_cublas_cu11": "11.10.3.66",
        "nvidia_cudnn_cu11": "8.5.0.96",
        "nvidia_cuda_runtime_cu11": "11.7.99",
    }


def _torch_library(box: Box, needs: tuple[str, ...], present: dict[str, str], rpath: str = "") -> None:
    """A libtorch_cuda.so with these needs, and libraries beside it."""
    write = box._python

    def with_libraries() -> None:
        write()
        lib = box.python / "torch/lib"
        build_library(lib / "libtorch_cuda.so", "libtorch_cuda.so", needs, rpath)
        for path, soname in present.items():
            build_library(box.root / path.lstrip("/") if path.startswith("/") else box.python / path, soname)

    box._python = with_libraries  # type: ignore[method-assign]


@fault("cudnn-missing", repair=("cudnn",))
def cudnn_missing(box: Box) -> None:
    box.wheels.pop("nvidia_cudnn_cu12")
    _torch_library(
        box, ("libcudnn.so.8", "libcudart.so.12"), {"nvidia/cuda_runtime/lib/libcudart.so.12": "libcudart.so.12"},
        "$ORIGIN/../../nvidia/cuda_runtime/lib:$ORIGIN/../../nvidia/cudnn/lib",
    )  # fmt: skip


@fault("ld-library-path-conflict", repair=("LD_LIBRARY_PATH",))
def other_cudart_first(box: Box) -> None:
    _torch_library(
        box, ("libcudart.so.12", "libcublas.so.12"),
        {
            "/usr/local/cuda-12.4/lib64/libcudart.so.12": "libcudart.so.12",
            "/usr/local/cuda-12.4/lib64/libcublas.so.12": "libcublas.so.12",
            "nvidia/cuda_runtime/lib/libcudart.so.12": "libcudart.so.12", "nvidia/cublas/lib/libcublas.so.12": "libcublas.so.12",
        },
    )  # fmt: skip
    box.environ["LD_LIBRARY_PATH"] = "{nvml}:{root}/usr/local/cuda-12.4/lib64"


@fault("cpu-only-build", repair=("cu121", "cu118", "cu12", "--index-url"))
def cpu_torch(box: Box) -> None:
    box.wheels = {"torch": "2.3.1+cpu", "torchvision": "0.18.1+cpu", "numpy": "1.26.4"}
    box.cuda = None


@fault("companion-package-mismatch", repair=("torchvision",))
def torchvision_for_another_torch(box: Box) -> None:
    box.wheels["torchvision"] = "0.15.2+cu118"


@fault("duplicate-framework-packages", repair=("onnxruntime",))
def two_onnxruntimes(box: Box) -> None:
    box.wheels |= {"onnxruntime": "1.18.0", "onnxruntime_gpu": "1.18.0"}


@fault("module-shadowed")
def local_torch_file(box: Box) -> None:
    box.files["/home/ada/project/torch.py"] = "print('mine')\n"
    box.environ["PYTHONPATH"] = "{root}/home/ada/project"


@fault("cuda-visible-devices-hides", repair=("CUDA_VISIBLE_DEVICES",))
def visible_empty(box: Box) -> None:
    box.environ["CUDA_VISIBLE_DEVICES"] = ""


@fault("cuda-visible-devices-hides", repair=("CUDA_VISIBLE_DEVICES",))
def visible_minus_one(box: Box) -> None:
    box.environ["CUDA_VISIBLE_DEVICES"] = "-1"


@fault("cuda-visible-devices-hides", repair=("CUDA_VISIBLE_DEVICES",))
def visible_wrong_index(box: Box) -> None:
    box.environ["CUDA_VISIBLE_DEVICES"] = str(box.cards)


@fault("cuda-visible-devices-hides", repair=("CUDA_VISIBLE_DEVICES",))
def visible_wrong_uuid(box: Box) -> None:
    box.environ["CUDA_VISIBLE_DEVICES"] = "GPU-deadbeef-0000-4000-8000-000000000099"


# -- container, system ------------------------------------------------------------------------------------------------


@fault("container-no-gpu-flag", repair=("--gpus all",))
def container_without_gpu(box: Box) -> None:
    inside_docker(box)
    box.environ = {}
    box.nodes, box.driver = False, None


@fault("container-toolkit-missing", repair=("nvidia-container-toolkit",), note=True)
def docker_without_toolkit(box: Box) -> None:
    box.files["/usr/bin/docker"] = ""
    box.services["docker"] = "active"


@fault("driver-capabilities-missing", repair=("NVIDIA_DRIVER_CAPABILITIES", "compute"))
def capabilities_without_compute(box: Box) -> None:
    inside_docker(box)
    box.environ["NVIDIA_DRIVER_CAPABILITIES"] = "graphics,utility"


@fault("container-cgroup-lost")
def cgroup_lost(box: Box) -> None:
    inside_docker(box)
    box.files["/sys/fs/cgroup/devices/devices.list"] = "c 1:3 rwm\nc 1:5 rwm\nc 136:* rwm\n"
    box.nvml.append("error.Init = 999")


@fault("shm-too-small", repair=("--shm-size",), note=True)
def small_shm(box: Box) -> None:
    inside_docker(box)
    box.commands["df -B1 /dev/shm"] = (
        "Filesystem 1B-blocks Used Available Use% Mounted\nshm 67108864 0 67108864 0% /dev/shm"
    )


@fault("zombie-holds-memory")
def owner_gone(box: Box) -> None:
    last = box.cards - 1
    box.nvml += [f"gpu.{last}.mem_used_mib = 40004", f"gpu.{last}.proc = 99999,40000,C"]


@fault("gpu-busy-other-process", repair=("4711", "kill", "nvidia-smi"), note=True)
def taken_by_another(box: Box) -> None:
    """All cards are full: nothing is broken, and nothing is left."""
    box.nvml += ["gpu.*.mem_used_mib = 79004", "gpu.*.proc = 4711,79000,C", "gpu.*.util = 100"]
    box.files |= {"/proc/4711/comm": "python3\n", "/proc/4711/cgroup": "0::/user.slice\n"}
