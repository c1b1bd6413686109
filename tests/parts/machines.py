"""A recorded machine: a folder with /proc, /sys, /dev, /etc trees, what its commands printed, and an NVML scenario.

`Box` starts healthy: an Ubuntu server with NVIDIA cards, its driver by DKMS, and a Python environment with PyTorch.
A test breaks it before `write`.
"""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ongpu.engine import all_sources, diagnose
from ongpu.hosts.live import Live, gather
from ongpu.model import Report

KERNEL, DRIVER, CUDA = "5.15.0-113-generic", "535.183.01", 12020
SYSTEMCTL = (
    "systemctl show -p Id,LoadState,ActiveState,SubState "
    "nvidia-fabricmanager nvidia-persistenced nvidia-gridd nvidia-imex docker"
)
PACKAGES = {
    "nvidia-driver-535-server": "535.183.01-0ubuntu0.22.04.1", "nvidia-dkms-535-server": "535.183.01-0ubuntu0.22.04.1",
    "nvidia-utils-535-server": "535.183.01-0ubuntu0.22.04.1", "libnvidia-compute-535-server": "535.183.01-0ubuntu0.22.04.1",
    "nvidia-kernel-common-535-server": "535.183.01-0ubuntu0.22.04.1", "dkms": "2.8.7-2ubuntu2.1",
    "linux-headers-5.15.0-113-generic": "5.15.0-113.123", "linux-image-5.15.0-113-generic": "5.15.0-113.123",
}  # fmt: skip
WHEELS = {
    "torch": "2.3.1+cu121", "torchvision": "0.18.1+cu121", "numpy": "1.26.4", "triton": "2.3.1",
    "nvidia_cublas_cu12": "12.1.3.1", "nvidia_cudnn_cu12": "8.9.2.26", "nvidia_cuda_runtime_cu12": "12.1.105",
    "nvidia_nccl_cu12": "2.20.5", "nvidia_nvjitlink_cu12": "12.1.105", "nvidia_cusparse_cu12": "12.1.0.106",
}  # fmt: skip
BOOT = f"""\
[    0.000000] Linux version {KERNEL} (buildd@lcy02-amd64-042) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0) #123-Ubuntu SMP
[    0.000000] Command line: BOOT_IMAGE=/vmlinuz-{KERNEL} root=UUID=11111111-2222-3333-4444-555555555555 ro quiet splash
[    0.012345] secureboot: Secure boot disabled
[    0.402101] pci 0000:1a:00.0: BAR 1: assigned [mem 0x38e000000000-0x38efffffffff 64bit pref]
[    0.502101] DMAR: IOMMU enabled
[    0.912345] usb 1-1: new high-speed USB device number 2 using xhci_hcd
"""
LOADED = f"""\
[    8.412345] nvidia: loading out-of-tree module taints kernel.
[    8.412399] nvidia: module license 'NVIDIA' taints kernel.
[    8.412401] Disabling lock debugging due to kernel taint
[    8.452345] nvidia: module verification failed: signature and/or required key missing - tainting kernel
[    8.512345] nvidia-nvlink: Nvlink Core is being initialized, major device number 236
[    8.612345] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Sun May 12 19:39:15 UTC 2024
[    8.712345] nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  {DRIVER}  Sun May 12 19:36:40 UTC 2024
[    8.812345] [drm] [nvidia-drm] [GPU ID 0x00001a00] Loading driver
[    9.112345] nvidia-uvm: Loaded the UVM driver, major device number 511.
"""


