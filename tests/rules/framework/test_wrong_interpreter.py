# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


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


def test_a_notebook_of_windows_started_in_wsl() -> None:
    here = "$ python3 -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\"\n[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]"
    told = explain(here, "WSL2\njupyter notebook.exe from the same shell: the same line in a cell prints []").findings[0]
    assert (told.slug, told.variant, told.values["exe"]) == ("wrong-interpreter", "exe", "jupyter notebook.exe")
    assert slugs(here, "WSL2\nthe notebook prints the same list") == []
    assert slugs("the notebook prints [] for the GPUs") == []


def test_the_commands_are_shown() -> None:
    answers = "$ python3 -c \"import torch; print(torch.cuda.is_available())\"\nFalse\n$ python -c \"import torch; print(torch.cuda.is_available())\"\nTrue"
    told = explain(answers).findings[0]
    assert told.slug == "wrong-interpreter"
    assert any("python3 -c" in ref.quote for ref in told.refs)


def test_what_was_once_so_contradicts_nothing() -> None:
    now = 'C:\\>python -c "import torch; print(torch.__version__, torch.cuda.is_available(), torch.version.cuda)"\n2.9.1+cpu False None'
    assert slugs(now, "before the install torch.cuda.is_available() returned True")[0] == "cpu-only-build"
    assert slugs(now, "in the other terminal torch.cuda.is_available() returned True")[0] == "wrong-interpreter"
