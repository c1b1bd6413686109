"""What the user sets of the agent: one TOML file, every key optional, checked when it is read.

`TABLE` is the one place that names keys, defaults and words: the reader, `ongpu watch config` and the documentation use it.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from ongpu.lazy import lazy

MAX_BYTES = 1 << 20  # a configuration is small; what is larger is another file
_LISTEN = lazy(r"(?P<host>\[[0-9A-Fa-f:.%]{2,60}\]|[A-Za-z0-9.-]{0,253}):(?P<port>\d{1,5})")
_SLUG = lazy(r"[a-z0-9]{1,30}(?:-[a-z0-9]{1,30}){0,10}")
_DURATION = lazy(r"(?P<n>\d{1,9}(?:\.\d{1,3})?)\s?(?P<unit>ms|s|m|min|h|d|w)?")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_LOOPBACK = lazy(r"127(?:\.\d{1,3}){3}|localhost|::1")
LABELS = ("critical", "warning", "info")


class ConfigError(Exception):
    """What is wrong with the configuration: one line in each language, with the file and the key."""

    def __init__(self, path: object, key: str, en: str, zh: str) -> None:
        place = f"{path}: {key}" if key else f"{path}"
        self.en, self.zh = f"{place}: {en}", f"{place.replace(': ', '：')}：{zh}"
        super().__init__(self.en)


@dataclass(frozen=True, slots=True)
class Key:
    """One key. kind: "seconds", "number", "count", "text", "flag", "list", "listen", "path", or the choices with bars between."""

    name: str
    kind: str
    default: Any
    en: str
    zh: str
    least: float = 0.0
    most: float = 1e9


TABLE: Mapping[str, tuple[Key, ...]] = {
    "sample": (
        Key("interval", "seconds", 1.0, "seconds between two samples", "两次采样之间的秒数", 0.05, 60),
        Key("per_call", "seconds", 2.0, "seconds that one NVML call may take before the GPU counts as hung",
            "单次 NVML 调用的时限（秒），超过即视为该 GPU 卡死", 0.1, 60),
        Key("processes", "seconds", 5.0, "seconds between two looks at the processes", "两次查看进程之间的秒数", 0.5, 600),
        Key("full", "seconds", 60.0, "seconds between two full looks (ECC, remapped rows, NVLink ...)",
            "两次全面检查（ECC、行重映射、NVLink 等）之间的秒数", 5, 3600),
        Key("gpus", "count", None, "GPUs that this machine should have; unset: those that it has",
            "本机应有的 GPU 数；不设则以实际为准", 0, 1024),
        Key("name", "text", None, "this machine's name in messages; unset: its host name", "消息中本机的名称；不设则用主机名"),
    ),
    "history": (
        Key("path", "path", None, "where the history is kept; unset: see `ongpu watch status`",
            "历史文件的位置；不设时见 `ongpu watch status`"),
        Key("raw", "seconds", 6 * 3600.0, "how long every sample is kept", "原始采样保留多久", 600, 1e9),
        Key("ten", "seconds", 14 * 86400.0, "how long 10 s means are kept", "10 秒均值保留多久", 600, 1e9),
        Key("five", "seconds", 400 * 86400.0, "how long 5 min means are kept", "5 分钟均值保留多久", 600, 1e9),
        Key("megabytes", "count", 2048, "size of the file at most, in MiB", "文件大小上限（MiB）", 16, 1e7),
    ),
    "metrics": (
        Key("listen", "listen", "127.0.0.1:19400", "address of /metrics for Prometheus (read only); \"\": none",
            "供 Prometheus 抓取的 /metrics 地址（只读）；\"\" 表示不开"),
        Key("open", "flag", False, "another address than loopback may be read without a token", "非本机地址也允许不带令牌读取"),
        Key("token_file", "path", None, "a file with the token that a scraper must show; unset: none is asked for",
            "抓取方须出示的令牌所在文件；不设则不要求"),
        Key("processes", "count", 100, "processes, and jobs, with series of their own at most",
            "最多为多少个进程（及作业）单独输出序列", 0, 10000),
        Key("dcgm_names", "flag", False, "the same values also under dcgm-exporter's names", "同时以 dcgm-exporter 的指标名输出"),
    ),
    "web": (
        Key("listen", "listen", "127.0.0.1:19480", "address of `ongpu watch web`; any but loopback needs token_file",
            "`ongpu watch web` 的地址；非本机地址必须设 token_file"),
        Key("token_file", "path", None, "a file with the token, as `ongpu watch token` makes it", "令牌文件，由 `ongpu watch token` 生成"),
        Key("tls_cert", "path", None, "certificate (PEM), for https", "https 证书（PEM）"),
        Key("tls_key", "path", None, "its private key (PEM)", "证书的私钥（PEM）"),
        Key("prometheus", "text", None, "a Prometheus, for the page of all machines: http://HOST:9090",
            "供“集群”页面查询的 Prometheus：http://主机:9090"),
        Key("submit", "flag", None, "who has the token may submit jobs, as the user of the server; unset: on loopback, and not as root",
            "持有令牌者可以用服务器的用户身份提交作业；不设时：仅限本机地址，且服务器不以 root 运行"),
    ),
    "notify": (
        Key("urls", "list", (), "where to send, as Apprise writes it: mailto://, slack://, feishu://, dingtalk://, wecombot://, json://",
            "发送到哪里，按 Apprise 的写法：mailto://、slack://、feishu://、dingtalk://、wecombot://、json://"),
        Key("language", "en|zh", "en", "language of the messages", "消息的语言"),
        Key("least", "critical|warning|info", "warning", "the least urgent that is sent", "发送的最低级别"),
        Key("resolved", "flag", True, "say also when a fault is over", "故障结束时也通知"),
        Key("group_wait", "seconds", 1.0, "seconds to wait for more of the same fault, so that 8 GPUs make one message",
            "为合并同一故障等待的秒数：8 块 GPU 同时出事只发一条", 0, 600),
        Key("repeat", "seconds", 4 * 3600.0, "seconds after which an open critical incident is sent again; 0: never",
            "严重事件未关闭时多久再发一次；0 表示不重发", 0, 1e9),
        Key("limit", "seconds", 20.0, "seconds that one send may take", "单次发送的时限（秒）", 1, 300),
        Key("heartbeat", "text", None, "a URL of a dead-man service of yours that is fetched (GET) while the agent is well",
            "你的失联告警服务（dead man）的 URL：代理正常时定期 GET"),
        Key("every", "seconds", 60.0, "seconds between two heartbeats", "两次心跳之间的秒数", 5, 86400),
    ),
    "cost": (
        Key("currency", "text", "USD", "name of the currency", "货币名称"),
        Key("kwh", "number", None, "price of a kWh", "每千瓦时的价格"),
        Key("gpu_hour", "number", None, "price of an hour of one GPU", "每 GPU 小时的价格"),
    ),
}  # fmt: skip
SILENCE = ("slug", "gpu", "until", "why")
ALERT = ("hold", "clear", "off")


@dataclass(frozen=True)
class Silence:
    """What is not sent. slug, gpu: "" for all; gpu: an index or a UUID. until: seconds since the epoch; inf: for ever."""

    slug: str = ""
    gpu: str = ""
    until: float = float("inf")
    why: str = ""


@dataclass(frozen=True)
class Config:
    """The effective configuration. values: {"sample": {"interval": 1.0, ...}, ...}, each key of TABLE.

    alerts: slug -> {"hold", "clear"}; off: slugs that open no incident. path: the file; None: there is none.
    """

    values: Mapping[str, Mapping[str, Any]]
    alerts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    silences: tuple[Silence, ...] = ()
    path: Path | None = None

    def get(self, section: str, key: str) -> Any:
        """The value of a key."""
        return self.values[section][key]


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the configuration is looked for: /etc/ongpu/watch.toml for root and the machine's service, else in the user's folder."""
    ours = bool(environ.get("STATE_DIRECTORY"))  # the service runs as a user of its own, without a folder
    if os.name == "posix" and (os.geteuid() == 0 or ours) and not environ.get("XDG_CONFIG_HOME"):
        return Path("/etc/ongpu/watch.toml")
    return Path(environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()) / "ongpu" / "watch.toml"


