"""The test of a GPU: passed only where the gate agrees and something computed rightly on it; on a fake NVML and a fake libcuda."""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts.machines import Box, build_cuda

from ongpu.facts.hardware import Gpu, Gpus
from ongpu.model import Report, Verdict
from ongpu.queue.engines.local import cards, orders, trial
from ongpu.queue.engines.local.trial import Step, Trials, compared, computed, computed_by_torch, diagnosed, result, verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux" or not shutil.which("gcc"), reason="the fakes are libraries for Linux")
UUID = "GPU-fa4e0000-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory, nvml: Path) -> Path:
    """A folder with both fakes."""
    folder = build_cuda(tmp_path_factory.mktemp("fakes"))
    shutil.copy(nvml / "libnvidia-ml.so.1", folder)
    return folder


@pytest.fixture
def machine(tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a machine with two GPUs, in whose environment we are."""
    box = Box(cards=2, nvml=["reload = 1"])
    root = box.write(tmp_path / "root")
    for name, value in box.environment(libraries).items():
        monkeypatch.setenv(name, value if name != "PATH" else os.environ["PATH"])
    return root


def says(root: Path, *nvml: str) -> None:
    path = root / ".ongpu/nvml.txt"
    path.write_text(path.read_text() + "\n".join(nvml) + "\n")


def steps(told: dict[str, Any]) -> dict[str, bool | None]:
    return {step["name"]: step["ok"] for step in told["steps"]}


class TestTrial:
    def test_a_sound_gpu(self, machine: Path) -> None:
        told = trial.trial(UUID, str(machine))
        assert (told["result"], told["slug"]) == ("passed", "")
        assert steps(told) == {"gate": True, "compute": True, "gate-after": True, "counters": True}

    def test_the_gate_refuses_it(self, machine: Path) -> None:
        says(machine, "gpu.1.ecc_vol_unc = 3")
        told = trial.trial(UUID, str(machine))
        assert (told["result"], told["slug"], steps(told)) == ("failed", "ecc-uncorrectable", {"gate": False})
        assert trial.trial(UUID[:-1] + "0", str(machine))["result"] == "passed"

    @pytest.mark.parametrize(("fake", "ended", "slug"), [
        ("wrong", "failed", "compute-wrong"), ("memory", "failed", "compute-wrong"), ("refuse=cuInit:100", "unproven", ""),
    ])  # fmt: skip
    def test_the_computation(self, machine: Path, monkeypatch: pytest.MonkeyPatch, fake: str, ended: str, slug: str) -> None:
        monkeypatch.setenv("FAKE_CUDA", fake)
        told = trial.trial(UUID, str(machine))
        assert (told["result"], told["slug"]) == (ended, slug)

    def test_a_computation_that_hangs(self, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_CUDA", "hang=cuCtxSynchronize")
        monkeypatch.setattr(trial, "COMPUTE", 1.0)
        told = trial.trial(UUID, str(machine))
        assert (told["result"], told["slug"]) == ("failed", "compute-hung")

    def test_with_pytorch(self, machine: Path, tmp_path: Path) -> None:
        python = tmp_path / "python"
        line = {"framework": "torch", "devices": [{"index": 0, "ok": True}]}
        python.write_text(f"#!/bin/sh\ncat >/dev/null\necho 'a warning'\necho 'ongpu-probe {json.dumps(line)}'\n")
        python.chmod(0o755)
        told = trial.trial(UUID, str(machine), str(python))
        assert (told["result"], steps(told)["torch"]) == ("passed", True)


names = st.sampled_from(["gate", "compute", "torch", "dcgm", "gate-after", "counters"])


class TestSteps:
    def test_counters(self) -> None:
        def report(**values: Any) -> Report:
            fact = Gpus(gpus=(Gpu(index=1, uuid=UUID, **values),))
            return Report(subject="", verdict=Verdict.CLEAR, facts=(fact,))

        calm = report(ecc_uncorrected=1, nvlink_errors=5)
        assert compared(calm, calm, UUID).ok is True
        assert compared(calm, report(ecc_uncorrected=2, nvlink_errors=5), UUID).slug == "counters-grew"
        assert compared(calm, report(ecc_uncorrected=1, remap_pending=True), UUID).ok is False
        assert compared(calm, Report(subject="", verdict=Verdict.CLEAR), UUID).slug == "gpu-fell-off-bus"
        assert compared(report(), report(), UUID).ok is None

    @pytest.mark.parametrize(("text", "problem", "ok"), [
        ("All tests: Pass", None, True), ("|   Result: Fail - memory |", "exit status 226", False),
        ("Error: unable to establish a connection to the specified host. Failed to connect", "exit status 1", None),
        ("", "not found", None),
    ])  # fmt: skip
    def test_dcgm(self, text: str, problem: str | None, ok: bool | None) -> None:
        assert diagnosed(text, problem).ok is ok

    @pytest.mark.parametrize(("told", "problem", "ok"), [
        ({"devices": [{"ok": True}]}, None, True), ({"devices": [{"ok": False, "error": "CUDA error"}]}, None, False),
        ({"devices": [], "error": "no CUDA"}, None, None), (None, "timed out after 90 s", False), (None, "exit status 1", None),
    ])  # fmt: skip
    def test_torch(self, told: Any, problem: str | None, ok: bool | None) -> None:
        text = "" if told is None else f"ongpu-probe {json.dumps(told)}"
        assert computed_by_torch(text, problem).ok is ok

    @given(st.text(max_size=100), st.none() | st.text(max_size=20))
    def test_any_words(self, text: str, problem: str | None) -> None:
        for words in (text, f"ongpu-compute {text}", f"ongpu-probe {text}"):
            assert computed(words, problem).ok is not True
            assert computed_by_torch(words, problem).ok is not True

    @given(st.lists(st.builds(Step, names, st.sampled_from([True, False, None]), st.just("e"), st.just("z"))))
    def test_passed_means_that_it_computed_and_nothing_failed(self, made: list[Step]) -> None:
        told = verdict(UUID, made, 1.0)
        if told["result"] == cards.PASSED:
            assert all(step.ok is not False for step in made)
            assert any(step.ok for step in made if step.name in ("compute", "torch"))
        assert (told["result"] == cards.FAILED) == any(step.ok is False for step in made)
        assert bool(told["slug"]) == (told["result"] == cards.FAILED)

    @given(st.binary(max_size=100))
    def test_any_words_of_the_child(self, text: bytes) -> None:
        assert result(text, UUID, 1.0)["result"] == cards.UNPROVEN


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def wait(trials: Trials, folder: Path) -> list[tuple[str, dict[str, Any]]]:
    end = time.monotonic() + 20
    while not (found := trials.done(folder)):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


class TestTrials:
    def test_in_a_child(self, machine: Path, tmp_path: Path) -> None:
        trials = Trials()
        trials.start(UUID, tmp_path, root=str(machine))
        trials.start(UUID, tmp_path, root=str(machine))
        assert len(trials.under) == 1
        ((uuid, told),) = wait(trials, tmp_path)
        assert (uuid, told["result"]) == (UUID, "passed")
        assert trial.tested(told) == cards.Tested("passed")
        kept = orders.kept(tmp_path, UUID)
        assert kept
        assert kept["steps"] == told["steps"]
        trials.close()

    def test_one_that_takes_too_long(self, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_CUDA", "hang=cuInit")
        monkeypatch.setattr(trial, "LIMIT", 1.0)
        trials = Trials()
        trials.start(UUID, tmp_path, root=str(machine))
        ((_, told),) = wait(trials, tmp_path)
        assert (told["result"], told["slug"]) == ("failed", "compute-hung")
        name = os.fsencode(str(tmp_path))
        end = time.monotonic() + 20  # what computed is not left behind
        me = str(os.getpid())
        while any(name in read(f"/proc/{pid}/environ") for pid in os.listdir("/proc") if pid.isdecimal() and pid != me):
            assert time.monotonic() < end
            time.sleep(0.1)

    def test_one_that_crashes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        trials = Trials()
        trials.start(UUID, tmp_path)
        ((_, told),) = wait(trials, tmp_path)
        assert told["result"] == "unproven"
        trials.start(UUID, tmp_path)
        trials.close()
        assert trials.under == {}
