import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "ModuleNotFoundError: No module named 'torch'",
            "$ pip install torch\n"
            "Requirement already satisfied: torch in /home/u/miniconda3/lib/python3.9/site-packages"
            " (2.0.1)",
            "$ which python\n/usr/bin/python",
        ),
        ("In terminal torch.cuda.is_available() is True, but in the jupyter notebook it is False",),
        (
            "$ /usr/bin/python3 -c 'import torch; print(torch.__version__)'\n2.0.1+cpu",
            "$ ~/miniconda3/envs/ml/bin/python -c 'import torch; print(torch.__version__)'\n2.0.1+cu118",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["wrong-interpreter"]


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "AttributeError: module 'torch' has no attribute 'cuda'\n"
            '  File "/home/u/proj/torch.py", line 1, in <module>',
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "wrong-interpreter" not in slugs(*texts)
