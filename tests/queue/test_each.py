"""Every GPU at fault is told of, be there several, and no other."""

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts.machines import Box

from ongpu.facts.hardware import Gpu
from ongpu.model import Evidence
from ongpu.queue import gate, machine
from ongpu.queue.each import PLAIN, without

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fake is a library for Linux")
XID = "NVRM: Xid (PCI:0000:{:02x}:00): {}, pid='<unknown>', name=<unknown>, as the driver says it"
NVML = ["gpu.{}.ecc_vol_unc = 3", "gpu.{}.remap_failed = 1", "gpu.{}.error = 15", "gpu.{}.error = 999"]


def unfit(folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch, box: Box) -> dict[int, str]:
    """The GPUs on which nothing is placed, and why."""
    box.write(folder)
    for name, value in box.environment(library).items():
        monkeypatch.setenv(name, value if name != "PATH" else os.environ["PATH"])
    report = machine.ask(str(folder))
    decided = {i for i in range(box.cards) if not gate.decide(report, gate.Asked((str(i),), "--gpus")).place}
    found = {card.index: card.unfit for card in machine.cards_of(report, {}) if card.unfit}
    assert decided <= found.keys()  # of one that only answers with an error, the machine's report says nothing certain
    return found


@pytest.mark.parametrize("bad", [(1,), (1, 3), (0, 1, 2)])
@pytest.mark.parametrize("line", NVML)
def test_what_nvml_says(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch, line: str, bad: tuple[int, ...]) -> None:
    box = Box(cards=4, nvml=[line.format(index) for index in bad])
    assert tuple(unfit(tmp_path, nvml, monkeypatch, box)) == bad


@pytest.mark.parametrize("bad", [(1,), (1, 3), (0, 1, 2)])
@pytest.mark.parametrize("code", [48, 64, 74, 79, 95, 119])
def test_what_the_kernel_says(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch, code: int, bad: tuple[int, ...]) -> None:
    box = Box(cards=4)
    box.break_log(*(XID.format(0x1A + index, code) for index in bad))
    assert tuple(unfit(tmp_path, nvml, monkeypatch, box)) == bad


def test_two_faults_of_two_kinds(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(cards=4, nvml=["gpu.2.ecc_vol_unc = 3", "gpu.0.remap_failed = 1"])
    box.break_log(XID.format(0x1B, 79))
    assert unfit(tmp_path, nvml, monkeypatch, box) == {0: "row-remap-failure", 1: "gpu-fell-off-bus", 2: "ecc-uncorrectable"}


def test_a_fault_of_the_machine_is_all_of_theirs(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(unfit(tmp_path, nvml, monkeypatch, Box(cards=4, switches=2))) == 4


def test_eight_at_fault_are_judged_quickly(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(cards=16)
    box.break_log(*(XID.format(0x1A + index, 79) for index in range(8)))
    begin = time.process_time()
    assert tuple(unfit(tmp_path, nvml, monkeypatch, box)) == tuple(range(8))
    assert time.process_time() - begin < 2.0


class TestWithout:
    CARD = Gpu(index=1, bus="00000000:1B:00.0")

    def test_what_is_left_of_a_gpu(self) -> None:
        text = '{"init": "ok"}\n{"gpu": 0, "ecc": 3}\n{"gpu": 1, "uuid": "GPU-1", "ecc": 3, "error": "x"}\n{"gpu": 1'
        (found,) = without([Evidence("nvml", text, "NVML")], [self.CARD])
        assert found.text.split("\n") == ['{"init": "ok"}', '{"gpu": 0, "ecc": 3}', '{"gpu": 1, "uuid": "GPU-1"}', '{"gpu": 1']
        assert not {"ecc", "remapped", "nvlinks", "recovery", "error"} & set(PLAIN)

    def test_lines_keep_their_numbers(self) -> None:
        text = f"a\n{XID.format(0x1B, 79)}\n{XID.format(0x1C, 79)}\nb"
        log = Evidence("pasted", text, "dmesg", numbers=(3, 5, 8, 9), readers=("kernel-log",))
        (found,) = without([log], [self.CARD])
        assert (found.numbers, found.text.count("1c:00"), "1b:00" in found.text) == ((3, 8, 9), 1, False)

    @given(st.text(max_size=200), st.sampled_from(["nvml", "pasted", "pci-bus"]))
    def test_any_text(self, text: str, kind: str) -> None:
        (found,) = without([Evidence(kind, text, "x", readers=("kernel-log",))], [self.CARD])
        assert len(found.text) <= len(text) + 20
