"""What the user or the administrator sets of the queue: TOML, every key optional, checked when it is read."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ongpu.lazy import dataclass, field, lazy
from ongpu.queue.asked import duration
from ongpu.queue.engines import NAMES, EngineError
from ongpu.queue.placement import POLICIES, Policy

MAX_BYTES = 1 << 20  # a configuration is small; what is larger is another file
SYSTEM = Path("/etc/ongpu/queue.toml")
ON = ("done", "failed", "cancelled", "started", "all")
_WORD = lazy(r"[A-Za-z0-9_.@:/+-]{1,200}")
_URL = lazy(r"[a-z][a-z0-9+.-]{0,30}://\S{1,2000}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most that one user or project may have. gpus: at once; gpu_hours: in seven days. None: no bound."""

    gpus: int | None = None
    gpu_hours: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """each: for every user of whom nothing else is said."""

    each: Quota = Quota()
    users: Mapping[str, Quota] = field(default_factory=dict)
    projects: Mapping[str, Quota] = field(default_factory=dict)

    @property
    def hours(self) -> bool:
        """Whether anybody's GPU-hours are bounded."""
        return any(one.gpu_hours is not None for one in (self.each, *self.users.values(), *self.projects.values()))

    def of(self, user: str, project: str) -> tuple[tuple[str, Quota], ...]:
        """What bounds a job, named as in Policy.spent."""
        found = [(f"user:{user}", self.users.get(user, self.each))]
        if project in self.projects:
            found.append((f"project:{project}", self.projects[project]))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Prices. gpu_hour: by a part of the model's name, case aside; "": of every other. None: not told."""

    gpu_hour: Mapping[str, float] = field(default_factory=dict)
    kwh: float | None = None
    currency: str = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """What the engine adds to each request. "": Slurm's default."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    extra: tuple[str, ...] = ()  # arguments of sbatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """address: of the dashboard, http://HOST:8265; "": RAY_API_SERVER_ADDRESS, else this machine. folder: "path" where the nodes share
    it, "upload" to send it; "": "path" on this machine. grows: nodes are added when jobs ask for them."""

    address: str = ""
    token_file: str = ""
    folder: str = ""
    grows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """context: of the kubeconfig, "": the current one. queue: Kueue's LocalQueue. priorities: our priority -> name of a priority class.
    mounts: "CLAIM:/path", volumes that each job sees."""

    context: str = ""
    namespace: str = ""
    queue: str = ""
    image: str = ""
    service_account: str = ""
    resource: str = "nvidia.com/gpu"
    priorities: Mapping[int, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The effective configuration. Times in seconds, memory in MiB. None: not set.

    half_life: of the fair share. idle_after, idle_stop, on_reboot: for jobs that do not say. on: of which ends a message is sent.
    idle_exit: the daemon ends after so long with nothing to do. foreign: MiB that programs which are not ours may hold on a GPU that
    counts as free: a desktop. keep: how long jobs that are over are remembered. paths: the files that were read.
    """

    engine: str = "local"
    policy: Policy = Policy()
    half_life: float = 7 * 86400.0
    quotas: Quotas = Quotas()
    cpus: int | None = None
    host_memory: int | None = None
    idle_after: float | None = None
    idle_stop: bool = False
    on_reboot: str = "requeue"
    cost: Cost = Cost()
    notify: tuple[str, ...] = ()
    on: tuple[str, ...] = ("done", "failed")
    language: str = "en"
    idle_exit: float = 600.0
    foreign: int = 1024
    keep: float = 30 * 86400.0
    slurm: Slurm = Slurm()
    ray: Ray = Ray()
    kubernetes: Kubernetes = Kubernetes()
    paths: tuple[Path, ...] = ()


