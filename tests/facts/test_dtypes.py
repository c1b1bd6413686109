import pytest

from ongpu.facts.dtypes import Dtypes
from ongpu.sources.python_source import script


def asked(expression: str) -> tuple[str | None, int | None]:
    found = script("train.py", f"import numpy as np\nimport torch\nuse({expression})\n")
    assert found
    value = next(e for e in found.calls("use")).args[0]
    dtypes = Dtypes(found)
    bound = dtypes.bound(value)
    return dtypes.of(value), bound[0] if bound else None


@pytest.mark.parametrize(
    ("expression", "dtype", "bound"),
    [
        ("torch.randn(3)", "float32", None),
        ("torch.randn(3, dtype=torch.double)", "double", None),
        ("torch.randn(3).double().cuda()", "float64", None),
        ("torch.randint(0, 10, (4,)).cuda()", "int64", 9),
        ("torch.randint(10, (4,)).view(2, 2)", "int64", 9),
        ("torch.randint(0, n, (4,))", "int64", None),
        ("torch.tensor([[1, 2], [7, 3]]).long()", "int64", 7),
        ("torch.arange(5)", None, 4),
        ("torch.arange(2, 8)", None, 7),
        ("torch.from_numpy(np.random.rand(3))", "float64", None),
        ("torch.from_numpy(np.random.rand(3)).float()", "float32", None),
        ("torch.from_numpy(np.random.rand(3).astype(np.float32))", None, None),
        ("torch.randn(3).to(torch.float16)", "float16", None),
        ("torch.randn(3).to(kind)", None, None),
        ("torch.randint(0, 10, (4,)) + 1", None, None),
    ],
)
def test_types_and_bounds(expression: str, dtype: str | None, bound: int | None) -> None:
    assert asked(expression) == ("float64" if dtype == "double" else dtype, bound)
