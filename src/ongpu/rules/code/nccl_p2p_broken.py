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
    several = symptoms.has("several-gpus") or bool(gpus and (len(gpus.gpus) > 1))
    zeros = symptoms.cite("copy-gives-zeros", most=2)
    still = symptoms.cite("stands-still", "all-gpus-full", most=2) if symptoms.has("stands-still") else ()
    if zeros and (several or symptoms.has("cuda-second-device")):
        yield Finding(fixes=(Fix("nccl-p2p-off"),), certainty=Certainty.LIKELY, refs=(*zeros, *still, *used))
        return
    busy = [g for g in gpus.gpus if (g.utilization or 0) >= 98] if gpus else []
    unsupported = any("broadband" in r.quote.lower() for r in failed)
    hangs = symptoms.has("nccl-timeout-line") or len(busy) >= 2 or bool(stuck)
    acs = symptoms.cite("acs-on", most=2)
    if unsupported:
        yield Finding(fixes=(Fix("nccl-p2p-off"),), variant="refused", refs=failed)
        return
    if not failed and not used and still and several and symptoms.has("all-gpus-full") and not symptoms.has("nccl-timeout-line") and not direct:
        yield Finding(
            fixes=(Fix("nccl-p2p-off"),), certainty=Certainty.LIKELY if symptoms.has("no-p2p-cards") else Certainty.POSSIBLE, variant="still",
            refs=(*still, *symptoms.cite("several-gpus", "no-p2p-cards", most=1)),
        )
        return
    alone = symptoms.cite("one-rank-works", most=2)
    if alone and not failed and not used and symptoms.has("no-p2p-cards") and not symptoms.has("nccl-timeout-line"):
        yield Finding(fixes=(Fix("nccl-p2p-off"),), certainty=Certainty.LIKELY, variant="ranks", refs=(*alone, *symptoms.cite("no-p2p-cards", most=2)))
        return
    without = symptoms.cite("p2p-off-works", most=2)
    if without and (direct or several or symptoms.has("via-p2p")) and not failed:  # one run with peer-to-peer fails, one without it does not
        yield Finding(
            fixes=(Fix("nccl-p2p-off"),), certainty=Certainty.LIKELY, variant="hang" if hangs or stuck else "",
            values={"driver": driver.version if driver and driver.version else "?", "number": len(busy) or "the"},
            refs=(*without, *symptoms.cite("via-p2p", most=2), *stuck, *acs),
        )
        return
    hangs = hangs or symptoms.has("stands-still")
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
        "ranks": (
            Text(
                title="One process runs, two stand still: the path between the cards (P2P) is the first suspect",
                why="The program itself works, so what hangs is the first exchange between the ranks. On workstation and consumer cards an IOMMU or ACS, or missing "
                "peer-to-peer, lets NCCL's direct copies hang without a message.",
                fix="export NCCL_P2P_DISABLE=1 (or NCCL_P2P_LEVEL=NVL) and NCCL_DEBUG=INFO, and try again. If it runs: turn off IOMMU / ACS in the BIOS, update the "
                "driver. If not: NCCL_IB_DISABLE=1, NCCL_SOCKET_IFNAME=lo on one machine, and py-spy dump on each rank.",
            ),
            Text(
                title="单进程能跑、双进程卡住：首先怀疑显卡之间的直接通路（P2P）",
                why="程序本身没问题，卡住的是各 rank 之间的第一次通信。工作站卡和消费级显卡遇到 IOMMU、ACS 或不支持 P2P 时，NCCL 的直接拷贝会无提示地卡住。",
                fix="export NCCL_P2P_DISABLE=1（或 NCCL_P2P_LEVEL=NVL）并加 NCCL_DEBUG=INFO 再试。若能跑：在 BIOS 关闭 IOMMU / ACS，更新驱动。若不行：单机试 "
                "NCCL_IB_DISABLE=1、NCCL_SOCKET_IFNAME=lo，并对每个 rank 用 py-spy dump。",
            ),
        ),
        "still": (
            Text(
                title="Work on several GPUs stands still with the GPUs at 100 %: the path between the cards (P2P) is a likely cause",
                why="100 % beside low power and no progress is NCCL's waiting kernel. Consumer and workstation cards behind an AMD or Intel IOMMU, or without peer-to-peer in the driver, hang this way; a rank that does not take part in a collective looks the same.",
                fix="export NCCL_P2P_DISABLE=1 and try again (NCCL_DEBUG=INFO shows the transport). If it then runs: turn off IOMMU / ACS in the BIOS, update the driver. If it still hangs, a rank is missing: py-spy dump on each rank.",
            ),
            Text(
                title="多卡任务停住而 GPU 显示 100 %：卡间直接通路（P2P）很可能有问题",
                why="功耗低、没有进展却显示 100 %，是 NCCL 的等待内核。消费级和工作站卡在开启 AMD/Intel IOMMU 时，或驱动不支持 P2P 时会这样卡住；某个 rank 没有参加集合通信也是同样的现象。",
                fix="export NCCL_P2P_DISABLE=1 再试（NCCL_DEBUG=INFO 可看到传输方式）。若能跑：在 BIOS 关闭 IOMMU / ACS，更新驱动。若仍卡住，则是缺了某个 rank：对每个 rank 用 py-spy dump。",
            ),
        ),
        "hang": (
            Text(
                title="Multi-GPU work hangs on the direct path between the cards (P2P); NCCL_P2P_DISABLE=1 avoids it{driver: (driver *)}",
                why="The cards sit at 100 % in NCCL's waiting kernels while nothing advances; going through host memory works. A driver fault (some 560 releases), IOMMU or ACS, or cards without peer-to-peer are behind it.",
                fix="Keep NCCL_P2P_DISABLE=1 for now; update the driver (570 or newer), turn off IOMMU or ACS in the BIOS, and check nvidia-smi topo -p2p r.",
            ),
            Text(
                title="多卡任务卡在显卡之间的直接通路（P2P）上；NCCL_P2P_DISABLE=1 可绕开{driver:（驱动 *）}",
                why="显卡在 NCCL 的等待 kernel 里显示 100 % 利用率却没有进展；改走主机内存就正常。背后可能是驱动缺陷（560 的某些版本）、IOMMU 或 ACS，或显卡不支持 P2P。",
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
