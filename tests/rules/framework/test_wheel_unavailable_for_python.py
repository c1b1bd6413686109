import pytest
from asking import explain, slugs

from ongpu.knowledge.likeness import VARIANT
from ongpu.model import Severity


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ pip install torch\n"
            "ERROR: Could not find a version that satisfies the requirement torch (from versions:"
            " none)\n"
            "ERROR: No matching distribution found for torch",
            "Python 3.14.0",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement tensorflow==2.10 (from"
            " versions: 2.12.0rc0, 2.12.0, 2.13.0)\n"
            "ERROR: No matching distribution found for tensorflow==2.10",
            "Python 3.11.4",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement torch==1.7.1+cu110 (from"
            " versions: 1.11.0, 1.11.0+cu113, 1.12.0)\n"
            "python 3.10, ubuntu 20.04",
        ),
        (
            "ERROR: torch-1.9.0+cu111-cp38-cp38-linux_x86_64.whl is not a supported wheel on this platform.",
            "Python 3.10.4",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement tensorflow (from versions:"
            " none)\n"
            "ERROR: No matching distribution found for tensorflow",
            "Python 3.9.1 32 bit on windows",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["wheel-unavailable-for-python"]


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "wheel-unavailable-for-python" not in slugs(*texts)


@pytest.mark.parametrize(
    "text",
    [
        "ERROR: Package 'tensorflow-gpu' requires a different Python: 3.12.3 not in '>=3.6, <3.10'",
        "Because tensorflow==2.10.0 has no wheels with a matching Python ABI tag (e.g., `cp312`) and you require tensorflow==2.10.0",
    ],
)
def test_the_package_or_uv_says_so(text: str) -> None:
    assert slugs(text)[:1] == ["wheel-unavailable-for-python"]
    other = explain(text.replace("tensorflow-gpu", "networkx").replace("tensorflow", "networkx"))
    assert all(f.variant == VARIANT for f in other.findings if f.weight > Severity.NOTE)  # a guess by likeness may stand
