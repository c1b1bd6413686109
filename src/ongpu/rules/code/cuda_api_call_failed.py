"""A call of the CUDA API returned an error that compute-sanitizer saw, and no kernel is to blame for it."""

from collections.abc import Iterator

from ongpu.facts.sanitizer import ApiError, Sanitizer
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text

MOST = 4  # different errors that are told


def check(sanitizer: Sanitizer) -> Iterator[Finding]:
    faulty = bool(sanitizer.of("access", "barrier"))
    told: dict[tuple[str, str], list[ApiError]] = {}
    for call in sanitizer.calls:
        if not (faulty and call.consequence()):
            told.setdefault((call.code, call.call), []).append(call)
    for (code, function), calls in list(told.items())[:MOST]:
        first = calls[0]
        expected = first.handled()
        yield Finding(
            certainty=Certainty.POSSIBLE if expected else Certainty.LIKELY,
            severity=Severity.NOTE if expected else None,
            variant="handled" if expected else "",
            values={"code": code, "call": function, "words": first.words or "?", "number": len(calls), "host": first.host or "?"},
            refs=tuple(call.ref for call in calls[:3]),
        )


RULE = Rule(
    slug="cuda-api-call-failed",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html", "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",),
    en=Text(
        title="{call} failed with {code}{words: (*)}{host:, called by *}",
        why="compute-sanitizer tells every call that returns an error, also where the program does not look at it. An error that is not looked at comes back from a later, innocent call.",
        fix="Check the call's arguments at that place (sizes, pointers, device), and check what every call returns. ongpu explain {code} tells what the code means.",
    ),
    zh=Text(
        title="{call} 失败：{code}{words:（*）}{host:，由 * 调用}",
        why="compute-sanitizer 会报告每个返回错误的调用，即使程序没有检查返回值。未检查的错误会从后面无辜的调用里冒出来。",
        fix="检查该处调用的参数（大小、指针、设备），并检查每个调用的返回值。用 ongpu explain {code} 查看错误码的含义。",
    ),
    variants={
        "handled": (
            Text(
                title="{call} returned {code}{words: (*)}: an error that programs usually expect",
                why="Libraries ask in this way whether something is there or already done, and go on. The tool reports it all the same.",
                fix="Nothing to do, unless the program itself complains; --report-api-errors no leaves such lines out.",
            ),
            Text(
                title="{call} 返回 {code}{words:（*）}：程序通常预期会有的错误",
                why="库用这种方式询问某物是否存在或是否已完成，然后继续运行；工具仍会报告。",
                fix="除非程序本身报错，否则无需处理；加 --report-api-errors no 可不显示这些行。",
            ),
        ),
    },
)
