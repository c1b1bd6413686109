import pytest
from parts.programs import HEAD

from ongpu.facts.values import Module
from ongpu.facts.weights import known, parameters
from ongpu.sources.python_source import script


def count(text: str) -> tuple[int, bool]:
    found = script("train.py", HEAD + text)
    assert found
    last = [e.value for e in found.calls() if e.stmt is found.tree.body[-1]]
    model = next(value for value in reversed(last) if isinstance(value, Module))
    return parameters(found, model), known(found, model)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))", 300),
        ("nn.Sequential(nn.Embedding(100, 8), nn.Conv2d(3, 16, 3))", 800 + 432),
        ("nn.Sequential(nn.Conv2d(4, 8, (1, 3), groups=2))", 48),
        ("nn.ModuleList([nn.Linear(2 * 8, 8 // 2) for _ in range(2, 5)])", 192),
        ("Net()", 640),
        ("nn.TransformerEncoderLayer(64, 4, 128)", 4 * 64 * 64 + 2 * 64 * 128),
    ],
)
def test_layers_of_known_size(text: str, number: int) -> None:
    assert count(f"model = {text}\n") == (number, True)


def test_what_is_unknown_counts_nothing() -> None:
    assert count("model = nn.Sequential(nn.Linear(n, 20), nn.Linear(20, 5))\n") == (100, False)


def test_a_size_that_changes_in_the_loop_counts_once() -> None:
    text = """
class Pyramid(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.parts = nn.ModuleList()
        for _ in range(4):
            self.parts.append(nn.Linear(d, d // 2))
            d = d // 2


model = Pyramid()
"""
    assert count(text)[0] == 64 * 32
