"""Kernel log, services, packages and the bus of recorded Linux machines."""

import json
from pathlib import Path

import pytest

from ongpu.hosts import bus, kernel, packages, system
from ongpu.hosts.live import COMMANDS, Live


def tree(root: Path, files: dict[str, str | bytes], commands: dict[str, str] | None = None, **environ: str) -> Live:
    """A machine of these files and outputs."""
    for path, text in {**files, COMMANDS: json.dumps(commands or {})}.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
    return Live(root=root, environ=environ, system="linux")


def items(machine: Live) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for line in system.ask(machine, 5)[0].splitlines():
        item = json.loads(line)
        found.setdefault(item["name"], []).append(item["value"])
    return found


LOG = "[ 0.0] Linux version 6.1 (gcc 12)\n[ 1.0] usb 1-1: new device\n" + (
    "[ 2.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
)


def test_kernel_log_is_an_excerpt_with_its_line_numbers(tmp_path: Path) -> None:
    (found,) = kernel.log(tree(tmp_path, {}, {"dmesg --color=never": LOG}), 1)
    assert found.kind == "pasted"
    assert [number for number, _ in found.lines()] == [3]
    assert "usb" not in found.text


def test_kernel_log_from_the_journal_where_dmesg_is_forbidden(tmp_path: Path) -> None:
    denied = {"dmesg --color=never": "dmesg: read kernel buffer failed: Operation not permitted\n"}
    (found,) = kernel.log(tree(tmp_path, {}, {**denied, " ".join(kernel.JOURNAL): LOG}), 1)
    assert found.origin == "journalctl"
    (found,) = kernel.log(tree(tmp_path / "b", {}, denied), 1)
    assert (found.kind, found.text, found.problem) == ("kernel-log", "", "denied")


def test_a_log_that_holds_nothing_of_ours_was_read(tmp_path: Path) -> None:
    (found,) = kernel.log(tree(tmp_path, {}, {"dmesg --color=never": "[ 1.0] usb 1-1: new device\n"}), 1)
    assert (found.kind, found.text, found.problem) == ("kernel-log", "", None)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("[ 3.1] pci 0000:3b:00.0: BAR 1: can't assign; no space for [mem size 0x800000000 64bit pref]", True),
        ("[ 3.1] pci 0000:3b:00.0: BAR 1: assigned [mem 0x1-0x2]", False),
        ("[ 3.2] pcieport 0000:00:01.0: AER: Corrected error received", True),
        ("[ 3.2] loading aerospace module", False),
        ("[ 3.3] AMD-Vi: Completion-Wait loop timed out", True),
        ("[ 3.4] xhci_hcd: oxidised port", False),
        ("[ 3.5] Secure boot enabled", True),
        ("[ 3.6] eth0: link becomes ready", False),
    ],
)
def test_lines_of_the_kernel_that_can_matter(line: str, kept: bool) -> None:
    found = kernel.excerpt(f"[ 1.0] usb\n{line}\n[ 9.0] Xid and AER, BAR 0 and IOMMU\n", "dmesg")
    assert [number for number, _ in found.lines()] == ([2, 3] if kept else [3])


def test_services(tmp_path: Path) -> None:
    shown = "Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState=failed\nSubState=failed\n\n" + (
        "Id=docker.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n"
    )
    command = "systemctl show -p Id,LoadState,ActiveState,SubState " + " ".join(kernel.UNITS)
    text, _ = kernel.services(tree(tmp_path, {}, {command: shown}), 1)
    assert text.splitlines() == [
        "nvidia-fabricmanager.service  loaded  failed  failed",
        "docker.service  not-found  inactive  dead",
    ]
    assert kernel.services(tree(tmp_path / "b", {}, {command: "System has not been booted with systemd"}), 1)[0] == ""


STATUS = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.1-6

Package: nvidia-driver-535
Status: install ok installed
Priority: optional
Architecture: amd64
Version: 535.183.01-0ubuntu1
Description: driver
 continued: x

Package: nvidia-driver-470
Status: deinstall ok config-files
Architecture: amd64
Version: 470.256.02-0ubuntu1

