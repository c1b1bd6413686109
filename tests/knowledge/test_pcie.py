import pytest

from ongpu.knowledge.pcie import practical


@pytest.mark.parametrize(("generation", "lanes", "measured"), [(3, 16, 12.0), (4, 16, 25.0), (4, 16, 26.3), (5, 16, 55.0)])
def test_it_is_near_what_was_measured(generation: int, lanes: int, measured: float) -> None:
    assert practical(generation, lanes) == pytest.approx(measured, rel=0.1)


def test_what_is_not_known() -> None:
    assert practical(9, 16) is None
    assert practical(4, 0) is None
