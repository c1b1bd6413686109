"""The test of a GPU, by which alone a drained one comes back: the gate, strictly; a computation on it; its counters, unchanged since.

`python -m ongpu.queue.engines.local.trial UUID [--python FILE] [--folder DIR] [--root /]` prints one JSON object:

    {"uuid": "GPU-...", "t": 1.7e9, "result": "passed", "slug": "", "steps": [{"name", "ok", "en", "zh", "seconds"}, ...]}

result: "passed", "failed" (slug says why), or "unproven": nothing said that it is bad, and nothing here could compute on it. ok: true,
false, or null where a step could not be made. The daemon starts it (`Trials`) with the GPU's lease in its own hand and no job on the
GPU; it is ended after LIMIT seconds (a GPU that hangs a test has failed it); `tested(result)` is the event for cards.step.
--python: an interpreter with PyTorch, whose own computation is made too. --folder: the queue's; the result is kept there (orders.kept).

No GPU was at hand: the steps are tested on a fake NVML and a fake libcuda, and never ran on a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ongpu.hosts.processes import bounded, end, which
from ongpu.lazy import dataclass
from ongpu.model import Report
from ongpu.queue import gate, machine
from ongpu.queue.engines.local import cards, orders

LIMIT = 300.0  # seconds for all of it
GATE, COMPUTE, TORCH, DCGM = 15.0, 60.0, 90.0, 120.0  # seconds for each step
PROBES = Path(__file__).parents[3] / "probes"
COUNTERS = ("ecc_uncorrected", "ecc_uncorrected_total", "remap_uncorrectable", "nvlink_errors")  # that may not grow during the test
FLAGS = ("remap_pending", "remap_failed", "retired_pending")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: whether it went well (None: it could not be made), and what it found. slug: of what is wrong."""

    name: str
    ok: bool | None
    en: str
    zh: str
    slug: str = ""
    seconds: float = 0.0


def judged(report: Report, uuid: str, name: str) -> Step:
    """The gate's strict word on that GPU. What could not be told proves nothing, and condemns nothing."""
    decision = gate.decide(report, gate.Asked((uuid,), "test"), gate.Policy(strict=True))
    if decision.place:
        return Step(name, True, "the gate finds nothing wrong with it", "检查未发现问题")
    reason = decision.reasons[0]
    return Step(name, None if reason.slug == "unknown" else False, reason.text("en"), reason.text("zh"), reason.slug)


def compared(before: Report, after: Report, uuid: str) -> Step:
    """Its error counters before and after the computation."""
    one, two = (gate.named(gate.cards(report), uuid) for report in (before, after))
    if one is None or two is None:
        return Step("counters", False, "it does not answer any more", "GPU 不再应答", "gpu-fell-off-bus")
    pairs = [(name, getattr(one, name), getattr(two, name)) for name in COUNTERS]
    grown = [f"{name} {a} -> {b}" for name, a, b in pairs if a is not None and b is not None and b > a]
    grown += [name for name in FLAGS if getattr(two, name) and not getattr(one, name)]
    if grown:
        what = ", ".join(grown)
        return Step("counters", False, f"errors were counted meanwhile: {what}", f"检测期间错误计数增加：{what}", "counters-grew")
    told = sum(a is not None and b is not None for _, a, b in pairs)
    if not told:
        return Step("counters", None, "it counts no errors", "该 GPU 不提供错误计数")
    return Step("counters", True, f"{told} error counters stayed as they were", f"{told} 个错误计数未增加")


def computed(text: str, problem: str | None) -> Step:
    """What probes/compute.py printed. A computation that does not come to an end is a fault: the driver's own calls hang."""
    told = _marked(text, "ongpu-compute ")
    if told is None:
        late = bool(problem and problem.startswith("timed out"))
        words = problem or "no answer"
        return Step("compute", False if late else None, f"the computation: {words}", f"计算：{words}", "compute-hung" if late else "")
    ok, error, mib = told.get("ok"), str(told.get("error") or "")[:300], told.get("mib")
    if ok is True:
        return Step("compute", True, f"{mib} MiB of its memory and its results are right", f"{mib} MiB 显存与计算结果均正确")
    if ok is False:
        return Step("compute", False, f"it computes wrongly: {error}", f"计算出错：{error}", "compute-wrong")
    return Step("compute", None, f"nothing could be computed: {error}", f"无法计算：{error}")


