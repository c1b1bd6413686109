import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Xid, Xids
from ongpu.model import Evidence
from ongpu.sources import kernel_log


def events(text: str, command: str | None = None) -> tuple[Xid, ...] | None:
    found = [f for f in kernel_log.read(Evidence("pasted", text, "test", command)) if isinstance(f, Xids)]
    return found[0].events if found else None


def codes(text: str) -> list[int]:
    return [event.code for event in events(text) or ()]


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[   12.345678] ",
        "[Fri Mar  3 04:27:08 2023] ",
        "Okt 04 13:19:39 host kernel: ",
        "<6>[  1.200000] ",
        "2024-05-01T10:00:00+02:00 h kernel: ",
    ],
)
def test_every_prefix(prefix: str) -> None:
    (event,) = (
        events(f"{prefix}NVRM: Xid (PCI:0000:61:00): 119, pid=13, name=nvidia-smi, Timeout waiting for RPC from GSP!")
        or ()
    )
    assert (event.code, event.bus, event.switch) == (119, "0000:61:00", False)


def test_other_forms() -> None:
    assert codes("NVRM: Xid (0000:01:00): 79, GPU has fallen off the bus.") == [79]
    assert codes("NVRM: Xid: 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)") == [154]
    (event,) = (
        events("NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid 149") or ()
    )
    assert (event.code, event.caused_by) == (45, 149)
    (switch,) = (
        events("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error")
        or ()
    )
    assert (switch.code, switch.switch) == (12028, True)
    assert (events("[  9.5] NVRM: Xid (PCI:0000:61:00): 31, MMU") or ())[0].code == 31


@pytest.mark.parametrize(
    "text",
    [
        "Xid 79",
        "xid error 79",
        "XID: 79",
        "XidCriticalError: Xid=79 on Device=GPU-1",
        'DCGM_FI_DEV_XID_ERRORS{gpu="3"} 79',
    ],
)
def test_other_words(text: str) -> None:
    assert codes(text) == [79]


def test_denials_and_nothing() -> None:
    assert codes("there is no Xid 79 in dmesg") == []
    assert codes('DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0') == []
    assert events("[    2.829492] nvidia: loading out-of-tree module taints kernel.", "dmesg | grep -i nvidia") == ()
    assert events("some prose") is None


def test_a_line_that_the_terminal_broke() -> None:
    assert codes("kernel: NVRM: Xi\nd (PCI:0000:3b:00): 79, GPU has fallen off the bus") == [79]


def test_modules() -> None:
    def driver(text: str) -> Driver:
        return next(f for f in kernel_log.read(Evidence("pasted", text, "test")) if isinstance(f, Driver))

    old = driver("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  510.108.03  Thu Oct 20 05:10:45 UTC 2022")
    assert (old.module, old.flavour, old.module_loaded) == ("510.108.03", "proprietary", True)
    new = driver("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build")
    assert (new.module, new.flavour) == ("570.158.01", "open")
    none = driver("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  510.108.03\nNVRM: No NVIDIA GPU found.")
    assert none.module_loaded is None


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(alphabet="NVRM: XidS(PCI0:9)caused by previous,\n[.]kernel", max_size=200))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", text, "test", "dmesg")
    kernel_log.looks_like(evidence)
    list(kernel_log.read(evidence))
