"""What is asked for, from words and JSON into a `Spec` and back: sizes, times, arrays, ids; what cannot be is refused in one line."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ongpu.lazy import field_names, lazy
from ongpu.queue.engines import EngineError
from ongpu.queue.job import Spec

MOST_ARRAY = 100_000  # jobs in one array
MOST_TEXT = 128 << 10  # bytes of one text: Linux takes no longer argument (MAX_ARG_STRLEN, execve(2))
MOST_BYTES = 2 << 20  # of command and environment together: the kernel's usual limit (a quarter of an 8 MiB stack, execve(2))
MOST_GPUS, MOST_PRIORITY, MOST_RETRIES, MOST_AFTER = 4096, 10, 1000, 1000
RETRIES = 1  # that nobody asked for
MOST_MIB = 1 << 30
LEAST_IDLE = 60.0  # seconds: nothing is idle sooner (engines/local/idle.py)
MOST_SECONDS = 10 * 366 * 86400.0

_SIZE = lazy(r"\s{0,3}(\d{1,9}(?:\.\d{1,6})?)\s{0,3}([KMGT])(?:i?B)?\s{0,3}", re.ASCII | re.IGNORECASE)
_SPAN = lazy(r"(\d{1,9}(?:\.\d{1,6})?)\s?(s|sec|m|min|h|d|w)", re.ASCII | re.IGNORECASE)
_SPANS = lazy(r"(?:\d{1,9}(?:\.\d{1,6})?\s?(?:sec|s|min|m|h|d|w)\s?){1,5}", re.ASCII | re.IGNORECASE)
_CLOCK = lazy(r"(?:(\d{1,4})-)?(\d{1,4}):(\d{1,2}):(\d{1,2})|(\d{1,4})-(\d{1,2})(?::(\d{1,2}))?", re.ASCII)
_UNIT = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_RANGE = lazy(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,6}))?)?", re.ASCII)
_CAPABILITY = lazy(r"(?:sm_?)?(\d{1,2})\.?(\d)", re.ASCII | re.IGNORECASE)
_SIGNAL = lazy(r"SIG[A-Z0-9]{2,12}(?:[+-]\d{1,2})?")
_URL = lazy(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S{1,2000}")
_ID = lazy(r"[A-Za-z0-9][A-Za-z0-9_.\-\[\]+]{0,127}")
_SCRIPT = lazy(r"\d{1,2}:[0-9a-f]{16}-[A-Za-z0-9._-]{1,64}")


def bad(what: str, value: object, english: str, chinese: str) -> EngineError:
    """What was asked wrongly: the word for it, what was written, what may be written."""
    shown = " ".join(str(value)[:60].split())
    return EngineError(f"{what} {shown}: {english}", f"{what} {shown}：{chinese}")


def size(text: str, what: str = "--memory") -> int:
    """MiB of "20GiB", "20G", "20000 MB", "1.5T" (powers of 1024 in all: so GPUs are sold and told). Raises EngineError."""
    match = _SIZE.fullmatch(text)
    mib = float(match[1]) * 1024 ** ("KMGT".index(match[2].upper()) - 1) if match else 0
    if not 0 < mib <= MOST_MIB:
        raise bad(what, text, "write 20GiB or 512MiB", "请写 20GiB 或 512MiB")
    return math.ceil(mib)


def duration(text: str, what: str = "--time") -> float:
    """Seconds of "90s", "15min", "4h", "1h30m", "2d", and of Slurm's "1:30:00", "1-02", "1-02:30", "1-02:00:00".

    A bare number or "4:00" is refused: minutes for one, hours for another. Raises EngineError.
    """
    stripped = text.strip()
    seconds = 0.0
    if clock := _CLOCK.fullmatch(stripped):
        days, hours, minutes, rest, other, more, last = (int(part or 0) for part in clock.groups())
        wrong = (clock[1] and hours > 23) or more > 23 or max(minutes, rest, last) > 59
        seconds = 0.0 if wrong else 86400.0 * (days + other) + 3600.0 * (hours + more) + 60.0 * (minutes + last) + rest
    elif _SPANS.fullmatch(stripped):
        seconds = sum(float(number) * _UNIT[unit.lower()] for number, unit in _SPAN.findall(stripped))
    if not 0 < seconds <= MOST_SECONDS:
        raise bad(what, text, "write 90s, 30min, 4h, 2d, 1:30:00 or 1-02:00:00", "请写 90s、30min、4h、2d、1:30:00 或 1-02:00:00")
    return seconds


def moment(text: str, now: float, what: str = "--begin") -> float:
    """Seconds since the epoch of "+2h", "now+2h", "18:30" (the next one), "2026-12-01", "2026-12-01T08:00" (local time; or with an offset).

    Raises EngineError.
    """
    from datetime import datetime, timedelta

    stripped = text.strip()
    if stripped.startswith(("+", "now+")):
        return now + duration(stripped.partition("+")[2], what)
    try:
        today = datetime.fromtimestamp(now)
        if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}", stripped):
            hour, minute = map(int, stripped.split(":"))
            at = today.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (at if at > today else at + timedelta(days=1)).timestamp()
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}[0-9:.+Z-]{0,20})?", stripped):
            raise ValueError
        return datetime.fromisoformat(stripped).timestamp()
    except (ValueError, OverflowError, OSError):
        raise bad(what, text, "write +2h, 18:30 or 2026-12-01T08:00", "请写 +2h、18:30 或 2026-12-01T08:00") from None


def array(text: str, what: str = "--array") -> tuple[tuple[int, ...], int | None]:
    """The indices, ascending, and how many at once, of "0-99%8", "1,3,5", "0-90:10". Raises EngineError."""
    too_many = bad(what, text, f"at most {MOST_ARRAY} jobs in one array", f"一个数组最多 {MOST_ARRAY} 个作业")
    body, percent, many = text.strip().partition("%")
    indices: set[int] = set()
    good = bool(body) and len(body) <= 10_000
    if percent:
        good = good and many.isascii() and many.isdigit() and len(many) < 7 and int(many) > 0
    for part in body.split(",") if good else ():
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        step = int(match[3] or 1) if match else 0
        if step >= 1 and (last - first) // step >= MOST_ARRAY:
            raise too_many
        if step < 1 or last < first:
            good = False
            break
        indices.update(range(first, last + 1, step))
    if not good or not indices:
        raise bad(what, text, "write 0-99, 0-99%8 or 1,3,5", "请写 0-99、0-99%8 或 1,3,5")
    if len(indices) > MOST_ARRAY:
        raise too_many
    return tuple(sorted(indices)), int(many) if percent else None


def after(text: str, what: str = "--after") -> tuple[tuple[str, str], ...]:
    """("ok" or "any", id) of "12", "ok:12", "any:12,13", and of Slurm's "afterok:12:13,afterany:14"; a bare id means ok.

    Raises EngineError.
    """
    found: list[tuple[str, str]] = []
    kind = "ok"
    kinds = {"ok": "ok", "any": "any", "afterok": "ok", "afterany": "any"}
    for part in text.strip().split(","):
        first, *rest = [word.strip() for word in part.split(":")]
        if rest and first.lower() in kinds:
            kind = kinds[first.lower()]
            ids = rest
        else:
            ids = [first, *rest]
        if not all(_ID.fullmatch(one) for one in ids) or len(found) > MOST_AFTER:
            raise bad(what, text, "write 12, any:12 or ok:12,13", "请写 12、any:12 或 ok:12,13")
        found += [(kind, one) for one in ids]
    return tuple(dict.fromkeys(found))


def capability(text: str, what: str = "--capability") -> tuple[int, int]:
    """(8, 0) of "8.0", "80", "sm_80". Raises EngineError."""
    match = _CAPABILITY.fullmatch(text.strip())
    if match is None:
        raise bad(what, text, "write 8.0", "请写 8.0")
    return int(match[1]), int(match[2])


def signal_name(text: str, what: str = "--checkpoint") -> str:
    """ "SIGUSR1" of "USR1", "SIGUSR1", "usr1" or "10". Raises EngineError."""
    import signal

    word = text.strip().upper()
    with_sig = word if word.startswith("SIG") else f"SIG{word}"
    try:
        name = signal.Signals(int(word)).name if word.isascii() and word.isdigit() and len(word) < 4 else signal.Signals[with_sig].name
    except (ValueError, KeyError):
        name = ""
    if not name or name in ("SIGKILL", "SIGSTOP"):
        raise bad(what, text, "write a signal that a program can catch: SIGUSR1", "请写程序可以捕获的信号：SIGUSR1")
    return name


def without_secrets(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables that may be written down unasked, and the names of the others: tokens, passwords, keys."""
    from ongpu.hosts.redact import is_secret

    left = sorted(name for name, value in environ.items() if is_secret(name, value))
    return {name: value for name, value in environ.items() if name not in left}, left


