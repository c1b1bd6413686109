"""NVLink between GPUs (or an NVSwitch) reports errors, or links are down."""

from collections.abc import Iterator

from ongpu.facts.hardware import Gpus, Xids
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

CODES = (74, 136, 144, 145, 146, 147, 148, 149, 150, 155, 156)
MANY = 100  # corrected CRC or replay errors on one card that are worth a word


def check(symptoms: Symptoms | None, xids: Xids | None, gpus: Gpus | None) -> Iterator[Finding]:
    events = [e for e in xids.events if not e.switch and e.code in CODES] if xids else []
    caused = [e for e in xids.events if not e.switch and e.caused_by in CODES] if xids else []
    switch = [e for e in xids.events if e.switch] if xids else []
    said = symptoms.cite("nvlink-trouble") if symptoms else ()
    cards = gpus.gpus if gpus else ()
    some_up = any(g.nvlink_inactive == 0 for g in cards)
    down = [g for g in cards if g.nvlink_inactive and (some_up or g.nvlink_inactive < 4)]
    noisy = [g for g in cards if g.nvlink_errors and g.nvlink_errors >= MANY]
    bridge = bool(symptoms and symptoms.has("nvlink-bridge-told") and symptoms.has("nvlink-frozen"))
    if not (events or caused or switch or said or down or noisy or bridge):
        return
    codes = sorted({e.code for e in events} | {e.caused_by for e in caused if e.caused_by}, reverse=True)
    order = sorted([*events, *caused], key=lambda e: e.caused_by not in (codes[:1] or [0]))
    bus = next((e.bus for e in [*order, *switch] if e.bus), "") or next((g.label for g in [*down, *noisy]), "")
    fatal = any("fatal" in e.text.lower() and "non-fatal" not in e.text.lower() for e in switch)
    sure = bool(events or caused or fatal)
    yield Finding(
        subject=bus,
        certainty=Certainty.CERTAIN if sure else Certainty.LIKELY if (said or down or bridge or switch) else Certainty.POSSIBLE,
        severity=Severity.WARNING if not sure and not said and not bridge else None,
        variant="switch" if switch and not (events or caused) else "bridge" if bridge and not sure else "" if sure else "links",
        values={"bus": bus or "?", "codes": codes or sorted({e.code for e in switch}) or ["-"]},
        fixes=(Fix("look-at-nvlink"), *((Fix("restart-fabric-manager"),) if switch else ())),
        refs=(
            *(e.ref for e in order[:6]), *(e.ref for e in switch[:4]), *said, *(g.ref for g in [*down, *noisy] if g.ref),
            *(symptoms.cite("nvlink-bridge-told", "nvlink-frozen") if symptoms and bridge else ()),
        ),
    )  # fmt: skip


