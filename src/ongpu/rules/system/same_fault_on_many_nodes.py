"""Many machines of a fleet have one fault: one cause to look for, instead of one repair for each."""

from collections.abc import Iterator

from ongpu.facts.fleet import Fleet, Node, Pattern, Shared
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text, Words

_CABLE = "power-cable-missing"
_WHAT = {
    "driver": ("driver {value}", "驱动 {value}"),
    "kernel": ("kernel {value}", "内核 {value}"),
    "model": ("card {value}", "显卡 {value}"),
    "group": ("the name {value}*", "名称 {value}*"),
    "slot": ("the same place ({value})", "同一位置（{value}）"),
}


def check(fleet: Fleet) -> Iterator[Finding]:
    for pattern in fleet.patterns:
        nodes, of = pattern.nodes, len(fleet.answered)
        usual = fleet.usual
        lost = sum(max(node.missing(usual), len(node.lost)) for node in nodes)
        variant, certainty = _cause(pattern, lost)
        yield Finding(
            subject=pattern.slug,
            certainty=certainty,
            variant=variant,
            severity=Severity.ERROR if pattern.slug == "gpus-missing" or any(_grave(node, pattern.slug) for node in nodes) else Severity.WARNING,
            values={
                "slug": pattern.slug, "nodes": len(nodes), "of": of, "percent": f"{100 * len(nodes) / of:.0f}", "lost": lost or "?",
                "names": _names(nodes), "cables": sum(any(f.slug == _CABLE for f in node.faults) for node in nodes) or "?",
                "common": _common(pattern.shared),
            },
            refs=tuple(node.ref for node in nodes[:8]),
        )  # fmt: skip


def _grave(node: Node, slug: str) -> bool:
    return any(f.slug == slug and f.severity == "error" for f in node.faults)


def _names(nodes: tuple[Node, ...]) -> Words:
    told = [node.name for node in nodes[:6]]
    more = len(nodes) - len(told)
    return Words(", ".join(told) + (f" and {more} more" if more else ""), "、".join(told) + (f" 等 {len(nodes)} 个" if more else ""))


def _common(shared: tuple[Shared, ...]) -> Words | str:
    if not shared:
        return "?"
    told = [tuple(text.format(value=one.value) for text in _WHAT[one.what]) for one in shared]
    return Words(" and ".join(english for english, _ in told), "、".join(chinese for _, chinese in told))


def _cause(pattern: Pattern, lost: int) -> tuple[str, Certainty]:
    """(variant, certainty): what evidence of the nodes themselves names, then what sets them apart, then what such losses mostly are."""
    apart = {one.what for one in pattern.shared}
    if pattern.slug != "gpus-missing":
        return ("apart", Certainty.LIKELY) if pattern.shared else ("", Certainty.CERTAIN)
    if any(f.slug == _CABLE for node in pattern.nodes for f in node.faults):
        return "cable", Certainty.LIKELY
    if apart & {"driver", "kernel"}:
        return "lost-apart", Certainty.LIKELY
    return ("lost-apart", Certainty.LIKELY) if apart else ("lost", Certainty.POSSIBLE)


_LOST_FIX_EN = (
    "Take one affected node out of service: power it off, reseat the card, its riser and every auxiliary power plug, boot, and run "
    "`ongpu doctor` there. If that brings the GPU back, do the same on the others before you replace any card."
)
_LOST_FIX_ZH = "先取一台受影响的节点下线：断电，重新插紧显卡、转接卡和全部外接供电插头，开机后在该节点运行 `ongpu doctor`。若显卡恢复，再逐台照做，不要先换卡。"

