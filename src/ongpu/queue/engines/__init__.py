"""What runs the jobs: one small interface, four engines behind it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ongpu.queue.config import Config
    from ongpu.queue.job import Listing, Spec, Told, Want

NAMES = ("local", "slurm", "ray", "kubernetes")
OPTIONS = {"limit": "time", "folder": "chdir", "environ": "export", "index": "array", "at_once": "array %N"}  # as they are typed


class EngineError(Exception):
    """What an engine cannot do, or what is wrong with what it was asked: one line in English and in Chinese. code: for the shell."""

    def __init__(self, english: str, chinese: str, code: int = 2) -> None:
        super().__init__(english)
        self.english, self.chinese, self.code = english, chinese, code


class Engine(Protocol):
    """What every engine can. All methods raise EngineError, and none waits longer than some seconds, but `output` that follows."""

    name: str
    honours: frozenset[str]  # the fields of Spec that it can honour; others are refused at once (`refuse`)
    advisory: Mapping[str, tuple[str, str]]  # of these: what it cannot enforce, in English and Chinese

    def submit(self, specs: Sequence["Spec"]) -> list[str]:
        """Their ids, in order: all are accepted, durably, or none. Specs with an `index` that stand together are one array."""

    def jobs(self, want: "Want") -> "Listing":
        """What is known of them."""

    def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
        """What it wrote, of its last run or of that one; follow: until it ends (an empty piece where nothing is new)."""

    def cancel(self, jobs: Sequence[str]) -> None:
        """Those that wait never start; those that run are asked to end, then made to."""

    def hold(self, jobs: Sequence[str]) -> None:
        """Those that wait do so until they are released."""

    def release(self, jobs: Sequence[str]) -> None:
        """They may start again."""

    def why(self, job: "Told") -> list[tuple[str, str]]:
        """Why it waits or ended so, and when it may start: lines in English and Chinese, the most important first."""


def engine(name: str, config: "Config") -> Engine:
    """The engine of that name."""
    if name == "local":
        from ongpu.queue.engines.local.engine import Local

        return Local(config)
    if name == "slurm":
        from ongpu.queue.engines.slurm.engine import Slurm

        return Slurm(config)
    if name == "ray":
        from ongpu.queue.engines.ray.engine import Ray

        return Ray(config)
    if name == "kubernetes":
        from ongpu.queue.engines.kubernetes.engine import Kubernetes

        return Kubernetes(config)
    raise EngineError(f"--engine {name}: one of {', '.join(NAMES)}", f"--engine {name}：应为 {'、'.join(NAMES)} 之一")


def refuse(spec: "Spec", engine: Engine) -> None:
    """Raises EngineError where the spec asks for what the engine cannot honour."""
    from ongpu.lazy import field_names
    from ongpu.queue.job import Spec

    plain = Spec(command=spec.command)
    asked = [name for name in field_names(spec) if name != "command" and getattr(spec, name) != getattr(plain, name)]
    bad = [name for name in asked if name not in engine.honours]
    if bad:
        words = ", ".join(dict.fromkeys(OPTIONS.get(name, name).replace("_", "-") for name in bad))
        raise EngineError(f"the engine {engine.name} cannot honour: {words}", f"引擎 {engine.name} 不支持：{words}")