RULE = Rule(
    slug="nvlink-error",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=("nccl-timeout", "illegal-memory-access", "zombie-holds-memory", "nccl-p2p-broken"),
    settle=("nvidia-smi nvlink --status", "nvidia-smi nvlink -e", "sudo dmesg | grep -iE 'xid|sxid'"),
    see=(
        "https://docs.nvidia.com/deploy/xid-errors/",
        "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    ),
    en=Text(
        title="NVLink error on the GPU{bus: at *} (Xid {codes})",
        why='A link between GPUs, or to the NVSwitch, failed. Programs on all connected GPUs are ended (Xid 45 lines "caused by '
        'previous Xid" are only that), and NCCL hangs or times out.',
        fix="Follow the first NVLink Xid, not the 45s. Drain the node and reboot (resetting one GPU of an NVLink group is often refused), "
        "look at `nvidia-smi nvlink --status` and `nvidia-smi nvlink -e`, check nvidia-fabricmanager. On bridge cards seat the "
        "NVLink bridge anew. If the same GPU or link fails again, open a hardware ticket; NCCL_P2P_DISABLE=1 only bridges the time.",
    ),
    zh=Text(
        title="{bus:* 的 }GPU 出现 NVLink 错误（Xid {codes}）",
        why="GPU 之间或到 NVSwitch 的链路出错。相连 GPU 上的程序都会被终止（“caused by previous Xid” 的 Xid 45 只是后果），NCCL 随之卡住或超时。",
        fix="追查最先出现的 NVLink Xid，而不是那些 45。排空节点并重启（NVLink 组内往往不允许只重置一张卡），查看 "
        "`nvidia-smi nvlink --status`、`nvidia-smi nvlink -e`，检查 nvidia-fabricmanager。带桥的卡重新插紧 NVLink 桥。"
        "同一张卡或同一条链路再次出错则报修；NCCL_P2P_DISABLE=1 只能应急。",
    ),
    variants={
        "switch": (
            Text(
                title="NVSwitch error {bus} (SXid {codes})",
                why="The switch that joins the GPUs reports an error on a link or inside itself. A non-fatal one is only logged; a fatal "
                "one stops the programs of the partition, with Xid 74 on the GPUs behind that port.",
                fix="Look in the fabric manager's log (/var/log/fabricmanager.log) and for Xid 74 on the GPUs of that port. After a fatal "
                "SXid reset all GPUs of the partition or reboot the node; if one port repeats it, open a hardware ticket.",
            ),
            Text(
                title="NVSwitch {bus} 报错（SXid {codes}）",
                why="连接各 GPU 的交换芯片在某条链路或内部出错。非致命（non-fatal）的只记录；致命的会使该分区的程序停止，端口后的 GPU 报 Xid 74。",
                fix="查看 fabric manager 日志（/var/log/fabricmanager.log）以及该端口所连 GPU 的 Xid 74。致命 SXid 之后要重置分区内全部 "
                "GPU 或重启节点；同一端口反复出现则报修。",
            ),
        ),
        "links": (
            Text(
                title="NVLink links are inactive or erroneous{bus: (*)}",
                why="Some links are down or count many CRC or replay errors. Traffic between the GPUs takes PCIe instead, or hangs. All "
                "links inactive on an SXM machine points to the fabric manager; on bridge cards to a bridge that is not fully seated.",
                fix="Compare `nvidia-smi nvlink --status` of all GPUs. SXM: check nvidia-fabricmanager and reboot; bridge cards: power off and "
                "seat the NVLink bridge. NCCL_P2P_DISABLE=1 is a stop-gap.",
            ),
            Text(
                title="NVLink 链路未激活或有误码{bus:（*）}",
                why="部分链路断开，或 CRC、重放错误很多；GPU 间通信改走 PCIe，或者卡住。SXM 机器上全部 inactive 多与 fabric manager 有关；"
                "带桥的卡多是桥没有插到底。",
                fix="对比所有 GPU 的 `nvidia-smi nvlink --status`。SXM：检查 nvidia-fabricmanager 并重启；带桥的卡：关机重新插紧 NVLink 桥。"
                "NCCL_P2P_DISABLE=1 只是应急。",
            ),
        ),
        "bridge": (
            Text(
                title="The NVLink bridge makes peer-to-peer traffic hang: it is probably not fully seated",
                why="With a bridge that makes contact on some lanes only, links come up and drop; every NVLink query and each NCCL start then "
                "freezes the machine for minutes. Without the bridge the GPUs talk over PCIe and all works.",
                fix="Power off and seat the NVLink bridge fully (a cooler, water block or the bridge's shell may be in the way), or use a "
                "bridge of the right spacing; check `nvidia-smi nvlink --status`. Stop-gap: no bridge, or NCCL_P2P_DISABLE=1.",
            ),
            Text(
                title="NVLink 桥使点对点通信卡死：很可能没有完全插好",
                why="桥只有部分触点接通时，链路时通时断；每次查询 NVLink 或启动 NCCL，机器都会卡住几分钟。拔掉桥后 GPU 走 PCIe，一切正常。",
                fix="关机把 NVLink 桥完全插到底（散热器、水冷头或桥的外壳可能顶住），或换间距合适的桥；用 `nvidia-smi nvlink --status` 检查。"
                "应急：不装桥，或设 NCCL_P2P_DISABLE=1。",
            ),
        ),
    },
)
