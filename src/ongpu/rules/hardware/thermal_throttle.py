"""The clocks are held down by heat, by the card's own limits."""

import re
from collections.abc import Iterator

from ongpu.facts.code import TrainingLog
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

HOT = 83  # C: at or above the target of most cards, where their boost clocks begin to fall
SLOW = 800  # MHz under load: below the base clock of every card since Maxwell
OTHERS = ("battery-told", "vgpu-told", "twenty-minutes-told", "memory-not-enough", "sysmem-told", "spilling-driver-told", "suspend-told")
_LIMITS = lazy(r"(?:Slowdown|Shutdown|Max Operating|Target|Limit|T\.?Limit)\w* (?:Temp|T\b)|Target Temperature", re.IGNORECASE)  # of `nvidia-smi -q`: what the card may reach
REASONS = ("HW Thermal Slowdown", "SW Thermal Slowdown")


def check(symptoms: Symptoms | None, gpus: Gpus | None, log: TrainingLog | None) -> Iterator[Finding]:
    found = False
    for gpu in gpus.gpus if gpus else ():
        reasons = [r for r in gpu.throttle or () if r in REASONS]
        hot = bool(gpu.temperature and gpu.temperature_slowdown and gpu.temperature >= gpu.temperature_slowdown)
        hot = hot or (gpu.temperature_margin is not None and gpu.temperature_margin <= 0)
        slow = bool(gpu.clock_sm and gpu.clock_sm_max and gpu.clock_sm < 0.7 * gpu.clock_sm_max) or bool(gpu.clock_sm and gpu.clock_sm < SLOW)
        if not reasons and not hot and (gpu.temperature or 0) >= HOT and (gpu.utilization or 0) >= 50 and slow:
            found = True
            yield Finding(
                subject=gpu.label, certainty=Certainty.LIKELY, values=_values(gpu, []), variant="clocks", fixes=(Fix("look-at-clocks"),),
                refs=(*_lines(gpus), *((gpu.ref,) if gpu.ref else ())),
            )  # fmt: skip
            continue
        told = symptoms.cite("speed-falls", "slower-over-time", "low-clock-told", most=2) if symptoms else ()
        near = _lowered(gpu) and gpu.temperature is not None and gpu.temperature_max is not None and gpu.temperature >= gpu.temperature_max - 3
        if not reasons and not hot and near and told:
            found = True
            yield Finding(
                subject=gpu.label, certainty=Certainty.LIKELY, values=_values(gpu, ["SM clocks fall under load"]), variant="firmware", fixes=(Fix("look-at-clocks"),),
                refs=(*_lines(gpus), *told),
            )  # fmt: skip
            continue
        if reasons or hot:
            found = True
            yield Finding(
                subject=gpu.label, certainty=Certainty.CERTAIN, values=_values(gpu, reasons), fixes=(Fix("look-at-clocks"),),
                variant="firmware" if _lowered(gpu) else "",
                refs=(*_lines(gpus), *((gpu.ref,) if gpu.ref else ())),
            )  # fmt: skip
    if found or not symptoms or any(g.throttle is not None for g in (gpus.gpus if gpus else ())):
        return
    said = symptoms.cite("thermal-said")
    slower = symptoms.has("slower-over-time")
    shown = [hit for hit in symptoms.seen("hot-figure") if not _LIMITS.search(hit.ref.quote)]
    figure, falls, again = tuple(hit.ref for hit in shown[:2]), symptoms.cite("speed-falls", "low-clock-told", most=2), symptoms.cite("recovers-told", most=2)
    weak = bool(falls) and bool(again) and not symptoms.has(*OTHERS)
    if not slower and ((figure and falls) or weak):
        degrees = shown[0].groups.get("temp") if shown else None
        yield Finding(
            certainty=Certainty.LIKELY if figure and falls else Certainty.POSSIBLE, variant="figure" if degrees else "told",
            values={"temperature": degrees or "?"}, fixes=(Fix("look-at-clocks"),), refs=(*figure, *falls, *again, *said),
        )  # fmt: skip
        return
    if said or (slower and symptoms.has("waiting-helps")):
        yield Finding(
            certainty=Certainty.LIKELY if slower and (said or symptoms.has("waiting-helps")) else Certainty.POSSIBLE,
            severity=None if slower else Severity.WARNING if _printed(said) else Severity.NOTE,
            variant="told",
            fixes=(Fix("look-at-clocks"),),
            refs=(*said, *symptoms.cite("slower-over-time", "waiting-helps", most=2)),
        )


def _printed(said) -> bool:  # type: ignore[no-untyped-def]
    return any("slowdown" in ref.quote.lower() or "throttl" in ref.quote.lower() for ref in said)


def _lowered(gpu: Gpu) -> bool:
    """Whether the limit that software keeps is far below the card's own: the firmware of a laptop or server set it."""
    return bool(
        gpu.temperature_max and gpu.temperature_slowdown and gpu.temperature_max < gpu.temperature_slowdown - 25
    )


def _values(gpu: Gpu, reasons: list[str]) -> dict[str, object]:
    return {
        "gpu": gpu.label, "temperature": "?" if gpu.temperature is None else gpu.temperature,
        "limit": (gpu.temperature_max if _lowered(gpu) else None) or gpu.temperature_slowdown or gpu.temperature_max or "?", "clock": gpu.clock_sm or "?", "clock_max": gpu.clock_sm_max or "?",
        "reasons": reasons or ["temperature at the slowdown limit"],
    }  # fmt: skip


def _lines(gpus: Gpus | None):  # type: ignore[no-untyped-def]
    names = (
        "throttle",
        "temperature",
        "temperature_slowdown",
        "temperature_margin",
        "temperature_max",
        "clock_sm",
        "clock_sm_max",
    )
    return tuple(ref for ref in gpus.refs if ref.about in names) if gpus else ()


