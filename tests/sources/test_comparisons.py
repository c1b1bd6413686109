import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.comparisons import Comparisons
from ongpu.model import Evidence
from ongpu.sources import comparisons


def read(text: str) -> list[Comparisons]:
    return [fact for fact in comparisons.read(Evidence("pasted", text, "p")) if isinstance(fact, Comparisons)]


PIECES = ["CPU: 1.0 s ", "GPU 2 ms ", "fp16 ", "float32 ", "took 5 ", "10 img/s", "\n"]


def test_two_devices() -> None:
    for text in ("CPU: 1.2 s\nGPU: 3.6 s", "CPU time 1.2s, GPU time 3.6s", "x time 3.6 s (GPU)\nx time 1.2 s (CUDA_VISIBLE_DEVICES=-1)"):
        ratio = read(text)[0].gpu_over_cpu()
        assert ratio is not None
        assert 2.9 < ratio < 3.1


def test_two_precisions() -> None:
    ratio = read("It takes 4.0 for float32 and 6.0 for float16.")[0].half_over_single()
    assert ratio == 1.5


def test_one_kind_is_no_comparison() -> None:
    assert read("GPU: 3.6 s") == []


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    comparisons.looks_like(Evidence("pasted", text, "p")) if hasattr(comparisons, "looks_like") else None
    read(text)


def test_times_under_a_heading() -> None:
    text = "## CPU\n1 epoch time: 0.0020\n2 epoch time: 0.0018\n\n## GPU\n1 epoch time: 0.0410\n2 epoch time: 0.0360\n"
    facts = [fact for fact in comparisons.read(Evidence("pasted", text, "p")) if isinstance(fact, Comparisons)]
    assert facts[0].gpu_over_cpu() == pytest.approx(20.0)
    assert not list(comparisons.read(Evidence("pasted", "## CPU\nAMD EPYC 7763, 64 cores, 2.4 GHz\n## GPU\nNVIDIA A100\n", "p")))