def computed_by_torch(text: str, problem: str | None) -> Step:
    """What probes/framework.py printed: one device, as only that one is visible."""
    told = _marked(text, "ongpu-probe ")
    devices = told.get("devices") if told else None
    if told and isinstance(devices, list) and devices and isinstance(devices[0], dict):
        one = devices[0]
        if one.get("ok") is True:
            return Step("torch", True, "PyTorch computes rightly on it", "PyTorch 计算正确")
        error = str(one.get("error") or "the result is wrong")[:300]
        return Step("torch", False, f"PyTorch: {error}", f"PyTorch：{error}", "compute-wrong")
    if problem and problem.startswith("timed out"):
        return Step("torch", False, f"PyTorch: {problem}", f"PyTorch：{problem}", "compute-hung")
    error = str((told or {}).get("error") or problem or "it sees no GPU")[:300]
    return Step("torch", None, f"PyTorch: {error}", f"PyTorch：{error}")  # its own set-up may be at fault


def diagnosed(text: str, problem: str | None) -> Step:
    """What `dcgmi diag -r 1` printed. Its JSON has no stable form (NVIDIA's own words): its exit status and the word Fail decide."""
    if problem is None:
        return Step("dcgm", True, "dcgmi diag -r 1 passed", "dcgmi diag -r 1 通过")
    if "fail" in text.lower() and "connect" not in text.lower():
        line = next((line.strip() for line in text.splitlines() if "fail" in line.lower()), "")[:200]
        return Step("dcgm", False, f"dcgmi diag -r 1: {line}", f"dcgmi diag -r 1：{line}", "dcgm-diag-failed")
    return Step("dcgm", None, f"dcgmi diag -r 1 could not be made: {problem}", f"dcgmi diag -r 1 未能执行：{problem}")


def verdict(uuid: str, steps: Sequence[Step], now: float) -> dict[str, Any]:
    """The result: a step that failed fails it; passed only where the gate agreed and something computed rightly on it."""
    bad = next((step for step in steps if step.ok is False), None)
    proved = any(step.ok for step in steps if step.name in ("compute", "torch"))
    agreed = all(step.ok for step in steps if step.name.startswith("gate"))
    result = cards.FAILED if bad else cards.PASSED if proved and agreed else cards.UNPROVEN
    told = [{"name": s.name, "ok": s.ok, "en": s.en, "zh": s.zh, "seconds": round(s.seconds, 2)} for s in steps]
    return {"uuid": uuid, "t": now, "result": result, "slug": (bad.slug or cards.UNTESTED) if bad else "", "steps": told}


def hung(uuid: str, now: float) -> dict[str, Any]:
    """The result of a test that did not come to an end."""
    return verdict(uuid, [Step("test", False, "the test did not come to an end", "检测未能结束", "compute-hung")], now)