RULE = Rule(
    slug="same-fault-on-many-nodes",
    layer=Layer.SYSTEM,
    severity=Severity.ERROR,
    check=check,
    settle=("ongpu fleet --format json",),
    see=(
        "https://docs.nvidia.com/deploy/gpu-debug-guidelines/",
        "https://docs.nvidia.com/deploy/xid-errors/",
        "https://arxiv.org/abs/2410.21680",
    ),
    en=Text(
        title="{nodes} of {of} nodes ({percent} %) have the same fault: {slug}",
        why="One fault on so many machines has one cause. Affected: {names}.",
        fix="Mend it on one node as `ongpu rules {slug}` says, check it there with `ongpu doctor`, then on the others.",
    ),
    zh=Text(
        title="{of} 个节点中有 {nodes} 个（{percent} %）出现同一故障：{slug}",
        why="这么多机器出现同一故障，原因应当只有一个。受影响的节点：{names}。",
        fix="先按 `ongpu rules {slug}` 在一个节点上修复，用 `ongpu doctor` 验证，再处理其余节点。",
    ),
    variants={
        "apart": (
            Text(
                title="{nodes} of {of} nodes ({percent} %) have the same fault: {slug}; what sets them apart is {common}",
                why="One fault on so many machines has one cause, and the healthy nodes mostly do not share {common}. Affected: {names}.",
                fix="Start there: bring one node to the state of the healthy ones in this point, check it with `ongpu doctor`, then the others; "
                "`ongpu rules {slug}` tells the fault itself.",
            ),
            Text(
                title="{of} 个节点中有 {nodes} 个（{percent} %）出现同一故障：{slug}；它们的共同点是{common}",
                why="这么多机器出现同一故障，原因应当只有一个；正常节点大多没有这个共同点（{common}）。受影响的节点：{names}。",
                fix="从这一点入手：把一个节点在这方面改成与正常节点一致，用 `ongpu doctor` 验证后再处理其余节点；故障本身见 `ongpu rules {slug}`。",
            ),
        ),
        "cable": (
            Text(
                title="{nodes} of {of} nodes ({percent} %) lost GPUs ({lost} in all): most likely loose power cables",
                why="The driver of {cables} of these nodes says that a card's auxiliary power is not connected (Xid 54); the others lost their cards "
                "in the same way without saying why. So many at once is a matter of assembly, transport or one batch of cables, not of so many "
                "broken cards{common:: they have * in common}. Affected: {names}.",
                fix="Check the auxiliary power plugs of every card on the affected nodes (pushed in until they latch, no strain on the cable, one cable "
                "for each plug), and on the healthy ones of the same delivery too. " + _LOST_FIX_EN,
            ),
            Text(
                title="{of} 个节点中有 {nodes} 个（{percent} %）丢失 GPU（共 {lost} 块）：最可能是供电线松动",
                why="其中 {cables} 个节点的驱动报告显卡外接供电未接通（Xid 54），其余节点以同样方式丢卡但没有说明原因。同时丢失这么多，多半是装配、运输或"
                "同一批线缆的问题，而不是这么多显卡同时损坏{common:（共同点：*）}。受影响的节点：{names}。",
                fix="检查受影响节点上每块显卡的外接供电插头（插到卡扣到位、线缆不受力、每个插头单独走线），同批交付的正常节点也要检查。" + _LOST_FIX_ZH,
            ),
        ),
        "lost-apart": (
            Text(
                title="{nodes} of {of} nodes ({percent} %) lost GPUs ({lost} in all); what sets them apart is {common}",
                why="So many losses have one cause. The healthy nodes mostly do not share {common}: the same place points to a cable, riser or slot of "
                "the chassis, the same driver or kernel to an update, the same rack to its power or cooling. Affected: {names}.",
                fix="Compare one affected node with a healthy one in this point first. " + _LOST_FIX_EN,
            ),
            Text(
                title="{of} 个节点中有 {nodes} 个（{percent} %）丢失 GPU（共 {lost} 块）；它们的共同点是{common}",
                why="同时丢失这么多，原因应当只有一个。正常节点大多没有这个共同点（{common}）：同一位置说明是机箱内的线缆、转接卡或插槽，同一驱动或内核说明是升级，"
                "同一机架说明是供电或散热。受影响的节点：{names}。",
                fix="先就这一点比较一个受影响节点与一个正常节点。" + _LOST_FIX_ZH,
            ),
        ),
        "lost": (
            Text(
                title="{nodes} of {of} nodes ({percent} %) lost GPUs ({lost} in all): likely one mechanical or electrical cause",
                why="Nothing that was asked sets these nodes apart (driver, kernel, card, name, place of the card). Losses on so many machines are "
                "mostly loose power plugs, cards or risers after transport or assembly, then power supplies, then firmware. Affected: {names}.",
                fix=_LOST_FIX_EN,
            ),
            Text(
                title="{of} 个节点中有 {nodes} 个（{percent} %）丢失 GPU（共 {lost} 块）：很可能是同一个机械或供电原因",
                why="查询到的信息里没有能区分这些节点的共同点（驱动、内核、显卡、名称、卡位）。这么多机器丢卡，多数是运输或装配后供电插头、显卡或转接卡松动，"
                "其次是电源，再次是固件。受影响的节点：{names}。",
                fix=_LOST_FIX_ZH,
            ),
        ),
    },
)