# section -> key -> (kind, least, most) or (kind, choices); "": above all sections
_KEYS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "": {"engine": ("choice", NAMES)},
    "policy": {
        "name": ("choice", tuple(POLICIES)), "factor": ("number", 1.1, 100), "headroom": ("number", 0, 1), "patience": ("time", 1, 1e9),
        "width": ("number", 0, 100), "lane": ("number", 0, 1), "turn": ("time", 1, 1e9), "preempts": ("flag",),
        "fair_share_half_life_days": ("number", 0.01, 3650),
    },
    "quota": {"gpus": ("count", 0, 1e6), "gpu_hours_per_week": ("number", 0, 1e9), "users": ("quotas",), "projects": ("quotas",)},
    "limits": {"cpus": ("count", 1, 65536), "host_memory": ("size",)},
    "idle": {"after": ("time", 60, 1e9), "stop": ("flag",)},
    "reboot": {"jobs": ("choice", ("requeue", "fail"))},
    "cost": {"per_gpu_hour": ("prices",), "per_kwh": ("number", 0, 1e9), "currency": ("text",)},
    "notify": {"urls": ("urls",), "on": ("list", ON), "language": ("choice", ("en", "zh"))},
    "daemon": {"idle_exit": ("time", 1, 1e9), "foreign_memory": ("size",), "keep": ("time", 3600, 1e10)},
    "slurm": {"partition": ("word",), "account": ("word",), "qos": ("word",), "extra": ("arguments",)},
    "ray": {"address": ("url",), "token_file": ("text",), "folder": ("choice", ("", "path", "upload")), "grows": ("flag",)},
    "kubernetes": {
        "context": ("word",), "namespace": ("word",), "queue": ("word",), "image": ("word",), "service_account": ("word",),
        "resource": ("word",), "priority_classes": ("classes",), "mounts": ("arguments",),
    },
}  # fmt: skip


