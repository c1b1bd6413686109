import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("GH200, uname -m: aarch64, pip install torch==2.5.1\n>>> torch.cuda.is_available()\nFalse",),
        ("DGX Spark, Linux aarch64\ntorch  2.10.0",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["aarch64-cpu-wheel"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Jetson AGX Orin, JetPack 6.0, pip3 install torch\n"
            ">>> torch.__version__\n"
            "'2.3.0'\n"
            ">>> torch.cuda.is_available()\n"
            "False",
        ),
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "aarch64-cpu-wheel" not in slugs(*texts)
