"""Found on PYTHONPATH by a Python that `ongpu run --profile torch` starts: records some steps with the program's own torch.profiler.

Nothing of the program is changed: after torch has been imported, the end of each optimizer step is counted, and a few steps are
recorded, once. A program without an optimizer is recorded for some seconds instead. Whatever fails here is written down and let be.
Any other `sitecustomize` of the environment is run as it would have been.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
import threading
from typing import Any

FOLDER = "ONGPU_PROFILE"  # where traces go
STEPS = "ONGPU_PROFILE_STEPS"  # "skipped,recorded"
HERE = os.path.dirname(os.path.abspath(__file__))
LATE, SECONDS = 30.0, 3.0  # without a step for so long after torch was imported, so many seconds are recorded


def note(words: object) -> None:
    """One line for `ongpu run`, beside the traces."""
    try:
        with open(os.path.join(os.environ[FOLDER], "notes.txt"), "a") as file:
            file.write("%s %s\n" % (os.getpid(), str(words)[:300].replace("\n", " ")))
    except (OSError, KeyError):
        pass


def others() -> None:
    """The `sitecustomize` that ours hides, if there is one."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    ours = sys.modules.pop("sitecustomize", None)
    spec = importlib.util.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        if ours is not None:
            sys.modules["sitecustomize"] = ours
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


class Recording:
    """The steps of one process: counted, and some of them recorded."""

    def __init__(self, torch: Any) -> None:
        words = os.environ.get(STEPS, "").split(",")
        self.skip, self.record = (int(word) for word in words) if len(words) == 2 else (5, 5)
        self.torch: Any = torch
        self.steps = 0
        self.optimizer: int | None = None  # its id
        self.profile: Any = None
        self.done = False
        self.restore: Any = None
        self.lock = threading.RLock()
        self.pid = os.getpid()

    def arm(self) -> None:
        """From now on."""
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            register_optimizer_step_post_hook(self.stepped)
        except ImportError:
            pass
        self.timer = threading.Timer(LATE, self.late)
        self.timer.daemon = True
        self.timer.start()
        atexit.register(self.end)

    def stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """After an optimizer's step; of several optimizers the first one counts."""
        if self.done or os.getpid() != self.pid or (self.optimizer is not None and id(optimizer) != self.optimizer):
            return
        try:
            with self.lock:
                self.optimizer = id(optimizer)
                self.steps += 1
                if self.profile is not None:
                    self.profile.step()
                if self.steps == self.skip:
                    self.start()
                elif self.profile is not None and self.steps >= self.skip + self.record:
                    self.finish()
        except Exception as error:
            self.give_up(error)

    def late(self) -> None:
        """No optimizer stepped: a program that only infers, or one of another kind."""
        if self.steps or self.done or not self.used_gpu():
            if not self.steps and not self.done:
                self.timer = threading.Timer(LATE, self.late)
                self.timer.daemon = True
                self.timer.start()
            return
        try:
            with self.lock:
                self.start()
            if self.profile is not None:
                threading.Event().wait(SECONDS)
                with self.lock:
                    self.finish()
        except Exception as error:
            self.give_up(error)

    def used_gpu(self) -> bool:
        """Whether CUDA has begun (to ask whether it is there would begin it, and break forks); without it the time alone decides."""
        return bool(self.torch.cuda.is_initialized() or self.torch.version.cuda is None)

    def start(self) -> None:
        """Record, unless the program does so itself."""
        if self.torch.autograd._profiler_enabled():
            self.done = True
            note("the program runs a profiler of its own: nothing was recorded beside it")
            return
        profiler = self.torch.profiler
        kinds = [profiler.ProfilerActivity.CPU]
        if self.torch.cuda.is_initialized():
            kinds.append(profiler.ProfilerActivity.CUDA)
        record = profiler.ProfilerAction.RECORD
        self.profile = profiler.profile(activities=kinds, schedule=lambda step: record)  # a schedule, so that steps are marked
        self.profile.start()
        self.watch_others(profiler)

    def watch_others(self, profiler: Any) -> None:
        """The program's own profiler goes before ours: two at once are an error of torch's."""
        ours, begin = self.profile, profiler.profile.start

        def start(other: Any) -> Any:
            if other is not ours and not self.done:
                with self.lock:
                    self.finish()
            profiler.profile.start = begin
            return begin(other)

        profiler.profile.start = start
        self.restore = lambda: setattr(profiler.profile, "start", begin)

    def finish(self) -> None:
        """Stop, and keep the trace."""
        profile, self.profile, self.done = self.profile, None, True
        if profile is None:
            return
        self.restore()
        profile.stop()
        rank = os.environ.get("RANK", "")
        name = "trace%s-%d.json.gz" % (("-rank" + rank) if rank.isdigit() else "", os.getpid())
        place = os.path.join(os.environ[FOLDER], name)
        half = os.path.join(os.environ[FOLDER], "half-" + name)
        profile.export_chrome_trace(half)
        os.rename(half, place)

    def give_up(self, error: Exception) -> None:
        """The program goes on without us."""
        self.done, self.profile = True, None
        note("%s: %s" % (type(error).__name__, error))

    def end(self) -> None:
        """At the end of the process: what was recorded up to now."""
        if os.getpid() != self.pid or self.done:
            return
        try:
            with self.lock:
                if self.profile is not None:
                    self.finish()
                else:
                    self.done = True
                    note("ended after %d steps: too early" % self.steps)
        except Exception as error:
            self.give_up(error)


class Finder:
    """Waits for torch to be imported, and stands aside otherwise."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The real place of torch, with a loader that calls us once it is there."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        spec.loader = Loader(spec.loader)
        return spec


class Loader:
    """Torch's own loader, and then `Recording`."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: Any) -> Any:
        """As it does."""
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Torch, whole; then ours."""
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        try:
            Recording(module).arm()
        except Exception as error:
            note("%s: %s" % (type(error).__name__, error))


if os.environ.get(FOLDER):
    sys.meta_path.insert(0, Finder())
others()