def places(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Where it is looked for, the later stronger: $ONGPU_QUEUE_CONFIG alone, else the machine's file and the user's."""
    if named := environ.get("ONGPU_QUEUE_CONFIG"):
        return (Path(named).absolute(),)
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return SYSTEM, Path(home) / "ongpu" / "queue.toml"


def load(environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration of the files that are there; a file that $ONGPU_QUEUE_CONFIG names has to be. Raises EngineError."""
    values: dict[str, dict[str, Any]] = {}
    found = []
    for path in places(environ):
        data = _read(path, bool(environ.get("ONGPU_QUEUE_CONFIG")))
        if data is not None:
            found.append(path)
            for section, keys in _checked(path, data).items():
                values.setdefault(section, {}).update(keys)
    return _config(values, tuple(found))


def parse(data: Any, path: Path | str = "queue.toml") -> Config:
    """The configuration of what a file holds. Raises EngineError at the first key that is wrong."""
    return _config(_checked(path, data), ())


def _read(path: Path, named: bool) -> Any:
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        if named:
            raise _wrong(path, "", "no such file", "没有这个文件") from error
        return None
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise _wrong(path, "", f"cannot be read: {told}", f"无法读取：{told}") from error
    if len(text) > MAX_BYTES:
        raise _wrong(path, "", "larger than 1 MiB: not a configuration", "大于 1 MiB：不是配置文件")
    import tomllib

    try:
        return tomllib.loads(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise _wrong(path, "", "is not UTF-8 text", "不是 UTF-8 文本") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        told = " ".join(str(error).split())[:200]
        raise _wrong(path, "", f"is not TOML: {told}", f"不是有效的 TOML：{told}") from None


def _wrong(path: object, key: str, english: str, chinese: str) -> EngineError:
    key = " ".join(key.split())[:80]
    return EngineError(f"{path}: {key}{': ' if key else ''}{english}", f"{path}：{key}{'：' if key else ''}{chinese}")


def _unknown(path: object, key: str, names: list[str]) -> EngineError:
    import difflib

    near = difflib.get_close_matches(key.rpartition(".")[2], names, 1)
    english = f"unknown; did you mean {near[0]}?" if near else f"unknown; known: {', '.join(names)}"
    chinese = f"没有这一项；是不是 {near[0]}？" if near else f"没有这一项；可用的有：{'、'.join(names)}"
    return _wrong(path, key, english, chinese)


def _checked(path: object, data: Any) -> dict[str, dict[str, Any]]:
    """section -> key -> value, each as its kind wants it."""
    values: dict[str, dict[str, Any]] = {}
    for name, given in _table(path, "", data).items():
        if name in _KEYS[""]:
            values.setdefault("", {})[name] = _value(path, name, _KEYS[""][name], given)
            continue
        if name not in _KEYS or not name:
            raise _unknown(path, name, [*_KEYS[""], *filter(None, _KEYS)])
        for key, value in _table(path, name, given).items():
            if key not in _KEYS[name]:
                raise _unknown(path, f"{name}.{key}", list(_KEYS[name]))
            values.setdefault(name, {})[key] = _value(path, f"{name}.{key}", _KEYS[name][key], value)
    return values


def _table(path: object, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(path, name, f"is to be a table: [{name}]", f"应为表：[{name}]")
    return value


def _value(path: object, key: str, kind: tuple[Any, ...], value: Any) -> Any:
    """The value of a key as its kind wants it."""
    what, *more = kind
    if what in ("number", "count"):
        if isinstance(value, bool) or not isinstance(value, int if what == "count" else (int, float)):
            raise _wrong(
                path,
                key,
                "is to be " + ("a whole number" if what == "count" else "a number"),
                "应为" + ("整数" if what == "count" else "数字"),
            )
        if not more[0] <= value <= more[1]:  # not a number at all is outside, too
            raise _wrong(path, key, f"is outside {more[0]:g} .. {more[1]:g}", f"超出范围 {more[0]:g} .. {more[1]:g}")
        return value
    if what == "flag":
        if not isinstance(value, bool):
            raise _wrong(path, key, "is to be true or false", "应为 true 或 false")
        return value
    if what in ("list", "urls", "arguments"):
        return _texts(path, key, what, more, value)
    if what in ("quotas", "prices", "classes"):
        return _named(path, key, what, value)
    if what == "time":
        return _time(path, key, more, value)
    if what == "size":
        return _size(path, key, value)
    if not isinstance(value, str):
        raise _wrong(path, key, "is to be a text in quotes", "应为带引号的文本")
    if what == "choice" and value not in more[0]:
        raise _wrong(path, key, f"is to be one of: {', '.join(more[0])}", f"应为其中之一：{'、'.join(more[0])}")
    if what == "word" and value and not _WORD.fullmatch(value):
        raise _wrong(path, key, "is to be one word", "应为单个词")
    if what == "url" and value and not _URL.fullmatch(value):
        raise _wrong(path, key, "is to be an address: http://HOST:PORT", "应为地址：http://主机:端口")
    if len(value) > 4096 or any(ord(mark) < 32 for mark in value):
        raise _wrong(path, key, "is to be one line", "应为单行文本")
    return value


def _texts(path: object, key: str, what: str, more: list[Any], value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one and "\0" not in one for one in value) or len(value) > 1000:
        raise _wrong(path, key, 'is to be a list of texts: ["...", "..."]', '应为文本列表：["...", "..."]')
    for one in value:
        if what == "list" and one not in more[0]:
            raise _wrong(path, key, f"may hold: {', '.join(more[0])}", f"可用的有：{'、'.join(more[0])}")
        if what == "urls" and not _URL.fullmatch(one):
            raise _wrong(
                path,
                key,
                "holds what is no address, as Apprise takes it: mailto://, slack://",
                "含有无效地址；请按 Apprise 的写法：mailto://、slack://",
            )
    return tuple(value)


def _named(path: object, key: str, what: str, value: Any) -> Mapping[Any, Any]:
    """A table by names that the user chose: quotas, prices, priority classes."""
    if what == "prices" and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = {"": value}
    found: dict[Any, Any] = {}
    for name, one in _table(path, key, value).items():
        place = f"{key}.{name}"
        if what == "prices":
            found[name.lower()] = float(_value(path, place, ("number", 0, 1e9), one))
        elif what == "classes":
            if not (name.lstrip("-").isascii() and name.lstrip("-").isdigit() and len(name) < 4 and abs(int(name.lstrip("-"))) <= 10):
                raise _wrong(path, place, "is to be a priority, from -10 to 10", "应为 -10 到 10 的优先级")
            found[int(name)] = _value(path, place, ("word",), one)
        else:
            keys = _table(path, place, one)
            for inner in keys:
                if inner not in ("gpus", "gpu_hours_per_week"):
                    raise _unknown(path, f"{place}.{inner}", ["gpus", "gpu_hours_per_week"])
            found[name] = _quota({inner: _value(path, f"{place}.{inner}", _KEYS["quota"][inner], bound) for inner, bound in keys.items()})
    return found


def _quota(values: Mapping[str, Any]) -> Quota:
    return Quota(gpus=values.get("gpus"), gpu_hours=values.get("gpu_hours_per_week"))


def _time(path: object, key: str, more: list[Any], value: Any) -> float:
    """Seconds, as a number or in the words of --time."""
    if isinstance(value, str):
        try:
            value = duration(value)
        except EngineError:
            value = None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(path, key, 'is to be seconds, or a time such as "2h"', '应为秒数，或 "2h" 这样的时间')
    return float(_value(path, key, ("number", *more), value))


def _size(path: object, key: str, value: Any) -> int:
    """MiB, as a number or in the words of --memory."""
    from ongpu.queue.asked import size

    if isinstance(value, str):
        try:
            return size(value)
        except EngineError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1 << 30:
        raise _wrong(path, key, 'is to be MiB, or a size such as "2GiB"', '应为 MiB 数，或 "2GiB" 这样的大小')
    return value


def _config(values: Mapping[str, Mapping[str, Any]], paths: tuple[Path, ...]) -> Config:
    """The dataclasses of checked values."""
    from ongpu.lazy import replace

    def of(section: str) -> Mapping[str, Any]:
        return values.get(section, {})

    plain = Config()
    knobs = {key: value for key, value in of("policy").items() if key not in ("name", "fair_share_half_life_days")}
    name = of("policy").get("name", "ours")
    if knobs and name != "ours":  # the others have none: in turn, who runs cannot give way
        where, key = paths[-1] if paths else "queue.toml", f"policy.{next(iter(knobs))}"
        raise _wrong(where, key, f'the policy "ours" alone has it, not "{name}"', f"只有策略 ours 有此项，{name} 没有")
    policy = replace(POLICIES[name], **knobs)
    quota, cost, kubernetes = of("quota"), of("cost"), dict(of("kubernetes"))
    kubernetes["priorities"] = kubernetes.pop("priority_classes", {})
    return Config(
        engine=of("").get("engine", plain.engine),
        policy=policy,
        half_life=86400.0 * of("policy").get("fair_share_half_life_days", plain.half_life / 86400.0),
        quotas=Quotas(each=_quota(quota), users=quota.get("users", {}), projects=quota.get("projects", {})),
        cpus=of("limits").get("cpus"),
        host_memory=of("limits").get("host_memory"),
        idle_after=of("idle").get("after"),
        idle_stop=of("idle").get("stop", plain.idle_stop),
        on_reboot=of("reboot").get("jobs", plain.on_reboot),
        cost=Cost(gpu_hour=cost.get("per_gpu_hour", {}), kwh=cost.get("per_kwh"), currency=cost.get("currency", plain.cost.currency)),
        notify=of("notify").get("urls", ()),
        on=of("notify").get("on", plain.on),
        language=of("notify").get("language", plain.language),
        idle_exit=of("daemon").get("idle_exit", plain.idle_exit),
        foreign=of("daemon").get("foreign_memory", plain.foreign),
        keep=of("daemon").get("keep", plain.keep),
        slurm=Slurm(**of("slurm")),
        ray=Ray(**of("ray")),
        kubernetes=Kubernetes(**kubernetes),
        paths=paths,
    )
