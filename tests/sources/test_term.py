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
    "text", ["blah", "", "0", "123456789", "x" * 500, "the GPU is not used", "\0", "9" * 60, "0x", "Xid", "sm_999"]
)
def test_what_is_no_term(text: str) -> None:
    assert asked(text) is None
