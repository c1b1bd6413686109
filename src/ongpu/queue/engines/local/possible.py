"""Whether this machine can ever run what is asked for; said at once, with what would fit."""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ongpu.queue.engines import EngineError
from ongpu.queue.job import Card, Spec
from ongpu.queue.words import size

if TYPE_CHECKING:
    from ongpu.queue.config import Config

PATIENCE = 5.0  # seconds for a driver that does not answer
RESERVE = 512  # MiB of a shared GPU that nobody may declare: contexts, and the driver's own


def first_look() -> list[Card]:
    """The GPUs, asked of the driver: once on a machine, before the daemon has ever looked. Empty where none answers."""
    from ongpu.queue import gate, machine

    report = machine.ask(patience=PATIENCE)
    capability = {gpu.index: gpu.capability or "" for gpu in gate.cards(report)}
    found = [card for card in machine.cards_of(report, {}, gate.DEFAULT) if card.uuid]
    return [
        Card(id=card.uuid, index=card.index, name=card.name, memory=card.total, util=card.util, capability=capability.get(card.index, ""))
        for card in found
    ]


def cpus(config: "Config") -> int:
    """CPUs that this machine gives out."""
    return config.cpus or len(os.sched_getaffinity(0))


def host_memory(config: "Config") -> int:
    """MiB of this machine's memory that it gives out."""
    if config.host_memory:
        return config.host_memory
    with contextlib.suppress(OSError, ValueError):
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20)
    return 1 << 30


def refuse_beyond(spec: Spec, config: "Config", user: str) -> None:
    """Raises EngineError where it asks for more than the machine has of CPUs and memory, or than a quota lets its user have."""
    if spec.cpus and spec.cpus > (most := cpus(config)):
        raise EngineError(f"--cpus {spec.cpus}: this machine gives out {most}", f"--cpus {spec.cpus}：本机可分配 {most} 个")
    if spec.host_memory and spec.host_memory > (most := host_memory(config)):
        want, there = size(spec.host_memory), size(most)
        raise EngineError(f"--host-memory {want}: this machine gives out {there}", f"--host-memory {want}：本机可分配 {there}")
    for name, quota in config.quotas.of(user, spec.project) if spec.gpus else ():
        kind, _, who = name.partition(":")
        whose = ("the project ", "项目 ") if kind == "project" else ("", "用户 ")
        if quota.gpus is not None and spec.gpus > quota.gpus:
            raise EngineError(
                f"--gpus {spec.gpus}: the quota of {whose[0]}{who} is {quota.gpus}; it would never start",
                f"--gpus {spec.gpus}：{whose[1]}{who} 的配额为 {quota.gpus}；它永远无法启动",
            )
        if quota.gpu_hours is not None and quota.gpu_hours <= 0:
            raise EngineError(
                f"--gpus {spec.gpus}: the quota of {whose[0]}{who} is 0 GPU hours a week; it would never start",
                f"--gpus {spec.gpus}：{whose[1]}{who} 每周的配额为 0 GPU 小时；它永远无法启动",
            )


def refuse(spec: Spec, cards: Sequence[Card]) -> None:
    """Raises EngineError where the machine has too few such GPUs, whatever ends. What is drained may come back, and counts."""
    left = [card for card in cards if card.state != "gone"]
    if not left:
        raise EngineError(
            "no GPU answers on this machine; --gpus 0 runs it without, `ongpu doctor` says what is wrong",
            "本机没有 GPU 应答；--gpus 0 可不用 GPU 运行，`ongpu doctor` 会说明原因",
        )
    if len(left) < spec.gpus:
        raise EngineError(
            f"--gpus {spec.gpus}: this machine has {len(left)} that fit; it would never start",
            f"--gpus {spec.gpus}：本机符合的有 {len(left)} 块；它永远无法启动",
        )
    here, said = left, []

    def modelled(card: Card) -> bool:
        return spec.model.lower() in card.name.lower()

    def capable(card: Card) -> bool:
        return not card.capability or _version(card.capability) >= (spec.capability or ())

    def large(card: Card) -> bool:
        most = _most(card, spec)
        return most is None or most >= (spec.memory or 0)

    wanted = ".".join(map(str, spec.capability or ()))
    steps: Sequence[tuple[str, str, Callable[[Card], bool]]] = (
        ("--model", spec.model, modelled),
        ("--capability", wanted, capable),
        ("--memory", size(spec.memory) if spec.memory else "", large),
    )
    for option, want, fit in steps:
        if not want:
            continue
        said.append(f"{option} {want}")
        before, left = left, [card for card in left if fit(card)]
        if len(left) < spec.gpus:
            raise _too_few(spec, " ".join(said), len(left), here, before if option == "--memory" else ())


def _too_few(spec: Spec, said: str, count: int, here: Sequence[Card], of: Sequence[Card]) -> EngineError:
    """What was asked, how many GPUs are so, and what would fit. of: those among which there are too few with so much memory."""
    most = sorted((known for card in of if (known := _most(card, spec)) is not None), reverse=True)
    if len(most) >= spec.gpus:
        what = ("each may declare", "每块最多可声明") if spec.share else ("the largest has", "最大的有")
        what = what if spec.gpus == 1 else (f"{spec.gpus} have at least", f"有 {spec.gpus} 块至少有")
        there = (f"{what[0]} {size(most[spec.gpus - 1])}", f"{what[1]} {size(most[spec.gpus - 1])}")
    else:
        kinds: dict[str, int] = {}
        for card in here:
            told = ", ".join(filter(None, (size(card.memory) if card.memory else "", card.capability)))
            name = f"{card.name or '?'} ({told})" if told else card.name or "?"
            kinds[name] = kinds.get(name, 0) + 1
        listed = [f"{many} x {name}" for name, many in sorted(kinds.items())[:4]]
        there = (f"it has {', '.join(listed)}", f"本机有 {'、'.join(listed)}")
    asked = f"--gpus {spec.gpus} " if spec.gpus != 1 else "--share " if spec.share else ""
    return EngineError(
        f"{asked}{said}: this machine has {count} such GPU{'' if count == 1 else 's'}; {there[0]}; it would never start",
        f"{asked}{said}：本机符合的有 {count} 块；{there[1]}；它永远无法启动",
    )


def _most(card: Card, spec: Spec) -> int | None:
    """MiB of it that such a job may ask for; None: not told."""
    return None if card.memory is None else card.memory - RESERVE if spec.share else card.memory


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
