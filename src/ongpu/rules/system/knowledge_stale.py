"""ongpu's own tables are old: newer cards, drivers and builds may be missing in them."""

from collections.abc import Iterator
from datetime import date

from ongpu.facts.environment import Machine
from ongpu.knowledge import freshness
from ongpu.model import Finding, Layer, Ref, Rule, Severity, Text


def check(machine: Machine) -> Iterator[Finding]:
    if not machine.today:
        return
    try:
        today = date.fromisoformat(machine.today)
    except ValueError:
        return
    old = freshness.stale(today)
    if old:
        yield Finding(
            values={
                "oldest": old[0][1].isoformat(), "count": len(old), "names": [name for name, _ in old],
                "days": (today - old[0][1]).days, "limit": freshness.MAX_AGE_DAYS,
            },
            refs=(*machine.about("today")[:1], *(Ref(f"ongpu/knowledge/{name}.toml", 1, f"checked = {day}") for name, day in old)),
        )  # fmt: skip


RULE = Rule(
    slug="knowledge-stale",
    layer=Layer.SYSTEM,
    severity=Severity.NOTE,
    check=check,
    see=("https://download.pytorch.org/whl/torch/", "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/"),
    en=Text(
        title="ongpu's tables are old: the oldest was checked on {oldest}, {days} days ago",
        why="Which driver runs which CUDA, and which build has code for which card, stands in tables of ongpu ({names}), each with the day on "
        "which it was checked. After {limit} days cards, drivers and releases are likely to be missing; what was found on this machine "
        "does not depend on them, but a recommended version may no longer be the newest.",
        fix="Update ongpu. Until then check a recommended version against the project's own page.",
    ),
    zh=Text(
        title="ongpu 的知识表已旧：最早的一份核对于 {oldest}，距今 {days} 天",
        why="哪个驱动能运行哪个 CUDA、哪个构建含有哪张卡的代码，都记在 ongpu 的表里（{names}），每张表都注明了核对日期。超过 {limit} 天后，"
        "很可能缺少新的显卡、驱动和版本。在本机上发现的事实不受影响，但推荐的版本可能已不是最新。",
        fix="升级 ongpu。在此之前，请对照相应项目的官网核对推荐的版本。",
    ),
)
