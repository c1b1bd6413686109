# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "AttributeError: module 'torch' has no attribute 'cuda'\n"
            '  File "/home/u/proj/torch.py", line 1, in <module>',
        ),
        (
            "AttributeError: partially initialized module 'torch' has no attribute 'Tensor' (most"
            " likely due to a circular import)",
        ),
        (
            "ImportError: Failed to load PyTorch C extensions:\n"
            "    It appears that PyTorch has loaded the `torch/_C` folder\n"
            "    of the PyTorch repository rather than the C extensions which\n"
            "    are expected in the `torch._C` namespace.",
        ),
        (
            "Traceback (most recent call last):\n"
            '  File "/home/jq/FixRes/dis.py", line 10, in <module>\n'
            "    import torch.nn as nn\n"
            '  File "/home/jq/anaconda3/lib/python3.7/site-packages/torch/nn/modules/module.py", line'
            " 6, in <module>\n"
            "    from ..parameter import Parameter\n"
            "AttributeError: module 'torch' has no attribute 'Tensor'",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["module-shadowed"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
        (
            "ModuleNotFoundError: No module named 'torch'",
            "$ pip install torch\n"
            "Requirement already satisfied: torch in /home/u/miniconda3/lib/python3.9/site-packages"
            " (2.0.1)",
            "$ which python\n/usr/bin/python",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "module-shadowed" not in slugs(*texts)


def test_an_older_torch_of_the_user_site_is_imported_after_an_install() -> None:
    install = "$ sudo pip3 install torch==2.4.0\nSuccessfully installed torch-2.4.0"
    first = explain(install, ">>> import torch\n>>> torch.__version__\n'1.13.1'\n", "$ python3 -c 'import torch; print(torch.__file__)'\n/home/u/.local/lib/python3.10/site-packages/torch/__init__.py").findings[0]
    assert (first.slug, first.values["module"]) == ("module-shadowed", "torch 1.13.1")


def test_the_version_that_was_installed_into_the_user_site() -> None:
    install = "$ pip3 install --user torch==2.4.0\nSuccessfully installed torch-2.4.0"
    texts = (install, ">>> import torch\n>>> torch.__version__\n'2.4.0'\n", "$ python3 -c 'import torch; print(torch.__file__)'\n/home/u/.local/lib/python3.10/site-packages/torch/__init__.py")
    assert "module-shadowed" not in slugs(*texts)


def test_an_embedded_python_that_takes_torch_from_the_user_site() -> None:
    call = '$ H:\\ui\\%s\\python.exe -c "import torch; print(torch.__version__); print(torch.__file__); print(torch.cuda.is_available())"\n'
    told = "2.13.0+cpu\nC:\\Users\\u\\AppData\\Roaming\\Python\\Python312\\site-packages\\torch\\__init__.py\nFalse"
    assert slugs(call % "python_embeded" + told)[0] == "module-shadowed"
    assert slugs(call % "Python312" + told)[0] == "cpu-only-build"