@dataclass
class Box:
    """One machine. All fields may be changed before `write`."""

    cards: int = 1
    name: str = "NVIDIA A100 80GB PCIe"
    devid: str = "20b5"
    capability: int = 80
    switches: int = 0
    distribution: tuple[str, str] = ("ubuntu", "22.04")
    driver: str | None = DRIVER  # of the libraries; None: not installed
    module: str | None = DRIVER  # the loaded one
    on_disk: bool = True  # a module file for the running kernel
    bus_driver: str = "nvidia"  # who holds the cards
    modules: list[str] = field(default_factory=lambda: ["nvidia", "nvidia_modeset", "nvidia_drm", "nvidia_uvm"])
    node_mode: int = 0o666
    nodes: bool = True
    uvm_node: bool = True
    modprobe: bool = True  # nvidia-modprobe, which makes nodes at the first CUDA call
    secure_boot: bool = False
    log: list[str] = field(default_factory=lambda: [BOOT, LOADED])
    packages: dict[str, str] = field(default_factory=lambda: dict(PACKAGES))
    broken: list[str] = field(default_factory=list)  # packages removed with their configuration left
    services: dict[str, str] = field(default_factory=lambda: {"nvidia-persistenced": "active"})
    wheels: dict[str, str] = field(default_factory=lambda: dict(WHEELS))
    cuda: str | None = "12.1"  # what torch was built for
    nvml: list[str] = field(default_factory=list)  # more lines of the scenario
    nvml_there: bool = True
    files: dict[str, str] = field(default_factory=dict)  # more files: path -> text
    site: dict[str, str] = field(default_factory=dict)  # more files in site-packages
    commands: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)  # paths that are taken away again
    links: dict[int, dict[str, str]] = field(default_factory=dict)  # card -> PCIe attributes
    absent: tuple[int, ...] = ()  # cards that are not on the bus
    dead: tuple[int, ...] = ()  # cards that read all ones
    user: str = "uid=54321(ada) gid=54321(ada) groups=54321(ada),27(sudo)"

    def slot(self, index: int) -> str:
        """The card's place on the bus."""
        return f"0000:{0x1A + index:02x}:00.0"

    def break_log(self, *lines: str) -> None:
        """More lines at the end of the kernel's log."""
        self.log.append("".join(f"[ {4242 + n}.123456] {line}\n" for n, line in enumerate(lines)))

    def write(self, root: Path) -> Path:
        """The tree, at `root`."""
        self.root = root
        for part in (self._system, self._bus, self._driver, self._nodes, self._packages, self._python, self._nvml):
            part()
        for path, text in self.files.items():
            self.put(path, text)
        for path in self.remove:
            (root / path.lstrip("/")).unlink()
        return root

    def put(self, path: str, text: str | bytes = "") -> Path:
        """One file."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        return place

    def _system(self) -> None:
        name, version = self.distribution
        self.put("/etc/os-release", f'NAME="{name.title()}"\nID={name}\nVERSION_ID="{version}"\n')
        self.put("/proc/version", f"Linux version {KERNEL} (buildd@lcy02) (gcc 11.4.0) #123 SMP\n")
        self.put("/proc/sys/kernel/osrelease", KERNEL + "\n")
        self.put("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz-{KERNEL} root=UUID=1 ro quiet\n")
        self.put("/proc/uptime", "432000.10 1000.00\n")
        self.put("/proc/1/cgroup", "0::/init.scope\n")
        self.put("/proc/1/comm", "systemd\n")
        self.put("/sys/class/dmi/id/product_name", "PowerEdge R750xa\n")
        self.put("/sys/class/dmi/id/sys_vendor", "Dell Inc.\n")
        state = bytes([6, 0, 0, 0, int(self.secure_boot)])
        self.put("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", state)
        modules = [f"{m} 1234567 2 - Live 0x0000000000000000" for m in ["ext4", "ast", "ixgbe", "snd", *self.modules]]
        self.put("/proc/modules", "\n".join(modules) + "\n")
        states = "\n\n".join(
            f"Id={unit}.service\nLoadState={'loaded' if unit in self.services else 'not-found'}\n"
            f"ActiveState={self.services.get(unit, 'inactive')}\nSubState=dead"
            for unit in SYSTEMCTL.split()[4:]
        )
        ldconfig = "\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6\n"
        commands = {
            "dmesg --color=never": "".join(self.log),
            SYSTEMCTL: states,
            "id": self.user,
            "ldconfig -p": ldconfig,
        }
        commands["df -B1 /dev/shm"] = (
            "Filesystem 1B-blocks Used Available Use% Mounted\ntmpfs 67300000000 0 67300000000 0% /dev/shm"
        )
        self.put("/.ongpu/commands.json", json.dumps({**commands, **self.commands}))

    def _device(self, slot: str, **attributes: str) -> None:
        folder = f"/sys/bus/pci/devices/{slot}"
        driver = attributes.pop("driver", "")
        for name, value in attributes.items():
            self.put(f"{folder}/{name}", value + "\n")
        if driver:
            (self.root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
            (self.root / folder.lstrip("/") / "driver").symlink_to(f"../../drivers/{driver}")

    def _bus(self) -> None:
        self._device("0000:00:00.0", vendor="0x8086", device="0x09a2", **{"class": "0x060000"})
        self._device("0000:03:00.0", vendor="0x1a03", device="0x2000", driver="ast", **{"class": "0x030000"})
        bars = "\n".join(
            ["0x000000009c000000 0x000000009cffffff 0x0000000000040200", "0x38e000000000 0x38efffffffff 0x14220c"]
        )
        for index in set(range(self.cards)) - set(self.absent):
            link = {
                "current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe", "current_link_width": "16",
                "max_link_width": "16", "resource": bars, **self.links.get(index, {}),
            }  # fmt: skip
            self._device(
                self.slot(index), vendor="0x10de", device="0x" + self.devid, driver=self.bus_driver,
                **{"class": "0x030200"}, **link,
            )  # fmt: skip
            config = b"\xff" * 64 if index in self.dead else bytes.fromhex("de10b520")
            self.put(f"/sys/bus/pci/devices/{self.slot(index)}/config", config)
            if self.module:
                self.put(
                    f"/proc/driver/nvidia/gpus/{self.slot(index)}/information", f"Model: \t\t {self.name}\nIRQ: 142\n"
                )
        for index in range(self.switches):
            self._device(
                f"0000:c{index}:00.0",
                vendor="0x10de",
                device="0x1af1",
                driver="nvidia-nvswitch",
                **{"class": "0x068000"},
            )

    def _driver(self) -> None:
        if self.module:
            text = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {self.module}  Sun May 12 19:39:15 UTC 2024\nGCC version: gcc 11.4.0\n"
            self.put("/proc/driver/nvidia/version", text)
        modules = f"/lib/modules/{KERNEL}"
        self.put(f"{modules}/kernel/drivers/net/dummy.ko")
        self.put(f"{modules}/build/Makefile")
        if not self.driver:
            return
        folder = "/usr/lib/x86_64-linux-gnu"
        for name in ("libcuda", "libnvidia-ml"):
            self.put(f"{folder}/{name}.so.{self.driver}")
            (self.root / folder.lstrip("/") / f"{name}.so.1").symlink_to(f"{name}.so.{self.driver}")
        self.put("/usr/bin/nvidia-smi")
        if self.modprobe:
            self.put("/usr/bin/nvidia-modprobe").chmod(0o4755)
        self.put("/etc/modprobe.d/nvidia-graphics-drivers.conf", "blacklist nouveau\nblacklist lbm-nouveau\n")
        self.put(f"/var/lib/dkms/nvidia/{self.driver}/source")
        if self.on_disk:
            self.put(f"{modules}/updates/dkms/nvidia.ko")
            self.put(f"/var/lib/dkms/nvidia/{self.driver}/{KERNEL}/x86_64/module/nvidia.ko")
            self.commands.setdefault(
                "modinfo nvidia",
                f"filename:       {modules}/updates/dkms/nvidia.ko\nlicense:        NVIDIA\nversion:        {self.driver}\n"
                f"vermagic:       {KERNEL} SMP mod_unload modversions \n",
            )
        else:
            self.commands.setdefault("modinfo nvidia", "modinfo: ERROR: Module nvidia not found.")
        self._system()  # with modinfo's answer

    def _nodes(self) -> None:
        names = [f"nvidia{i}" for i in range(self.cards) if i not in self.absent] + ["nvidiactl", "nvidia-modeset"]
        names += ["nvidia-uvm", "nvidia-uvm-tools"] if self.uvm_node else []
        names += [f"nvidia-nvswitch{i}" for i in range(self.switches)] + (
            ["nvidia-nvswitchctl"] if self.switches else []
        )
        for name in names if self.nodes and self.module else []:
            self.put(f"/dev/{name}").chmod(self.node_mode)

    def _packages(self) -> None:
        blocks = [
            f"Package: {name}\nStatus: {'deinstall ok config-files' if name in self.broken else 'install ok installed'}\n"
            f"Architecture: amd64\nVersion: {version}\nDescription: x\n"
            for name, version in {"bash": "5.1-6", **self.packages}.items()
        ]
        if self.distribution[0] in ("ubuntu", "debian"):
            self.put("/var/lib/dpkg/status", "\n".join(blocks))

    @property
    def python(self) -> Path:
        """The recorded environment's site-packages."""
        return self.root / "opt/venv/lib/python3.11/site-packages"

    def _python(self) -> None:
        self.python.mkdir(parents=True)
        for name, version in self.wheels.items():
            (self.python / f"{name}-{version}.dist-info").mkdir()
        if torch := self.wheels.get("torch"):
            cuda = repr(self.cuda) if self.cuda else "None"
            text = f"from typing import Optional\n__version__ = {torch!r}\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n"
            self.site.setdefault("torch/version.py", text)
        for path, text in self.site.items():
            self.put(f"/opt/venv/lib/python3.11/site-packages/{path}", text)

    def _nvml(self) -> None:
        lines = [
            f"gpus = {self.cards}", f"driver = {self.driver or DRIVER}", f"cuda = {CUDA}", f"gpu.*.name = {self.name}",
            f"gpu.*.devid = 0x{self.devid}", f"gpu.*.cc = {self.capability}", "gpu.*.mem_used_mib = 4", "gpu.*.util = 0",
            "gpu.*.util_mem = 0", "gpu.*.pstate = 0", *self.nvml,
        ]  # fmt: skip
        if self.switches:
            lines.insert(1, "gpu.*.nvlinks = 12")
        if self.module is None and not any(line.startswith("error.Init") for line in lines):
            lines.append("error.Init = 9")
        self.scenario = self.put("/.ongpu/nvml.txt", "\n".join(lines) + "\n")

    def environment(self, library: Path | None) -> dict[str, str]:
        """The environment of a process there; `library` is the folder of the fake NVML."""
        found = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "FAKE_NVML": str(self.scenario)}
        if library and self.nvml_there and self.driver:
            found["LD_LIBRARY_PATH"] = str(library)
        else:  # an empty file, so that the loader does not go on to a real one on the machine of the tests
            found["LD_LIBRARY_PATH"] = str(self.put("/.ongpu/none/libnvidia-ml.so.1").parent)
        return {**found, **self.environ}

    def report(self, library: Path | None, python: str | None = None) -> Report:
        """What the doctor says of it."""
        machine = Live(
            root=self.root, python=python or str(self.python), environ=self.environment(library), system="linux"
        )
        return diagnose(gather(machine, all_sources()), "test")