def store_path(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the history is: as set, else systemd's state folder, root's /var/lib/ongpu, or the user's state folder."""
    if told := config.get("history", "path"):
        return Path(told)
    if state := environ.get("STATE_DIRECTORY"):
        return Path(state.split(":")[0]) / "watch.db"
    if os.name == "posix" and os.geteuid() == 0 and not environ.get("XDG_STATE_HOME"):
        return Path("/var/lib/ongpu/watch.db")
    return Path(environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()) / "ongpu" / "watch.db"


def read(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration of a file; of the default place, if there is one, where none is named. Raises ConfigError."""
    named = path is not None
    path = path or default_path(environ)
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if named:
            raise ConfigError(path, "", "no such file", "没有这个文件") from None
        return parse({}, None)
    except OSError as error:
        raise ConfigError(path, "", f"cannot be read: {error.strerror}", f"无法读取：{error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise ConfigError(path, "", "larger than 1 MiB: not a configuration", "大于 1 MiB：不是配置文件")
    try:
        data = tomllib.loads(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(path, "", "is not UTF-8 text", "不是 UTF-8 文本") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(path, "", f"is not TOML: {error}", f"不是有效的 TOML：{error}") from None
    return parse(data, path)


def parse(data: Mapping[str, Any], path: Path | None) -> Config:
    """The configuration of what the file holds. Raises ConfigError at the first key that is wrong."""
    place: object = path or "watch.toml"
    for section in data:
        if section not in TABLE and section not in ("silence", "alerts"):
            raise _unknown(place, section, [*TABLE, "silence", "alerts"])
    values: dict[str, dict[str, Any]] = {}
    for section, keys in TABLE.items():
        given = _table(place, section, data.get(section, {}))
        names = [key.name for key in keys]
        for name in given:
            if name not in names:
                raise _unknown(place, f"{section}.{name}", names)
        values[section] = {key.name: _value(place, section, key, given[key.name]) if key.name in given else key.default for key in keys}
    _web_is_guarded(place, values["web"])
    alerts, off = _alerts(place, _table(place, "alerts", data.get("alerts", {})))
    return Config(values, alerts, off, _silences(place, data.get("silence", [])), path)


def _table(place: object, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(place, name, f"is to be a table: [{name}]", f"应为表：[{name}]")
    return value


def _near(word: str, words: list[str]) -> list[str]:
    """The one that was probably meant; none where nothing is like it."""
    import difflib

    return difflib.get_close_matches(word, words, 1)


def _unknown(place: object, key: str, names: list[str]) -> ConfigError:
    near = _near(key.rpartition(".")[2], names)
    told = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    zh = f"是不是 {near[0]}？" if near else f"可用的有：{'、'.join(names)}"
    return ConfigError(place, key, f"unknown; {told}", f"没有这一项；{zh}")


def duration(value: Any) -> float | None:
    """Seconds of 90, 1.5, "90s", "15 min", "2h", "7d"; None where it is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match["n"]) * UNITS[match["unit"] or "s"] if match else None


def _value(place: object, section: str, key: Key, value: Any) -> Any:
    """The value of a key as its kind wants it."""
    name = f"{section}.{key.name}"
    if key.kind in ("seconds", "number", "count"):
        return _number(place, name, key, value)
    if key.kind == "flag":
        if not isinstance(value, bool):
            raise ConfigError(place, name, "is to be true or false", "应为 true 或 false")
        return value
    if key.kind == "list":
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise ConfigError(place, name, 'is to be a list of texts: ["...", "..."]', '应为文本列表：["...", "..."]')
        return tuple(value)
    if not isinstance(value, str) or (not value and key.kind != "listen"):
        raise ConfigError(place, name, "is to be a text in quotes", "应为带引号的文本")
    if "|" in key.kind and value not in key.kind.split("|"):
        choices = key.kind.replace("|", ", ")
        raise ConfigError(place, name, f"is to be one of: {choices}", f"应为其中之一：{choices}")
    if key.kind == "listen" and value:
        address(value, place, name)
    return os.path.expanduser(value) if key.kind == "path" else value


_NUMBERS = {
    "count": ("a whole number", "整数"), "number": ("a number", "数字"),
    "seconds": ('seconds, or a time such as "2h"', '秒数，或 "2h" 这样的时间'),
}  # fmt: skip


def _number(place: object, name: str, key: Key, value: Any) -> float | int:
    number = duration(value) if key.kind == "seconds" else value
    whole = key.kind == "count"
    if isinstance(number, bool) or not isinstance(number, int if whole else (int, float)):
        english, chinese = _NUMBERS[key.kind]
        raise ConfigError(place, name, f"is to be {english}", f"应为{chinese}")
    if not key.least <= number <= key.most:  # not a number at all is outside, too
        span = f"{key.least:g} .. {key.most:g}"
        raise ConfigError(place, name, f"{number:g} is outside {span}", f"{number:g} 超出范围 {span}")
    return number if whole else float(number)


def address(text: str, place: object = "--listen", name: str = "") -> tuple[str, int]:
    """(host, port) of "127.0.0.1:19400", ":19400" (all addresses) or "[::1]:19400". Raises ConfigError."""
    match = _LISTEN.fullmatch(text)
    if match is None or not 0 <= int(match["port"]) <= 65535:
        raise ConfigError(place, name, f'"{text[:60]}" is no address; write HOST:PORT', f"“{text[:60]}”不是地址；请写成 主机:端口")
    return match["host"].strip("[]") or "0.0.0.0", int(match["port"])  # noqa: S104  as the user wrote it


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    return _LOOPBACK.fullmatch(host) is not None


def _web_is_guarded(place: object, web: Mapping[str, Any]) -> None:
    host = address(web["listen"])[0] if web["listen"] else "127.0.0.1"
    if not is_loopback(host) and not web["token_file"]:
        raise ConfigError(
            place, "web.listen",
            f"{host} can be reached from elsewhere: make a token with `ongpu watch token` and name its file in web.token_file",
            f"{host} 可被其他机器访问：请用 `ongpu watch token` 生成令牌，并在 web.token_file 中写明",
        )  # fmt: skip
    if bool(web["tls_cert"]) != bool(web["tls_key"]):
        raise ConfigError(place, "web.tls_cert", "tls_cert and tls_key belong together", "tls_cert 与 tls_key 须同时设置")


@cache
def _slugs() -> list[str]:
    """Those of the rules, and those that the agent itself may tell."""
    from ongpu.index import names
    from ongpu.watch.alerts import ALERTS

    return sorted({*ALERTS, *(name.rsplit(".")[-1].replace("_", "-") for name in names("ongpu.rules"))})


def _known(place: object, name: str, slug: str) -> None:
    """Refuses a misspelt slug: it would silently do nothing."""
    if slug not in _slugs():
        near = _near(slug, _slugs())
        told = (f"did you mean {near[0]}?", f"是不是 {near[0]}？") if near else ("`ongpu rules` lists them", "`ongpu rules` 可列出")
        raise ConfigError(place, name, f"is no slug; {told[0]}", f"不是规则名；{told[1]}")


def _alerts(place: object, data: Mapping[str, Any]) -> tuple[dict[str, dict[str, float]], frozenset[str]]:
    alerts: dict[str, dict[str, float]] = {}
    off = set()
    for slug, given in data.items():
        if not _SLUG.fullmatch(slug):
            raise ConfigError(place, f"alerts.{slug[:60]}", "is no slug; `ongpu rules` lists them", "不是规则名；`ongpu rules` 可列出")
        _known(place, f"alerts.{slug}", slug)
        for name, value in _table(place, f"alerts.{slug}", given).items():
            if name not in ALERT:
                raise _unknown(place, f"alerts.{slug}.{name}", list(ALERT))
            if name == "off":
                key = Key("off", "flag", False, "", "")
                off |= {slug} if _value(place, f"alerts.{slug}", key, value) else set()
            else:
                alerts.setdefault(slug, {})[name] = _value(place, f"alerts.{slug}", Key(name, "seconds", 0.0, "", ""), value)
    return alerts, frozenset(off)


def _silences(place: object, data: Any) -> tuple[Silence, ...]:
    if not isinstance(data, list):
        raise ConfigError(place, "silence", "is to be a list of tables: [[silence]]", "应为表的列表：[[silence]]")
    found = []
    for number, item in enumerate(data):
        where = f"silence[{number}]"
        given = dict(_table(place, where, item))
        for name in given:
            if name not in SILENCE:
                raise _unknown(place, f"{where}.{name}", list(SILENCE))
        slug, gpu, why = (str(given.get(name, "")) for name in ("slug", "gpu", "why"))
        if not slug and not gpu:
            raise ConfigError(place, where, "name a slug, a gpu, or both", "请写明 slug、gpu 或两者")
        if slug:
            _known(place, f"{where}.slug", slug)
        found.append(Silence(slug, gpu, _until(place, f"{where}.until", given.get("until")), why))
    return tuple(found)


def _until(place: object, name: str, value: Any) -> float:
    if value is None:
        return float("inf")
    if isinstance(value, datetime):
        return value.timestamp() if value.tzinfo else value.astimezone().timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    example = "2026-12-31T18:00:00Z"
    raise ConfigError(place, name, f"is to be a date, as 2026-12-31 or {example}", f"应为日期，如 2026-12-31 或 {example}")


def masked(url: str) -> str:
    """A URL without what is secret in it: its kind only. Addresses of services hold tokens anywhere in them."""
    kind, sign, _ = url.partition("://")
    return f"{kind}://***" if sign and kind.isalnum() and len(kind) <= 20 else "***"


def shown(config: Config, lang: str = "en") -> str:
    """The effective configuration as TOML, with what each key means; secrets are masked."""
    lines = [("# The effective configuration. Every key is optional.", "# 生效的配置。所有键都可省略。")[lang == "zh"]]
    lines.append(f"# {config.path}" if config.path else f"# {default_path()}" + (" (not there)", "（不存在）")[lang == "zh"])
    for section, keys in TABLE.items():
        lines += ["", f"[{section}]"]
        for key in keys:
            value = config.get(section, key.name)
            secret = key.name in ("urls", "heartbeat")
            lines.append(f"# {key.zh if lang == 'zh' else key.en}")
            lines.append(f"# {key.name} =" if value is None else f"{key.name} = {_toml(value, secret)}")
    for slug in sorted({*config.alerts, *config.off}):
        lines += ["", f"[alerts.{slug}]", *(f"{name} = {value:g}" for name, value in config.alerts.get(slug, {}).items())]
        lines += ["off = true"] if slug in config.off else []
    for silence in config.silences:
        told = {name: getattr(silence, name) for name in ("slug", "gpu", "why")}
        lines += ["", "[[silence]]", *(f"{name} = {_toml(value, False)}" for name, value in told.items() if value)]
        if silence.until != float("inf"):
            lines.append(f"until = {datetime.fromtimestamp(silence.until, UTC).isoformat().replace('+00:00', 'Z')}")
    return "\n".join(lines) + "\n"


def _toml(value: Any, secret: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:g}" if abs(value) < 1e6 else str(int(value))
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(one, secret) for one in value) + "]"
    text = masked(value) if secret else value
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
