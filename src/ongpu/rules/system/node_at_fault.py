"""One machine of a fleet lacks GPUs or has a fault of its own; one that did not answer is unknown, not healthy."""

import shlex
from collections.abc import Iterator

from ongpu.facts.fleet import Fault, Fleet, Node
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text, Unknown

MOST = 50  # nodes that are told one by one


def check(fleet: Fleet) -> Iterator[Finding]:
    usual = fleet.usual
    told = 0
    for node in fleet.answered:
        lost = max(node.missing(usual), len(node.lost))
        if lost and not any(p.slug == "gpus-missing" and node in p.nodes for p in fleet.patterns):
            yield _finding(node, "missing", Severity.ERROR, lost=lost, want=node.expected if node.expected is not None else usual)
            told += 1
        for fault in fleet.own(node)[:4]:
            yield _finding(node, "", Severity.ERROR if fault.severity == "error" else Severity.WARNING, fault=fault)
            told += 1
        if told >= MOST:
            break
    silent = [node for node in fleet.nodes if not node.answered]
    if silent:
        names = ", ".join(f"{node.name} ({node.problem or 'no answer'})" for node in silent[:8]) + (", ..." if len(silent) > 8 else "")
        first = silent[0].name
        raise Unknown(
            f"whether {len(silent)} of {len(fleet.nodes)} nodes are healthy, for they did not answer: {names}",
            (shlex.join(("ssh", first, "true")), shlex.join(("ongpu", "fleet", "--timeout", "60", first))),
        )


def _finding(node: Node, variant: str, severity: Severity, fault: Fault | None = None, lost: int = 0, want: int | None = None) -> Finding:
    return Finding(
        subject=node.name, severity=severity, variant=variant, certainty=Certainty.CERTAIN, refs=(node.ref,),
        values={
            "node": node.name, "slug": fault.slug if fault else "?", "title": (fault.title or fault.slug) if fault else "?",
            "gpu": "?" if fault is None or fault.gpu is None else fault.gpu, "lost": lost,
            "want": "?" if want is None else want, "have": "?" if node.present is None else node.present,
        },
    )  # fmt: skip


RULE = Rule(
    slug="node-at-fault",
    layer=Layer.SYSTEM,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.nvidia.com/deploy/gpu-debug-guidelines/", "https://docs.nvidia.com/deploy/xid-errors/"),
    en=Text(
        title="{node}{gpu:, GPU *}: {title}",
        why="The node's own diagnosis says so ({slug}).",
        fix="Run `ongpu doctor` on that node: it shows the grounds and the repair commands for its system; `ongpu rules {slug}` tells the fault.",
    ),
    zh=Text(
        title="{node}{gpu:，GPU *}：{title}",
        why="这是该节点自己的诊断结果（{slug}）。",
        fix="在该节点运行 `ongpu doctor`：它会给出依据和适合该系统的修复命令；故障说明见 `ongpu rules {slug}`。",
    ),
    variants={
        "missing": (
            Text(
                title="{node} shows {have} GPUs{want:, it should have *}: {lost} missing",
                why="The driver there does not show them, so no job will be placed on them, and nothing else may say a word about it.",
                fix="Run `ongpu doctor` on that node: a card that fell off the bus, lost its power or is held by nobody's driver is told apart there.",
            ),
            Text(
                title="{node}只显示 {have} 块 GPU{want:，应有 * 块}：缺少 {lost} 块",
                why="该节点的驱动没有列出它们，因此不会有任务分配上去，而且可能没有其他任何提示。",
                fix="在该节点运行 `ongpu doctor`：它能区分掉线、掉电和没有被驱动接管的显卡。",
            ),
        ),
    },
)
