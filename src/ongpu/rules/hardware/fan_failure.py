"""A fan that does not turn though the card is warm enough to need it."""

from collections.abc import Iterator

from ongpu.facts.hardware import MUST_TURN, Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, gpus: Gpus | None) -> Iterator[Finding]:
    found = False
    for gpu in gpus.gpus if gpus else ():
        broken = gpu.error == "ERR! in fan"
        still = gpu.fan == 0 and gpu.temperature is not None and gpu.temperature >= MUST_TURN
        values = {"gpu": gpu.label, "temperature": "?" if gpu.temperature is None else gpu.temperature}
        refs = (gpu.ref,) if gpu.ref else ()
        if broken or still:
            found = True
            yield Finding(
                subject=gpu.label, certainty=Certainty.LIKELY, values=values, variant="reading" if broken else "",
                fixes=(Fix("look-at-clocks"),), refs=refs,
            )  # fmt: skip
    if not found and symptoms and symptoms.has("fan-said") and not any(g.fan for g in (gpus.gpus if gpus else ())):
        rest = bool(gpus and any(g.fan == 0 for g in gpus.gpus))
        if not rest:
            yield Finding(
                certainty=Certainty.LIKELY if symptoms.has("thermal-said", "hot-told") or symptoms.has("fell-off-bus") else Certainty.POSSIBLE,
                variant="told", fixes=(Fix("look-at-clocks"),), refs=symptoms.cite("fan-said", "thermal-said", "hot-told", most=2),
            )  # fmt: skip


RULE = Rule(
    slug="fan-failure",
    layer=Layer.HARDWARE,
    severity=Severity.WARNING,
    check=check,
    hides=("thermal-throttle",),
    settle=("nvidia-smi --query-gpu=fan.speed,temperature.gpu,utilization.gpu --format=csv -l 1",),
    see=("https://docs.nvidia.com/deploy/nvidia-smi/",),
    en=Text(
        title="{gpu}: the fan stands still (0 %) at {temperature} C",
        why="At rest many cards stop their fans, but at this temperature they must turn. The fan is blocked, unplugged or broken, or a tool holds it.",
        fix="Stop the load. Look whether the fan turns; free it from cables and dust; set it back to automatic control "
        "(nvidia-settings -a GPUFanControlState=0, or end the tuning tool); replace fan or cooler. Cap the power (nvidia-smi -pl) until then.",
    ),
    zh=Text(
        title="{gpu}：{temperature} C 时风扇不转（0 %）",
        why="很多显卡空闲时停转，但到这个温度必须转。风扇被卡住、未接、损坏，或被某个工具固定住。",
        fix="停下负载，看风扇是否转动；清除线缆与灰尘；恢复自动控制（nvidia-settings -a GPUFanControlState=0，或退出调校工具）；"
        "更换风扇或散热器。在此之前用 nvidia-smi -pl 限制功耗。",
    ),
    variants={
        "reading": (
            Text(
                title="{gpu}: nvidia-smi cannot read the fan (ERR!); the rest of the card answers",
                why="ERR! in the fan column alone means that the fan controller or its tachometer does not answer: a failed or unplugged fan. "
                "ERR! in all columns would be a card that is gone.",
                fix="Power off and on; look whether the fan turns; replace it. Watch the temperature under load (nvidia-smi dmon -s pct).",
            ),
            Text(
                title="{gpu}：nvidia-smi 读不到风扇（ERR!），其余读数正常",
                why="只有风扇一栏为 ERR!，说明风扇控制器或测速信号无应答：风扇损坏或未接。若所有栏都是 ERR!，则是显卡掉线。",
                fix="断电重启；看风扇是否转动；更换风扇。负载下观察温度（nvidia-smi dmon -s pct）。",
            ),
        ),
        "told": (
            Text(
                title="A fan of the GPU is said not to turn",
                why="Without it the card overheats, lowers its clocks and may fall off the bus. At rest, below about 60 C, a still fan is normal.",
                fix="Compare fan speed and temperature under load: nvidia-smi --query-gpu=fan.speed,temperature.gpu --format=csv -l 1. If the fan "
                "stands still above 75 C, free or replace it; passive cards need the server's airflow.",
            ),
            Text(
                title="据描述 GPU 风扇不转",
                why="没有风扇，显卡会过热降频，甚至掉线。空闲且低于约 60 C 时停转属正常。",
                fix="在负载下对比转速与温度：nvidia-smi --query-gpu=fan.speed,temperature.gpu --format=csv -l 1。若超过 75 C 仍不转，清理或更换风扇；"
                "被动散热卡需要服务器风道。",
            ),
        ),
    },
)