_FIX_EN = (
    "Watch temperature and SM clock together: nvidia-smi dmon -s pct, and nvidia-smi -q -d TEMPERATURE,PERFORMANCE. Clean dust "
    "filters and heat sink, give the card air (passive Tesla cards need a server's airflow or a blower), check fans and the room, "
    "renew the thermal paste; a laptop wants a cooling pad. Capping the power (nvidia-smi -pl) helps at once and costs little speed."
)
_FIX_ZH = (
    "同时观察温度与 SM 频率：nvidia-smi dmon -s pct、nvidia-smi -q -d TEMPERATURE,PERFORMANCE。清理灰尘和散热片，改善风道"
    "（被动散热的 Tesla 卡需要服务器风道或涡轮风扇），检查风扇与室温，更换导热硅脂；笔记本加散热底座。限制功耗（nvidia-smi -pl）"
    "立刻见效且损失不大。"
)

RULE = Rule(
    slug="thermal-throttle",
    layer=Layer.HARDWARE,
    severity=Severity.WARNING,
    check=check,
    hides=("input-pipeline-bound", "workload-too-small"),
    settle=("nvidia-smi -q -d TEMPERATURE,PERFORMANCE,CLOCK",),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/", "https://github.com/tensorflow/tensorflow/issues/40042"),
    en=Text(
        title="{gpu} is throttled by heat: {temperature:* C }{limit:(slowdown at * C), }{reasons}{clock:; SM clock * MHz}{clock_max: of * MHz}",
        why="The card itself says that it lowers its clocks because of its temperature. Each model has its own limit; this is that limit, "
        "not a rule of thumb.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="{gpu} 因过热降频：{temperature:* C}{limit:（降频温度 * C）}，{reasons}{clock:；SM 频率 * MHz}{clock_max:（最高 * MHz）}",
        why="显卡自己报告因温度而降低频率。每个型号的上限不同，这里用的是这张卡自己的上限，而非经验值。",
        fix=_FIX_ZH,
    ),
    variants={
        "firmware": (
            Text(
                title="{gpu} is throttled at {temperature} C because its operating limit is set to only {limit} C ({reasons})",
                why="\"GPU Max Operating Temp\" is far below the slowdown temperature of the card: the laptop's or server's firmware (ACPI, DPTF, "
                "thermald, Dynamic Boost) lowered it.{clock: SM clock * MHz}{clock_max: of * MHz}{clock:.|} Cleaning alone will not help.",
                fix="Update the BIOS, choose the performance profile, plug in the original power supply; on Linux try thermald --adaptive or stop "
                "thermald, and a driver update. See the limits with nvidia-smi -q -d TEMPERATURE,PERFORMANCE.",
            ),
            Text(
                title="{gpu} 在 {temperature} C 就降频，因为运行温度上限被设为仅 {limit} C（{reasons}）",
                why="“GPU Max Operating Temp” 远低于显卡自身的降频温度：是笔记本或服务器固件（ACPI、DPTF、thermald、Dynamic Boost）调低的。"
                "{clock:SM 频率 * MHz}{clock_max:（最高 * MHz）}{clock:。|}只清灰没有用。",
                fix="升级 BIOS，选性能模式，接原装电源；Linux 上可试 thermald --adaptive 或停用 thermald，并升级驱动。用 "
                "nvidia-smi -q -d TEMPERATURE,PERFORMANCE 查看各上限。",
            ),
        ),
        "clocks": (
            Text(
                title="{gpu} works at {temperature} C with its SM clock down to {clock} MHz: throttled by heat",
                why="Under load the clock lies far below what the card can do (here up to {clock_max} MHz was seen), at a temperature where cards lower it.",
                fix=_FIX_EN,
            ),
            Text(
                title="{gpu} 在 {temperature} C 下工作，SM 频率降到 {clock} MHz：过热降频",
                why="负载下的频率远低于显卡能力（这里最高见到 {clock_max} MHz），而温度正处在显卡会降频的区间。",
                fix=_FIX_ZH,
            ),
        ),
        "figure": (
            Text(
                title="The GPU reaches {temperature} C and slows down: it is throttled by heat (temperature)",
                why="Cards hold a target temperature (83 to 88 C for most) by lowering their clocks and power. A cold card runs at full speed for some minutes, then "
                "slows down, and is fast again after a pause.",
                fix=_FIX_EN + " On a GeForce raise the fan curve (GPUFanControlState with nvidia-settings, or the maker's tool); warm the card up before you measure.",
            ),
            Text(
                title="GPU 达到 {temperature} C 后变慢：过热降频（temperature，温度）",
                why="显卡靠降低频率和功耗把温度保持在目标值（多数为 83 到 88 C）。冷卡先全速跑几分钟，然后变慢，停一会又恢复。",
                fix=_FIX_ZH + "GeForce 可调高风扇曲线（nvidia-settings 的 GPUFanControlState，或厂商工具）；测速前先预热。",
            ),
        ),
        "told": (
            Text(
                title="The GPU probably gets too hot: speed falls with running time (temperature)",
                why="A job that is fast on a cold machine, slows down while the utilisation stays high, and is fast again after a pause, is how "
                "heat looks: the card lowers its clocks. Temperature and the throttle reasons would prove it.",
                fix=_FIX_EN,
            ),
            Text(
                title="GPU 很可能过热：运行越久越慢（temperature，温度）",
                why="冷机时快，占用率不降却越来越慢，停一会又恢复，这是过热降频的典型表现。温度与降频原因（throttle reasons）可以证实。",
                fix=_FIX_ZH,
            ),
        ),
    },
)
