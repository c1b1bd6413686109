"""Direct copies between GPUs fail or hang."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpus
from ongpu.facts.nccl import NcclLog
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, nccl: NcclLog | None, gpus: Gpus | None, driver: Driver | None) -> Iterator[Finding]:
    failed = (*symptoms.cite("p2p-failed", "p2p-transport-warn", most=2),)
    stuck = symptoms.cite("hang-words", most=2)
    direct = [t for t in (nccl.transports if nccl else ()) if t.startswith("P2P")]
    used = symptoms.cite("p2p-disable-used", most=2)
    busy = [g for g in gpus.gpus if (g.utilization or 0) >= 98] if gpus else []
    unsupported = any("broadband" in r.quote.lower() for r in failed)
    hangs = symptoms.has("nccl-timeout-line") or len(busy) >= 2 or bool(stuck)
    acs = symptoms.cite("acs-on", most=2)
    if unsupported:
        yield Finding(fixes=(Fix("nccl-p2p-off"),), variant="refused", refs=failed)
        return
    if not failed and not (used and hangs) and not (used and gpus and len(gpus.gpus) > 1) and not (direct and stuck):
        return
    yield Finding(
            fixes=(Fix("nccl-p2p-off"),),
        certainty=Certainty.LIKELY,
        variant="hang" if (used or stuck) and not failed else "",
        values={"driver": driver.version if driver and driver.version else "?", "number": len(busy) or "the"},
        refs=(*failed, *used, *stuck, *acs, *(symptoms.cite("via-p2p", most=1)), *(gpus.cite(*busy)[:3] if gpus and busy else ())),
    )


RULE = Rule(
    slug="nccl-p2p-broken",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("nccl-timeout",),
    see=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html", "https://github.com/dmlc/xgboost/issues/11242",),
    en=Text(
        title="Direct copies between the GPUs (peer-to-peer) fail",
        why="NCCL, CUDA IPC or a test copied from card to card and got an error or wrong data. Consumer cards (RTX 40 and newer) have no peer-to-peer in the driver; elsewhere IOMMU or ACS on the PCIe bridges, a virtual machine, or a driver release breaks it.",
        fix="NCCL_P2P_DISABLE=1 goes through host memory (slower, right). Then check nvidia-smi topo -p2p r and CUDA's simpleP2P sample; turn off IOMMU or ACS in the BIOS (on bare metal), update the driver.",
    ),
    zh=Text(
        title="GPU 之间的直接拷贝（P2P）失败",
        why="NCCL、CUDA IPC 或测试在卡间拷贝时出错或数据不对。消费级显卡（RTX 40 及更新）的驱动没有 P2P；其他情况可能是 IOMMU 或 PCIe 桥的 ACS、虚拟机，或驱动版本的问题。",
        fix="NCCL_P2P_DISABLE=1 改走主机内存（较慢但正确）。再查 nvidia-smi topo -p2p r 和 CUDA 的 simpleP2P 示例；在物理机 BIOS 中关闭 IOMMU 或 ACS，更新驱动。",
    ),
    variants={
        "hang": (
            Text(
                title="Multi-GPU work hangs on the direct path between the cards (P2P); NCCL_P2P_DISABLE=1 avoids it (driver {driver})",
                why="The cards sit at 100 % in NCCL's waiting kernels while nothing advances; going through host memory works. A driver fault (some 560 releases), IOMMU or ACS, or cards without peer-to-peer are behind it.",
                fix="Keep NCCL_P2P_DISABLE=1 for now; update the driver (570 or newer), turn off IOMMU or ACS in the BIOS, and check nvidia-smi topo -p2p r.",
            ),
            Text(
                title="多卡任务卡在显卡之间的直接通路（P2P）上；NCCL_P2P_DISABLE=1 可绕开（驱动 {driver}）",
                why="显卡在 NCCL 的等待内核里显示 100 % 利用率却没有进展；改走主机内存就正常。背后可能是驱动缺陷（560 的某些版本）、IOMMU 或 ACS，或显卡不支持 P2P。",
                fix="暂时保留 NCCL_P2P_DISABLE=1；把驱动升级到 570 或更新，在 BIOS 关闭 IOMMU 或 ACS，并查看 nvidia-smi topo -p2p r。",
            ),
        ),
        "refused": (
            Text(
                title="accelerate refuses to start: RTX 4000 series cards have no peer-to-peer or InfiniBand path",
                why="The driver of these consumer cards offers no P2P; NCCL would fail or hang, so the launcher wants it switched off explicitly.",
                fix="Set NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1, or start with accelerate launch, which sets them; a newer accelerate does it by itself.",
            ),
            Text(
                title="accelerate 拒绝启动：RTX 4000 系列没有 P2P 或 InfiniBand 通路",
                why="这类消费级显卡的驱动不提供 P2P；NCCL 会失败或卡住，所以启动器要求显式关闭。",
                fix="设置 NCCL_P2P_DISABLE=1 和 NCCL_IB_DISABLE=1，或用会自动设置它们的 accelerate launch；较新的 accelerate 会自动处理。",
            ),
        ),
    },
)