def result(text: bytes, uuid: str, now: float) -> dict[str, Any]:
    """What a test printed; where it printed nothing (it crashed), a result that proves nothing."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.get("result") in (cards.PASSED, cards.FAILED, cards.UNPROVEN) and found.get("uuid") == uuid:
        return found
    return verdict(uuid, [Step("test", None, "the test crashed", "检测程序崩溃")], now)


def tested(told: Mapping[str, Any]) -> cards.Tested:
    """The event for cards.step."""
    return cards.Tested(str(told.get("result")), str(told.get("slug") or ""))


def _marked(text: str, mark: str) -> dict[str, Any] | None:
    line = next((line for line in text.splitlines() if line.startswith(mark)), "")
    try:
        found = json.loads(line[len(mark) :]) if line else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# --- on the machine


def trial(uuid: str, root: str = "/", python: str | None = None) -> dict[str, Any]:
    """All steps, one after the other; none after one that failed."""
    steps: list[Step] = []
    reports: list[Report] = []
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "ONGPU_JOB": "test"}

    def asked(name: str) -> Step:
        reports.append(machine.ask(root, patience=GATE))
        return judged(reports[-1], uuid, name)

    def torch() -> Step:
        return computed_by_torch(*_program(python or "", "framework.py", TORCH, environ))

    def dcgm() -> Step:
        card = gate.named(gate.cards(reports[0]), uuid)
        return diagnosed(*bounded(["dcgmi", "diag", "-r", "1", "-i", str(card.index if card else 0)], DCGM, environ))

    todo: list[Callable[[], Step]] = [lambda: asked("gate"), lambda: computed(*_program(sys.executable, "compute.py", COMPUTE, environ))]
    todo += [torch] if python else []
    todo += [dcgm] if which("dcgmi", os.environ.get("PATH")) else []
    todo += [lambda: asked("gate-after"), lambda: compared(reports[0], reports[-1], uuid)]
    for step in todo:
        begin = time.monotonic()
        one = step()
        steps.append(Step(one.name, one.ok, one.en, one.zh, one.slug, time.monotonic() - begin))
        if one.ok is False:
            break
    return verdict(uuid, steps, time.time())


# A driver's call may never return, and this test be ended meanwhile: the computation is in a process group of its own, and must not stay.
_GUARD = """import os, threading, time
def _guard(parent=os.getppid()):
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
threading.Thread(target=_guard, daemon=True).start()
"""


def _program(python: str, probe: str, limit: float, environ: Mapping[str, str]) -> tuple[str, str | None]:
    ours = ["-P"] if python == sys.executable else []  # of the user's we do not know whether it has that
    return bounded([python, *ours, "-c", _GUARD + (PROBES / probe).read_text("utf-8")], limit, environ)


class Trials:
    """Tests that are under way, each in a child."""

    def __init__(self) -> None:
        self.under: dict[str, tuple[subprocess.Popen[bytes], float]] = {}

    def start(self, uuid: str, folder: Path, python: str | None = None, root: str = "/") -> None:
        """Test that GPU, unless a test of it is under way. Its lease is ours, and no job is on it."""
        if uuid in self.under:
            return
        words = [sys.executable, "-P", "-m", "ongpu.queue.engines.local.trial", uuid, "--folder", str(folder), "--root", root]
        words += ["--python", python] if python else []
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.under[uuid] = process, time.monotonic() + LIMIT

    def done(self, folder: Path) -> list[tuple[str, dict[str, Any]]]:
        """(UUID, result) of those that have ended, or were ended after their time. To be asked once a second."""
        found = []
        for uuid, (process, until) in list(self.under.items()):
            if process.poll() is None and time.monotonic() < until:
                continue
            late = process.poll() is None
            end(process)
            text = process.stdout.read(1 << 20) if process.stdout and not late else b""
            if process.stdout:
                process.stdout.close()
            told = hung(uuid, time.time()) if late else result(text, uuid, time.time())
            orders.keep(folder, uuid, told)
            del self.under[uuid]
            found.append((uuid, told))
        return found

    def close(self) -> None:
        """End them all: their GPUs stay in the state "testing", and are tested anew."""
        for process, _ in self.under.values():
            end(process)
            if process.stdout:
                process.stdout.close()
        self.under = {}


def main() -> None:
    """The child."""
    parser = argparse.ArgumentParser(prog="trial")
    parser.add_argument("uuid")
    parser.add_argument("--python")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--root", default="/")
    options = parser.parse_args()
    told = trial(options.uuid, options.root, options.python)
    if options.folder:
        orders.keep(options.folder, options.uuid, told)
    json.dump(told, sys.stdout, ensure_ascii=False)


if __name__ == "__main__":
    main()