Package: libnvidia-compute-535
Status: install reinstreq half-configured
Architecture: amd64
Version: 535.183.01-0ubuntu1
"""


def test_dpkg(tmp_path: Path) -> None:
    history = (
        "Start-Date: 2024-11-05  06:11:02\nUpgrade: libnvidia-compute-535:amd64 (535.1, 535.2), vim:amd64 (1, 2)\n"
        + ("End-Date: x\n\nStart-Date: y\nInstall: vim:amd64 (1)\n")
    )
    found = packages.ask(tree(tmp_path, {"/var/lib/dpkg/status": STATUS, "/var/log/apt/history.log": history}), 1)
    assert found[0].text.splitlines() == [
        "ii  nvidia-driver-535  535.183.01-0ubuntu1  amd64",
        "rc  nvidia-driver-470  470.256.02-0ubuntu1  amd64",
        "iF  libnvidia-compute-535  535.183.01-0ubuntu1  amd64",
    ]
    assert found[0].command == "dpkg -l"
    assert "libnvidia-compute-535:amd64 (535.1, 535.2)" in found[1].text
    assert "vim" not in found[1].text


def test_rpm(tmp_path: Path) -> None:
    (found,) = packages.ask(
        tree(tmp_path, {}, {"rpm -qa": "bash-5-1.x86_64\nnvidia-driver-535.183.01-1.el9.x86_64\n"}), 1
    )
    assert (found.text, found.command) == ("nvidia-driver-535.183.01-1.el9.x86_64", "rpm -qa")
    assert packages.ask(tree(tmp_path / "b", {}), 1) == []


CARD = {"vendor": "0x10de\n", "device": "0x20b5\n", "class": "0x030200\n"}


def test_bus(tmp_path: Path) -> None:
    ids = "8086  Intel\n\t1234  x\n10de  NVIDIA Corporation\n\t20b5  GA100 [A100 PCIe 80GB]\n\t\t10de 1533  A100\n11ab  Other\n\t20b5  no\n"
    machine = tree(tmp_path, {
        **{f"/sys/bus/pci/devices/0000:3b:00.0/{n}": v for n, v in CARD.items()},
        "/sys/bus/pci/devices/0000:3b:00.0/config": b"\xff" * 64, "/sys/bus/pci/devices/0000:00:00.0/class": "0x060000",
        "/sys/bus/pci/devices/0000:3b:00.0/resource": "0x0 0x0 0x0\n0x0 0x0 0x0\n", "/usr/share/misc/pci.ids": ids,
    })  # fmt: skip
    text, problem = bus.ask(machine, 1)
    first, card = map(json.loads, text.splitlines())
    assert (first, problem) == ({"bus": 2}, None)
    assert (card["slot"], card["name"], card["dead"], card["no_bar"], card["driver"]) == (
        "0000:3b:00.0",
        "GA100 [A100 PCIe 80GB]",
        True,
        True,
        "",
    )
    assert bus.ask(tree(tmp_path / "b", {}), 1)[1] == "no PCI bus is visible here"


def test_a_sleeping_card_is_not_woken(tmp_path: Path) -> None:
    files = {f"/sys/bus/pci/devices/0000:3b:00.0/{n}": v for n, v in CARD.items()}
    files |= {"/sys/bus/pci/devices/0000:3b:00.0/power/runtime_status": "suspended\n"}
    machine = tree(tmp_path, {**files, "/sys/bus/pci/devices/0000:3b:00.0/config": b"\xff" * 64})
    card = json.loads(bus.ask(machine, 1)[0].splitlines()[1])
    assert (card["dead"], card["idle"]) == (False, True)


@pytest.mark.parametrize(
    ("files", "environ", "runtime"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/proc/1/cgroup": "12:devices:/docker/4f5e\n"}, {}, "docker"),
        ({"/proc/1/cgroup": "0::/kubepods.slice/kubepods-burstable.slice\n"}, {}, "kubernetes"),
        (
            {
                "/proc/1/cgroup": "0::/\n",
                "/proc/1/mountinfo": "1 2 0:55 / / rw - overlay overlay lowerdir=/var/lib/containerd/io.containerd.snapshotter\n",
            },
            {},
            "containerd",
        ),
        ({"/proc/1/cgroup": "0::/init.scope\n", "/proc/1/mountinfo": "1 2 8:1 / / rw - ext4 /dev/sda1 rw\n"}, {}, None),
    ],
)
def test_containers(
    files: dict[str, str | bytes], environ: dict[str, str], runtime: str | None, tmp_path: Path
) -> None:
    found = items(tree(tmp_path, files, **environ))
    assert found.get("container", [None])[0] == runtime


def test_cgroup_v1_devices(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"/.dockerenv": "", "/sys/fs/cgroup/devices/devices.list": "c 1:3 rwm\n"}
    assert items(tree(tmp_path, files))["devices_denied"] == [True]
    for rule in ("a *:* rwm", "c 195:* rwm", "c *:* rwm"):
        assert "devices_denied" not in items(
            tree(tmp_path, {**files, "/sys/fs/cgroup/devices/devices.list": rule + "\n"})
        )


def test_driver_files_kernel_and_variables(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        {
            "/proc/sys/kernel/osrelease": "6.1.0-18-amd64\n", "/lib/modules/6.1.0-18-amd64/updates/dkms/nvidia-current.ko": "",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01": "", "/etc/modprobe.d/x.conf": "blacklist nouveau\n# blacklist nvidia\n",
            "/sys/firmware/efi/efivars/SecureBoot-1": bytes([6, 0, 0, 0, 1]), "/var/lib/dkms/nvidia-current/535.183.01/source/x": "",
            "/etc/os-release": 'ID="rocky"\nVERSION_ID="9.4"\n', "/sys/class/dmi/id/product_name": "g5.xlarge\n",
            "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "/tmp/nvidia-mps/control": "",
            "/tmp/nvidia-mps/nvidia-cuda-mps-control.pid": "77",
        },
        CUDA_VISIBLE_DEVICES="0", HF_TOKEN="hf_x", NVIDIA_API_KEY="nv", HOME="/root",
    )  # fmt: skip
    found = items(machine)
    assert found["library"] == ["535.183.01"]
    assert found["module_file"] == ["6.1.0-18-amd64"]
    assert found["headers"] == [False]
    assert found["secure_boot"] == [True]
    assert found["blacklisted"] == ["nouveau"]
    assert found["dkms"] == ["nvidia-current/535.183.01: added"]
    assert found["distribution"] == ["rocky"]
    assert found["cloud"] == ["Amazon EC2 g5.xlarge"]
    assert found["mps"] == [["/tmp/nvidia-mps", False]]
    assert found["variable"] == [["CUDA_VISIBLE_DEVICES", "0"], ["NVIDIA_API_KEY", "***"]]
