"""IOMMU, ACS or virtualisation redirects or blocks traffic between GPUs, or their DMA."""

from collections.abc import Iterator

from ongpu.facts.hardware import Gpus, PeerBandwidth
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.median import median
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_BRIDGES = ("PIX", "PXB", "PHB", "NODE")  # links of nvidia-smi topo -m that go over PCIe bridges, where ACS decides the way


def _through_bridges(gpus: Gpus) -> bool:
    """Whether two cards talk over PCIe bridges and no NVLink."""
    links = [link for gpu in gpus.gpus for link in gpu.links or ()]
    return any(link in _BRIDGES for link in links) and not any(link.startswith("NV") for link in links)


def check(symptoms: Symptoms | None, peers: PeerBandwidth | None, gpus: Gpus | None) -> Iterator[Finding]:
    slow = bool(peers and peers.direct and median(peers.direct) < 0.6 * median(peers.without))
    faults = symptoms.cite("iommu-fault") if symptoms else ()
    ours = bool(symptoms and symptoms.has("iommu-nvidia-fault"))
    told = symptoms.cite("acs-told") if symptoms else ()
    wrong = symptoms.cite("p2p-wrong") if symptoms else ()
    hangs = symptoms.cite("multi-gpu-hang") if symptoms else ()
    wrong = (*wrong, *hangs)
    copies = symptoms.cite("peer-copy-zeros", "peer-copy-wrong") if symptoms else ()
    helped = symptoms.cite("iommu-off-helps") if symptoms else ()
    if symptoms and symptoms.has("peer-copy-zeros") and not symptoms.has("peer-copy-wrong", "peer-tensor-first"):
        copies = ()
    redirects = symptoms.cite("acs-redirects", most=2) if symptoms else ()
    by_bridge = bool(redirects and gpus and _through_bridges(gpus) and not wrong)
    told, wrong = (*told, *helped), (*wrong, *copies)
    if by_bridge and gpus and not (slow or faults or copies or helped):
        cards = [g for g in gpus.gpus if g.links]
        yield Finding(certainty=Certainty.LIKELY, variant="redirect", fixes=(Fix("look-at-iommu"),), refs=(*redirects, *gpus.cite(*cards)[:2]),
                      values={"links": tuple(dict.fromkeys(link for g in cards for link in g.links or () if link in _BRIDGES))})  # fmt: skip
        return
    if not (slow or faults or (told and wrong) or copies or helped):
        return
    yield Finding(
        certainty=Certainty.LIKELY
        if slow or (faults and (ours or told or wrong)) or (told and wrong) or copies or helped
        else Certainty.POSSIBLE,
        variant="slow" if slow else "",
        values={
            "direct": f"{median(peers.direct):.1f}" if peers and slow else "?",
            "without": f"{median(peers.without):.1f}" if peers and slow else "?",
        },
        fixes=(Fix("look-at-iommu"), Fix("iommu-passthrough")),
        refs=(*(peers.refs if peers and slow else ()), *faults, *told, *wrong),
    )


