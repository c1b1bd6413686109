"""The double check: the protocol of the probe, with a pretend PyTorch. On a real GPU it could not be run here."""

import sys
import time
from pathlib import Path

import pytest
from parts.machines import Box
from parts.torches import build_torch

from ongpu.engine import all_sources, diagnose
from ongpu.facts.framework import Torch
from ongpu.hosts import probe
from ongpu.hosts.live import Live, gather
from ongpu.model import Report, Severity, Verdict
from ongpu.sources.framework_probe import SOURCES


def machine(root: Path, count: int, mode: str = "", python: str | None = sys.executable, **environ: str) -> Live:
    """A machine with a node and a pretend PyTorch."""
    (root / "dev").mkdir()
    (root / "dev/nvidia0").touch()
    environ = {"PATH": "/usr/bin", "PYTHONPATH": str(build_torch(root / "packages", count, mode)), **environ}
    return Live(root=root, python=python, environ=environ, system="linux")


def torch_of(asked: Live, limit: float = 20.0) -> Torch:
    """What the probe's evidence says of PyTorch."""
    found = [
        fact for item in probe.ask(asked, limit) if item.kind == "framework-probe" for fact in SOURCES[0].read(item)
    ]
    assert isinstance(found[0], Torch)
    return found[0]


def test_it_computes(tmp_path: Path) -> None:
    torch = torch_of(machine(tmp_path, 3, CUDA_VISIBLE_DEVICES="0,1,2"))
    assert (torch.available, torch.device_count, torch.computed, torch.probe_error) == (True, 3, True, None)
    assert (torch.version, torch.cuda, torch.archs, torch.visible) == (
        "2.3.1+cu121",
        "12.1",
        ("sm_80", "sm_90"),
        "0,1,2",
    )


@pytest.mark.parametrize(("mode", "error"), [("wrong", "a wrong result"), ("refuses", "no kernel image")])
def test_one_card_fails(mode: str, error: str, tmp_path: Path) -> None:
    torch = torch_of(machine(tmp_path, 2, mode))
    assert torch.computed is False
    assert [index for index, _ in torch.probed] == [1]
    assert error in torch.probed[0][1]


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("broken", "libcudnn.so.8"),
        ("dies", "exit status 139"),
        ("warns", "CUDA unknown error"),
        ("unavailable", "CUDA unknown error"),
    ],
)
def test_it_cannot(mode: str, error: str, tmp_path: Path) -> None:
    asked = machine(tmp_path, 1, mode)
    torch = torch_of(asked)
    assert torch.computed is False
    assert error in (torch.probe_error or "")


def test_what_it_prints_reaches_all_sources(tmp_path: Path) -> None:
    evidence = probe.ask(machine(tmp_path, 1, "broken"), 20.0)
    assert [item.kind for item in evidence] == ["framework-probe", "pasted"]
    assert "libcudnn.so.8: cannot open shared object file" in evidence[1].text


def test_it_is_given_up(tmp_path: Path) -> None:
    start = time.monotonic()
    torch = torch_of(machine(tmp_path, 1, "hangs"), 1.0)
    assert time.monotonic() - start < 5
    assert torch.computed is False
    assert "timed out" in (torch.probe_error or "")


def test_nothing_to_try(tmp_path: Path) -> None:
    asked = machine(tmp_path, 1)
    assert probe.worth_it(asked)
    (tmp_path / "packages/torch/version.py").write_text("__version__ = '2.3.1+cpu'\ncuda = None\n")
    assert not probe.worth_it(asked)
    (tmp_path / "packages/torch/version.py").write_text("cuda: Optional[str] = '12.1'\n")
    assert probe.worth_it(asked)
    (tmp_path / "dev/nvidia0").unlink()
    assert not probe.worth_it(asked)


def test_not_waited_for_where_the_cause_is_known(tmp_path: Path) -> None:
    start = time.monotonic()
    asked = machine(tmp_path, 1, "hangs")
    evidence = gather(asked, SOURCES, enough=lambda quick: True)
    assert time.monotonic() - start < 5
    assert evidence == []
    assert all(process.poll() is not None for process in asked.running)


def examine(box: Box, root: Path, nvml: Path, count: int, mode: str = "", **environ: str) -> Report:
    """The whole doctor with a pretend PyTorch in a real interpreter."""
    box.write(root)
    box.environ |= {"PYTHONPATH": str(build_torch(root / "packages", count, mode)), **environ}
    asked = Live(root=root, python=sys.executable, environ=box.environment(nvml), system="linux")
    return diagnose(gather(asked, all_sources()), "test")


def first(report: Report) -> list[str]:
    """The slugs of errors and warnings."""
    return [f.slug for f in report.findings if f.weight > Severity.NOTE]


@pytest.mark.real
def test_both_agree(tmp_path: Path, nvml: Path) -> None:
    report = examine(Box(cards=4), tmp_path, nvml, 4)
    assert report.verdict is Verdict.CLEAR, first(report)
    torch = report.fact(Torch)
    assert torch
    assert torch.computed is True


@pytest.mark.real
@pytest.mark.parametrize(
    ("mode", "count", "slugs"),
    [
        ("unavailable", 4, {"cuda-unavailable"}), ("wrong", 4, {"cuda-unavailable"}), ("", 3, {"cuda-unavailable"}),
        ("broken", 4, {"cudnn-missing", "cuda-lib-missing", "cuda-unavailable"}), ("dies", 4, {"cuda-unavailable"}),
        ("refuses", 4, {"compute-capability-too-new", "compute-capability-too-old", "cuda-unavailable"}),
    ],
)  # fmt: skip
def test_they_disagree(mode: str, count: int, slugs: set[str], tmp_path: Path, nvml: Path) -> None:
    report = examine(Box(cards=4), tmp_path, nvml, count, mode)
    assert first(report)
    assert first(report)[0] in slugs, first(report)


@pytest.mark.real
def test_a_variable_explains_it(tmp_path: Path, nvml: Path) -> None:
    report = examine(Box(cards=4), tmp_path, nvml, 2, CUDA_VISIBLE_DEVICES="0,1")
    assert first(report) == []
