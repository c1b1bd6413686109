import pytest

from ongpu.facts.term import Term
from ongpu.model import Evidence
from ongpu.sources import term


def asked(text: str) -> Term | None:
    return next(iter(term.read(Evidence("term", text, "argument"))), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "families"),
    [
        ("803", {"cuda"}),
        ("0x2bc", {"cuda"}),
        ("CUDA error: 700", {"cuda"}),
        ("77", {"cuda before 10.1", "xid"}),
        ("NVML 9", {"nvml"}),
        ("Xid 79", {"xid"}),
        ("xid79", {"xid"}),
        ("SXid 20034", {"sxid"}),
        ("CUBLAS_STATUS_NOT_INITIALIZED", {"cublas"}),
        ("cudaerrornodevice", {"cuda"}),
        ("sm_120", {"architecture"}),
        ("compute capability 8.6", {"architecture"}),
        ("RTX 5090", {"card"}),
        ("libcudnn.so.8", {"library"}),
    ],
)
def test_what_a_term_can_mean(text: str, families: set[str]) -> None:
    found = asked(text)
    assert found is not None
    assert (
        families <= {one.family for one in found.meanings} <= families | {"xid", "cudnn9", "cusolver", "cufft", "sxid"}
    )


@pytest.mark.parametrize(
    "text", ["blah", "", "0", "123456789", "x" * 500, "the GPU is not used", "\0", "9" * 60, "0x", "sm_999"]
)
def test_what_is_no_term(text: str) -> None:
    assert asked(text) is None


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Code 43", "Windows device manager, code"),
        ("137", "exit status"),
        ("-9", "exit status"),
        ("oom", "word"),
        ("RmInitAdapter failed", "kernel log"),
        ("CUDA_VISIBLE_DEVICES", "environment variable"),
        ("Xid", "kernel log"),
        ("43", "CUDA error"),
    ],
)
def test_what_people_mean_by_a_term_comes_first(text: str, first: str) -> None:
    told = asked(text)
    assert told is not None
    assert told.meanings[0].label.startswith(first)


def test_a_number_keeps_its_other_meanings() -> None:
    told = asked("137")
    assert told is not None
    assert {one.label for one in told.meanings} > {"exit status"}
    windows = asked("43")
    assert windows is not None
    assert windows.meanings[-1].label.startswith("Windows")