RULE = Rule(
    slug="iommu-acs",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=("nccl-timeout", "nccl-p2p-broken", "pcie-link-degraded"),
    settle=("cat /proc/cmdline", "sudo lspci -vvv | grep -i acsctl", "./p2pBandwidthLatencyTest"),
    see=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        "https://github.com/stas00/ml-engineering/issues/1",
    ),
    en=Text(
        title="The IOMMU (or PCI ACS) breaks direct memory access or peer-to-peer (P2P) traffic of the GPUs",
        why="With the IOMMU translating, or ACS redirecting every packet through the root complex, GPU-to-GPU copies fault, hang or "
        "return wrong data. NCCL then stops at its first collective.",
        fix="On bare metal turn off IOMMU (VT-d, AMD-Vi) and ACS in the BIOS, or boot with iommu=pt (or intel_iommu=off / amd_iommu=off); "
        "where the BIOS has no switch, clear ACSCtl with setpci on the bridges. Test again with p2pBandwidthLatencyTest. In a VM ACS "
        "must stay: there use NCCL_P2P_DISABLE=1, which is also the stop-gap elsewhere.",
    ),
    zh=Text(
        title="IOMMU（或 PCI ACS）破坏了 GPU 的 DMA 或点对点（P2P）通信",
        why="IOMMU 做地址转换，或 ACS 把所有报文绕到根复合体时，GPU 间的直接拷贝会出错、卡住或得到错误数据，NCCL 便停在第一次集合通信。",
        fix="物理机：在 BIOS 关闭 IOMMU（VT-d、AMD-Vi）与 ACS，或以 iommu=pt（或 intel_iommu=off / amd_iommu=off）启动；BIOS 没有开关时，用 "
        "setpci 清除各桥的 ACSCtl。再用 p2pBandwidthLatencyTest 测试。虚拟机里 ACS 不能关，可设 NCCL_P2P_DISABLE=1，它在其他场合也可应急。",
    ),
    variants={
        "redirect": (
            Text(
                title="ACS is on (ReqRedir+) on the PCIe bridges between the cards ({links}): P2P goes through the root complex",
                why="With ReqRedir+ and CmpltRedir+ a bridge sends traffic between two cards up to the root complex and the IOMMU instead of straight across. P2P is then slow, or hangs and gives wrong data (NCCL's all-reduce stops at the first step).",
                fix="Turn ACS off in the BIOS, or on the bridges until the next boot: sudo setpci -v -s BUS ECAP_ACS+6.w=0000 for each bridge that lspci -vvv shows with ReqRedir+. In a virtual machine it must stay on. Until then NCCL_P2P_DISABLE=1.",
            ),
            Text(
                title="显卡之间的 PCIe 桥（{links}）开着 ACS（ReqRedir+）：P2P 要绕经根复合体",
                why="ReqRedir+ 和 CmpltRedir+ 时，桥会把两张卡之间的流量上送到根复合体和 IOMMU，而不是直接转发。P2P 因此变慢，或卡死、数据错误（NCCL 的 all-reduce 停在第一步）。",
                fix="在 BIOS 关闭 ACS，或临时在桥上关闭（到下次开机）：对 lspci -vvv 显示 ReqRedir+ 的每个桥执行 sudo setpci -v -s BUS ECAP_ACS+6.w=0000。虚拟机里必须保持开启。在此之前用 NCCL_P2P_DISABLE=1。",
            ),
        ),
        "slow": (
            Text(
                title="P2P makes copies between GPUs slower ({direct} GB/s) than going through host memory ({without} GB/s): "
                "IOMMU or ACS redirects it",
                why="Direct peer copies should be at least as fast as copies by way of the host. That they are far slower is how a path "
                "looks that the IOMMU translates or ACS redirects through the root complex. Multi-GPU training crawls or hangs on it.",
                fix="On bare metal turn off IOMMU (VT-d, AMD-Vi) and ACS in the BIOS, or boot with iommu=pt (or amd_iommu=off / "
                "intel_iommu=off), and run p2pBandwidthLatencyTest again. NCCL_P2P_DISABLE=1 is the stop-gap. If it stays, compare the "
                "PCIe link width of the cards.",
            ),
            Text(
                title="开启 P2P 后 GPU 间拷贝（{direct} GB/s）反而比经主机内存（{without} GB/s）更慢：被 IOMMU 或 ACS 绕路",
                why="GPU 间直接拷贝至少应与经主机内存一样快。慢得多，说明路径被 IOMMU 转换或被 ACS 绕到了根复合体，多卡训练会极慢或卡住。",
                fix="物理机：在 BIOS 关闭 IOMMU（VT-d、AMD-Vi）与 ACS，或以 iommu=pt（或 amd_iommu=off / intel_iommu=off）启动，再运行 "
                "p2pBandwidthLatencyTest。应急可设 NCCL_P2P_DISABLE=1。若仍然如此，对比各卡的 PCIe 链路宽度。",
            ),
        ),
    },
)
