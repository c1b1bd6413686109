"""The whole doctor on recorded machines with 1, 8 and 64 GPUs: each healthy, and each with every fault."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from parts.machines import BOOT, DRIVER, LOADED, Box

from live.faults import FAULTS, Fault, inside_docker
from ongpu.model import Report, Severity, Verdict
from ongpu.report.recipes import commands

pytestmark = pytest.mark.real
COUNTS = [1, 8, pytest.param(64, marks=pytest.mark.slow)]


def write(box: Box, root: Path, library: Path) -> Box:
    """The box on disk, its variables filled."""
    box.write(root)
    box.environ = {name: value.format(nvml=library, root=root) for name, value in box.environ.items()}
    return box


def told(report: Report) -> list[tuple[str, str]]:
    """What went wrong beside the findings: crashed rules and unreadable evidence."""
    crashed = [(o.rule.slug, o.because) for o in report.outcomes if o.verdict is Verdict.CRASHED]
    return crashed + [(u.source, u.because) for u in report.unread if "not found" not in u.because]


@pytest.mark.parametrize("cards", COUNTS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault(fault: Fault, cards: int, tmp_path: Path, nvml: Path) -> None:
    box = Box(cards=cards)
    fault.breaks(box)
    report = write(box, tmp_path, nvml).report(nvml)
    found = [f for f in report.findings if f.weight > Severity.NOTE or (fault.note and f.slug in fault.slugs)]
    assert not told(report)
    assert found, fault.slugs
    assert found[0].slug in fault.slugs, [(f.slug, f.weight.name) for f in report.findings]
    assert found[0].refs
    repairs = commands(found[0], report)
    words = " ".join([found[0].text("en").fix, *(command.run for command in repairs)])
    assert not fault.repair or any(word in words for word in fault.repair), words
    assert not any(name in command.run for command in repairs for name in ("dnf ", "pacman ", "zypper ", "yum ")), (
        repairs
    )


@pytest.mark.parametrize(
    "line",
    [
        "Out of memory: Killed process 22253 (python) total-vm:25891844kB, anon-rss:24205948kB",
        "NVRM: Xid (PCI:0000:1a:00): 31, pid=4321, name=python, Ch 00000008, intr 10000000. MMU Fault: FAULT_PDE ACCESS_TYPE_READ",
        "NVRM: Xid (PCI:0000:1a:00): 13, pid=4321, Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address",
    ],
)
def test_what_befell_a_program_is_no_fault_of_the_machine(line: str, tmp_path: Path, nvml: Path) -> None:
    box = Box()
    box.break_log(line)
    report = write(box, tmp_path, nvml).report(nvml)
    assert [f.slug for f in report.findings if f.weight > Severity.NOTE] == []


def plain(box: Box) -> None:
    """Nothing changed."""


def idle_link(box: Box) -> None:
    box.nvml += [
        "gpu.*.pcie_gen = 1",
        "gpu.*.pstate = 8",
        "gpu.*.sm_clock = 210",
        "gpu.*.power_mw = 45000",
        "gpu.*.reasons = 1",
    ]
    box.links = {i: {"current_link_speed": "2.5 GT/s PCIe"} for i in range(box.cards)}


def full_power(box: Box) -> None:
    """At its default limit under full load: a card that works as it should."""
    box.nvml += [
        "gpu.*.reasons = 4",
        "gpu.*.util = 100",
        "gpu.*.power_mw = 399000",
        "gpu.*.sm_clock = 1290",
        "gpu.*.temp = 78",
    ]


def warm(box: Box) -> None:
    """86 C, and its own limit is higher."""
    box.nvml += ["gpu.*.temp = 86", "gpu.*.slowdown_c = 98", "gpu.*.gpu_max_c = 94", "gpu.*.util = 99"]


def application_xids(box: Box) -> None:
    bus = box.slot(0)[:-2]
    box.break_log(
        f"NVRM: Xid (PCI:{bus}): 13, pid=2312, name=python3, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address",
        f"NVRM: Xid (PCI:{bus}): 43, pid=2312, name=python3, Ch 00000010",
        f"NVRM: Xid (PCI:{bus}): 31, pid=2400, name=python3, Ch 00000012, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 "
        "faulted @ 0x7f54_2e000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    )


def corrected_errors(box: Box) -> None:
    box.nvml += ["gpu.*.ecc_agg_cor = 17", "gpu.*.remap_cor = 1"]


def no_persistence(box: Box) -> None:
    box.nvml.append("gpu.*.persistence = 0")
    box.services = {}


def nvswitch(box: Box) -> None:
    box.name, box.devid, box.switches = "NVIDIA A100-SXM4-80GB", "20b2", 6
    box.services["nvidia-fabricmanager"] = "active"
    box.packages["nvidia-fabricmanager-535"] = "535.183.01-1"


def docker_ready(box: Box) -> None:
    box.files |= {
        "/usr/bin/docker": "", "/usr/bin/nvidia-ctk": "", "/usr/bin/nvidia-container-runtime": "",
        "/etc/docker/daemon.json": '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}',
    }  # fmt: skip
    box.services["docker"] = "active"


def in_container(box: Box) -> None:
    inside_docker(box)


def with_mig(box: Box) -> None:
    box.nvml += ["gpu.0.mig = 1", "gpu.0.mig_devices = 7"]


def own_small_process(box: Box) -> None:
    box.nvml += ["gpu.0.proc = 4711,600,C", "gpu.0.mem_used_mib = 604"]
    box.files |= {"/proc/4711/comm": "python3\n"}


def signed_with_secure_boot(box: Box) -> None:
    box.secure_boot = True
    box.log = [
        BOOT.replace("Secure boot disabled", "Secure boot enabled"),
        LOADED.replace("module verification failed", "x"),
    ]


def visible_some(box: Box) -> None:
    box.environ["CUDA_VISIBLE_DEVICES"] = "0"


def fresh_boot(box: Box) -> None:
    """No CUDA program has run yet: nvidia-modprobe will load nvidia_uvm when one does."""
    box.uvm_node = False
    box.modules.remove("nvidia_uvm")


def rocky(box: Box) -> None:
    box.distribution, box.packages = ("rocky", "9.4"), {}
    box.commands["rpm -qa"] = (
        f"nvidia-driver-{DRIVER}-1.el9.x86_64\nkmod-nvidia-latest-dkms-{DRIVER}-1.el9.x86_64\nbash-5.1-1.x86_64\n"
    )


def no_framework(box: Box) -> None:
    box.wheels = {"numpy": "1.26.4", "requests": "2.32.3"}


def upgraded_and_rebooted(box: Box) -> None:
    box.files["/var/log/apt/history.log"] = (
        f"Start-Date: 2024-11-05  06:11:02\nCommandline: /usr/bin/unattended-upgrade\nUpgrade: libnvidia-compute-535-server:amd64 "
        f"(535.161.08-0ubuntu0.22.04.1, {DRIVER}-0ubuntu0.22.04.1)\nEnd-Date: 2024-11-05  06:12:14\n"
    )


HEALTHY = [
    plain, idle_link, full_power, warm, application_xids, corrected_errors, no_persistence, nvswitch, docker_ready, in_container,
    with_mig, own_small_process, signed_with_secure_boot, visible_some, fresh_boot, rocky, no_framework, upgraded_and_rebooted,
]  # fmt: skip


@pytest.mark.parametrize("cards", COUNTS)
@pytest.mark.parametrize("change", HEALTHY)
def test_healthy(change: Callable[[Box], None], cards: int, tmp_path: Path, nvml: Path) -> None:
    box = Box(cards=cards)
    change(box)
    report = write(box, tmp_path, nvml).report(nvml)
    assert not told(report)
    assert [(f.slug, f.weight.name) for f in report.findings if f.weight > Severity.NOTE] == []
    assert report.verdict is Verdict.CLEAR, [(o.rule.slug, o.because) for o in report.unknown]


@pytest.mark.parametrize("name", ["plain", "module_not_loaded", "lost_in_nvml", "cpu_torch"])
def test_as_a_process(name: str, tmp_path: Path, nvml: Path) -> None:
    box = Box(cards=8)
    fault = next((f for f in FAULTS if f.name == name), None)
    if fault:
        fault.breaks(box)
    write(box, tmp_path, nvml)
    run = subprocess.run(
        [sys.executable, "-m", "ongpu", "doctor", "--root", str(tmp_path), "--python", str(box.python), "--format", "json"],
        capture_output=True, text=True, env={**os.environ, **box.environment(nvml)}, timeout=60, check=False,
    )  # fmt: skip
    answer = json.loads(run.stdout)
    assert run.returncode == (1 if fault else 0), run.stdout[:2000]
    if fault:
        assert answer["findings"][0]["slug"] in fault.slugs
        assert answer["findings"][0]["fix"]["commands"]
    else:
        assert answer["verdict"] == "clear"
