# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs

from ongpu.facts.hardware import Gpu, Gpus
from ongpu.lazy import replace
from ongpu.rules.hardware import ecc_uncorrectable


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "NVRM: Xid (PCI:0000:04:00): 48, DBE (double bit error) ECC Error",
        "NVRM: Xid (PCI:0000:9b:00): 94, pid=7194, name=python, Contained: SM (0x1). RST: No, D-RST: No",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "    Remapped Rows\n"
        "        Uncorrectable Error               : 4\n"
        "        Pending                           : Yes",
        "|   0  Tesla V100-SXM2...  On   | 00000000:06:00.0 Off |                    2 |\n"
        "| N/A   36C    P0    41W / 300W |      0MiB / 16280MiB |      0%      Default |",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["ecc-uncorrectable"]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:04:00): 13, Graphics Exception",
        "    ECC Errors\n        Volatile\n            DRAM Uncorrectable            : 0",
        "|   0  Tesla V100-SXM2...  On   | 00000000:06:00.0 Off |                    0 |",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "ecc-uncorrectable" not in slugs(text)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_words_of_a_program_name_no_gpu_and_no_xid(lang: str) -> None:
    (finding, *_) = explain("RuntimeError: CUDA error: uncorrectable ECC error encountered").findings
    title = finding.text(lang).title
    assert "Xid" not in title
    assert "the GPU" not in title


@pytest.mark.parametrize(("pending", "is_reset"), [(True, True), (False, False), (None, True)])
def test_a_reset_is_advised_where_a_row_may_wait_for_it(pending: bool | None, is_reset: bool) -> None:
    gpus = Gpus(gpus=(Gpu(index=0, ecc_uncorrected=3, remap_pending=pending),))
    (finding,) = ecc_uncorrectable.check(None, None, gpus)
    assert ("reset-gpu" in {fix.recipe for fix in finding.fixes}) is is_reset
    text = replace(finding, rule=ecc_uncorrectable.RULE).text("en")
    assert ("reset" in text.fix) is is_reset
    assert ("Pending: Yes" in text.title) is (pending is True)


@pytest.mark.parametrize(("text", "told"), [
    ("uncorrected ECC - aggregate: 0, volatile: 0", False),
    ("uncorrectable ECC errors: 0\njob COMPLETED, exit 0:0", False),
    ("no uncorrectable ECC errors on any card", False),
    ("0 uncorrectable ECC errors", False),
    ("uncorrected ECC - aggregate: 0, volatile: 3", True),
    ("uncorrectable ECC errors: 10", True),
    ("10 uncorrectable ECC errors", True),
])  # fmt: skip
def test_a_count_of_zero_is_no_error(text: str, told: bool) -> None:
    assert ("ecc-uncorrectable" in slugs(text)) is told


def test_the_code_of_the_driver_is_quoted() -> None:
    text = "Accelerator Fatal Error: call to cuCtxCreate returned error 214\n  (CUDA_ERROR_ECC_UNCORRECTABLE): uncorrectable ECC error encountered"
    assert any("214" in ref.quote for ref in explain(text).findings[0].refs)