def build_nvml(folder: Path) -> Path:
    """The fake NVML, built into `folder`."""
    source = Path(__file__).parent / "fake_nvml.c"
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-fPIC", "-shared", "-pthread", "-Wl,-soname,libnvidia-ml.so.1",
         "-o", str(folder / "libnvidia-ml.so.1"), str(source), "-lm"],
        check=True,
    )  # fmt: skip
    return folder


def build_cuda(folder: Path) -> Path:
    """A fake libcuda, built into `folder`."""
    source = Path(__file__).parent / "fake_cuda.c"
    library = folder / "libcuda.so.1"
    subprocess.run(["gcc", "-O2", "-Wall", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(source)], check=True)
    return folder


def build_library(path: Path, soname: str, needs: tuple[str, ...] = (), rpath: str = "") -> Path:
    """A small shared library that needs others by these names, as a wheel's libraries do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stubs = path.parent / ".stubs"
    stubs.mkdir(exist_ok=True)
    arguments = []
    for name in needs:
        stub = stubs / name
        subprocess.run(
            ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", str(stub), "-xc", os.devnull], check=True
        )
        arguments.append(str(stub))
    options = [
        "-Wl,--no-as-needed",
        f"-Wl,-soname,{soname}",
        *([f"-Wl,-rpath,{rpath}", "-Wl,--disable-new-dtags"] if rpath else []),
    ]
    subprocess.run(
        ["gcc", "-shared", "-nostdlib", *options, "-o", str(path), "-xc", os.devnull, "-xnone", *arguments], check=True
    )
    for stub in stubs.iterdir():
        stub.unlink()
    stubs.rmdir()
    return path