def retries(engine: str, gpus: int, retry_on: str = "") -> int:
    """How often a job is run again, where nobody said it, from wherever it was submitted: of our own queue once, after a GPU's fault."""
    return RETRIES if retry_on or (engine == "local" and gpus) else 0


# -- JSON


def to_json(spec: Spec) -> dict[str, Any]:
    """The fields that were asked, as JSON takes them."""
    found: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(spec, name)
        if value != _PLAIN[name]:
            found[name] = dict(value) if name == "environ" else [list(one) for one in value] if name == "after" else value
    return found


def from_json(data: Any) -> Spec:
    """The Spec of `to_json`; unknown fields, wrong types and impossible values are refused. Raises EngineError."""
    if not isinstance(data, dict):
        raise EngineError("a job is to be a table of its fields", "作业应为字段表")
    if unknown := [str(name)[:40] for name in data if name not in _FIELDS]:
        raise EngineError(f"{unknown[0]}: a job has no such field", f"{unknown[0]}：作业没有这一项")
    values: dict[str, Any] = dict(data)
    for name in ("command", "capability"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    if isinstance(values.get("after"), list):
        values["after"] = tuple(tuple(one) if isinstance(one, list) else one for one in values["after"])
    values.setdefault("command", ())
    return checked(Spec(**values))


def quick(data: dict[str, Any]) -> Spec:
    """The Spec of what `to_json` made and we kept: not checked again; what a newer ongpu added is left out."""
    data = {name: value for name, value in data.items() if name in _PLAIN}
    for name in ("command", "capability"):
        if name in data:
            data[name] = tuple(data[name])
    if "after" in data:
        data["after"] = tuple(tuple(one) for one in data["after"])
    return Spec(**data)


_PLAIN: Mapping[str, Any] = {name: getattr(Spec(command=()), name) for name in field_names(Spec)}
_FIELDS = tuple(_PLAIN)
_TEXTS = ("name", "model", "folder", "project", "checkpoint", "saved", "output", "notify", "reservation", "script")
_BYTES = ("command", "environ", "folder", "saved", "output")  # may hold any bytes but NUL, as file names do
_FLAGS = ("share", "idle_stop")
_CHOICES = {"retry_on": ("gpu-fault", "any"), "on_reboot": ("requeue", "fail")}
_NUMBERS: Mapping[str, tuple[type, float, float]] = {
    "gpus": (int, 0, MOST_GPUS), "memory": (int, 1, MOST_MIB), "limit": (float, 1, MOST_SECONDS), "cpus": (int, 1, 65536),
    "host_memory": (int, 1, MOST_MIB), "priority": (int, -MOST_PRIORITY, MOST_PRIORITY), "index": (int, 0, 999_999_999),
    "at_once": (int, 1, 999_999), "begin": (float, 0, 1e11), "retries": (int, 0, MOST_RETRIES), "grace": (float, 0, 86400),
    "idle": (float, 1, MOST_SECONDS),
}  # fmt: skip


def checked(spec: Spec, before: Spec | None = None) -> Spec:
    """The same, where every field is what it may be; else raises EngineError. What an engine has of GPUs and jobs is not asked.

    before: one that is well; of an array's jobs, which share their words and their environment, these are looked at once.
    """
    for name, (kind, least, most) in _NUMBERS.items():
        value = getattr(spec, name)
        if value is None and _PLAIN[name] is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
            raise _wrong(name, value, "a whole number" if kind is int else "a number", "整数" if kind is int else "数字")
        if not least <= value <= most:  # not a number at all is outside, too
            raise _wrong(name, value, f"from {least:g} to {most:g}", f"{least:g} 到 {most:g} 之间")
    for name in _TEXTS:
        _text(name, getattr(spec, name))
    for name in _FLAGS:
        if not isinstance(getattr(spec, name), bool):
            raise _wrong(name, getattr(spec, name), "true or false", "true 或 false")
    for name, choices in _CHOICES.items():
        if getattr(spec, name) not in choices:
            raise _wrong(name, getattr(spec, name), f"one of {', '.join(choices)}", f"{'、'.join(choices)} 之一")
    if not before or spec.command is not before.command or spec.environ is not before.environ:
        _words(spec)
    _lists(spec)
    if spec.share and spec.gpus != 1:
        raise EngineError(f"--share: a part of one GPU, not --gpus {spec.gpus}", f"--share：只能共用一块 GPU，不能是 --gpus {spec.gpus}")
    if spec.share and spec.memory is None:
        raise EngineError("--share: say how much memory of the GPU: --memory 8GiB", "--share：请写明占用多少显存：--memory 8GiB")
    if spec.share and spec.idle is not None:
        raise EngineError(
            "--idle: not with --share: of a shared GPU nobody can tell which job uses it",
            "--idle：不能与 --share 合用：共用的 GPU 无法分辨由哪个作业使用",
        )
    if spec.saved and not spec.checkpoint:
        raise EngineError("--saved: needs a checkpoint signal: --checkpoint SIGUSR1", "--saved：需要检查点信号：--checkpoint SIGUSR1")
    if spec.idle is not None and spec.idle < LEAST_IDLE:
        raise EngineError("--idle: at least 1m: a shorter pause is no idleness", "--idle：至少 1m：更短的停顿不算空闲")
    if spec.notify and not _URL.fullmatch(spec.notify):
        raise _wrong("notify", spec.notify, "an address that Apprise takes: mailto://..., slack://...", " Apprise 地址，如 mailto://...、slack://...")
    if spec.checkpoint and not _SIGNAL.fullmatch(spec.checkpoint):
        raise _wrong("checkpoint", spec.checkpoint, "a signal such as SIGUSR1", "信号名，如 SIGUSR1")
    if spec.script and not _SCRIPT.fullmatch(spec.script):
        raise _wrong("script", spec.script, "a copy in the queue's folder", "队列目录中的副本")
    if spec.folder and not os.path.isabs(spec.folder):
        raise _wrong("folder", spec.folder, "an absolute path", "绝对路径")
    return spec


def _wrong(name: str, value: object, english: str, chinese: str) -> EngineError:
    return bad(f"--{name.replace('_', '-')}", value, f"is to be {english}", f"应为{chinese}")


def _text(name: str, value: Any, most: int = 4096) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _wrong(name, repr(value), "text", "文本")
    try:
        length = len(os.fsencode(value))
    except UnicodeEncodeError:
        raise _wrong(name, ascii(value), "text that a file name can hold", "可用作文件名的文本") from None
    if length > most:
        raise _wrong(name, value, f"at most {most} bytes", f"最多 {most} 字节")
    if name not in _BYTES:  # what is not for the file system is text
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(name, ascii(value), "text (UTF-8)", "文本（UTF-8）") from None
    if name not in ("command", "environ") and any(ord(mark) < 32 or ord(mark) == 127 for mark in value):
        raise _wrong(name, repr(value), "one line of text", "单行文本")
    return value


def _words(spec: Spec) -> None:
    if not isinstance(spec.command, tuple) or not spec.command or not spec.command[0]:
        raise EngineError("which command is to run?", "要运行什么命令？")
    total = sum(len(os.fsencode(_text("command", word, MOST_TEXT))) + 9 for word in spec.command)
    if not isinstance(spec.environ, Mapping):
        raise _wrong("environ", spec.environ, "a table of texts", "文本表")
    for name, value in spec.environ.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise _wrong("environ", name, "a name without =", "不含 = 的变量名")
        total += len(os.fsencode(_text("environ", name, MOST_TEXT))) + len(os.fsencode(_text("environ", value, MOST_TEXT))) + 10
    if total > MOST_BYTES:
        raise EngineError(
            f"command and environment are {total >> 10} KiB: the system starts nothing above {MOST_BYTES >> 10} KiB",
            f"命令与环境变量共 {total >> 10} KiB：系统无法启动超过 {MOST_BYTES >> 10} KiB 的命令",
        )


def _lists(spec: Spec) -> None:
    if spec.capability is not None:
        pair: Sequence[Any] = spec.capability
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(type(one) is int and 0 <= one <= 99 for one in pair):
            raise _wrong("capability", pair, "two numbers: 8.0", "两个数字：8.0")
    if not isinstance(spec.after, tuple) or len(spec.after) > MOST_AFTER:
        raise _wrong("after", spec.after, f"at most {MOST_AFTER} jobs", f"最多 {MOST_AFTER} 个作业")
    for one in spec.after:
        pair = one
        good = isinstance(pair, tuple) and len(pair) == 2 and pair[0] in ("ok", "any") and isinstance(pair[1], str)
        if not good or not _ID.fullmatch(pair[1]):
            raise _wrong("after", one, 'pairs such as ("ok", "12")', '如 ("ok", "12") 的二元组')
