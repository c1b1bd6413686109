"""An NVSwitch machine without a matching, running fabric manager: CUDA answers 802."""

import re
from collections.abc import Iterator

from ongpu.facts.driver import Driver, Services
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

UNIT = "nvidia-fabricmanager"
SWITCHED = lazy(r"SXM[3456]|HGX|DGX|H100 80GB HBM3|H200\b(?! NVL)|H[28]00\b|B[23]00|H20\b|GB[23]00|A800-SXM", re.IGNORECASE)
VISIBLE = lazy(r"[AH][128]00|H20\b", re.IGNORECASE)  # generations whose NVSwitches are on the host's PCI bus
UNSWITCHED = lazy(r"GeForce|RTX|GTX|Quadro|TITAN|\bT4\b|\bL4\b|L40|\bA(?:2|10|16|30|40)\b|A10G|PCIe|PCI-E|H100 NVL|\bP(?:4|40|100)\b|K80|\bL20\b", re.IGNORECASE)


def check(
    symptoms: Symptoms | None, services: Services | None, gpus: Gpus | None, driver: Driver | None, machine: Machine | None, pci: Pci | None
) -> Iterator[Finding]:
    if driver and driver.smi_works is False:
        return
    names = gpus.all_names() if gpus else ()
    switched = any(SWITCHED.search(name) for name in names)
    unswitched = bool(names) and not switched and all(UNSWITCHED.search(name) for name in names)
    state = services.states.get(UNIT) if services else None
    not_ready = symptoms.cite("system-not-initialized-802") if symptoms else ()
    told = symptoms.cite("fabric-manager-told") if symptoms else ()
    if not told and symptoms and symptoms.has("fabric-in-progress") and (not_ready or symptoms.has("nvswitch-told")):
        told = symptoms.cite("fabric-in-progress")
    mismatch = symptoms.cite("fabric-version-mismatch") if symptoms else ()
    bridges = [d for d in pci.devices if d.vendor == "10de" and (d.kind or "").lower().startswith("bridge")] if pci else []
    if pci and pci.complete and not bridges and not not_ready and all(VISIBLE.search(name) for name in names):
        switched = False  # the whole bus is known: cards on a board without switches, such as one of four
    pending = [g for g in gpus.gpus if g.fabric in ("not started", "in progress")] if gpus else []
    nvswitch = bool(symptoms and symptoms.has("nvswitch-told")) or switched or bool(bridges)
    down = state in ("inactive", "failed", "missing", "activating")
    if (unswitched and not nvswitch) or (symptoms and symptoms.has("nvswitch-absent") and not not_ready):
        return
    if machine and machine.system in ("windows", "macos"):
        return
    init = bool(symptoms and symptoms.has("cuda-init-3", "no-cuda-device", "cuda-unknown-999"))
    if mismatch or (not_ready and (down or told)):
        certainty = Certainty.CERTAIN
    elif not_ready:
        certainty = Certainty.LIKELY if not (state == "active" or (symptoms and symptoms.has("confidential-computing"))) else Certainty.POSSIBLE
    elif told and (nvswitch or init or down):
        certainty = Certainty.LIKELY
    elif down and (bridges or pending):
        certainty = Certainty.CERTAIN
    elif down and nvswitch:
        certainty = Certainty.LIKELY if len(gpus.gpus if gpus else ()) >= 8 or init else Certainty.POSSIBLE
    elif told and state != "active":
        certainty = Certainty.LIKELY
    else:
        return
    version = (driver.version or driver.module) if driver else None
    fm = (symptoms.value("fm", "fabric-version-mismatch") or symptoms.value("fm2", "fabric-version-mismatch") or symptoms.value("fm", "fabric-manager-told")) if symptoms else None
    wants = symptoms.value("driver", "fabric-version-mismatch", "fabric-manager-told") if symptoms else None
    version = version or wants
    yield Finding(
        certainty=certainty,
        variant="mismatch" if mismatch and fm and fm != version else "",
        values={"driver": version or "?", "fm": fm or "?", "state": state or "?",
                "version": version, "branch": version.partition(".")[0] if version else None, "exact": version},
        fixes=(Fix("start-fabric-manager"), Fix("install-fabric-manager")),
        refs=(*not_ready, *told, *(symptoms.cite("fabric-in-progress") if symptoms else ()), *mismatch, *(services.about(UNIT)[:2] if services and state else ()), *(driver.about("version")[:1] if driver and driver.version else ()),
              *(gpus.cite()[:2] if gpus and switched else ())),
    )


RULE = Rule(
    slug="fabric-manager-not-running",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("cpu-only-build", "driver-too-old-for-cuda", "uvm-hmm-init-failure", "suspend-uvm-broken", "uvm-module-missing"),
    settle=("systemctl status nvidia-fabricmanager", "nvidia-smi -q | grep -A3 Fabric", "nvidia-smi topo -m"),
    see=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/", "https://github.com/pytorch/pytorch/issues/35710"),
    en=Text(
        title="CUDA waits for the NVSwitch fabric: the fabric manager (nvidia-fabricmanager) is {state:*|not known to run}{driver:, driver *} (802, system not yet initialized)",
        why="On machines with NVSwitch (HGX and DGX boards with SXM cards) the fabric manager must program the switches before CUDA may start. nvidia-smi lists the cards all the same. On a machine without NVSwitch the same code has other causes: HMM in nvidia_uvm, or confidential computing that was not set ready.",
        fix="Install the fabric manager of exactly the driver's version (nvidia-fabricmanager{exact:, *}), then sudo systemctl enable --now nvidia-fabricmanager; read journalctl -u nvidia-fabricmanager if it fails. Update both together. In a virtual machine it must run where the switches are.",
    ),
    zh=Text(
        title="CUDA 在等待 NVSwitch 互联：fabric manager（nvidia-fabricmanager）{state:状态为 *|未见运行}{driver:，驱动 *}（802，system not yet initialized）",
        why="在带 NVSwitch 的机器上（HGX、DGX 的 SXM 卡），必须先由 fabric manager 配置交换芯片，CUDA 才能启动；而 nvidia-smi 照样列出所有卡。没有 NVSwitch 的机器出现同样代码则另有原因：nvidia_uvm 的 HMM，或机密计算未设置为就绪。",
        fix="安装与驱动版本完全一致的 fabric manager（nvidia-fabricmanager{exact:，*}），然后 sudo systemctl enable --now nvidia-fabricmanager；启动失败时查看 journalctl -u nvidia-fabricmanager。以后两者一起升级。虚拟机中，它必须运行在掌管交换芯片的一侧。",
    ),
    variants={
        "mismatch": (
            Text(
                title="The fabric manager is version {fm}, the driver is {driver:*|another}: it refuses to run, and CUDA with it",
                why="The fabric manager must be of exactly the driver's version; after an update of only one of them it exits at once.",
                fix="Install nvidia-fabricmanager{exact: *| of the driver's version}, sudo systemctl restart nvidia-fabricmanager, and pin both packages to one version.",
            ),
            Text(
                title="fabric manager 是 {fm}，驱动是{driver: *|另一版本}：版本不同，它拒绝运行，CUDA 也随之无法启动",
                why="fabric manager 必须与驱动版本完全一致；只升级其中一个，它会立即退出。",
                fix="安装{exact: nvidia-fabricmanager *|与驱动同版本的 nvidia-fabricmanager}，sudo systemctl restart nvidia-fabricmanager，并把两个包锁定在同一版本。",
            ),
        ),
    },
)
