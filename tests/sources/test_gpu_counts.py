from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.counts import GpuCount
from ongpu.model import Evidence
from ongpu.sources.gpu_counts import read


def count(text: str) -> tuple[int | None, int | None]:
    facts = [f for f in read(Evidence("pasted", text, "p")) if isinstance(f, GpuCount)]
    return (facts[0].told, facts[0].seen) if facts else (None, None)


def test_counts() -> None:
    assert count("Our server has 8 A100, nvidia-smi shows only 7 of them") == (8, 7)
    assert count("机器装了 4 张卡，nvidia-smi 只显示 3 张") == (4, 3)
    assert count("every node has four GTX 680") == (4, None)
    assert count("batch size 8, loss 0.3") == (None, None)


@settings(max_examples=60, derandomize=True)
@given(st.text(max_size=300))
def test_no_text_crashes(text: str) -> None:
    list(read(Evidence("pasted", text, "p")))
