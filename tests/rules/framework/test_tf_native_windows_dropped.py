# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Windows 11, Python 3.10, tensorflow 2.15.0, CUDA 11.8, RTX 3060\n"
            "print(tf.config.list_physical_devices('GPU')) returns []",
        ),
        (
            "C:\\Users\\me> pip show tensorflow\nName: tensorflow\nVersion: 2.17.0",
            ">>> tf.config.list_physical_devices('GPU')\n[]",
        ),
        ("tensorflow-intel 2.13.0\nNum GPUs Available:  0",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["tf-native-windows-dropped"]


@pytest.mark.parametrize(
    "texts",
    [
        ("ImportError: libcublas.so.11: cannot open shared object file: No such file or directory",),
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "tf-native-windows-dropped" not in slugs(*texts)


def test_the_version_as_tensorflows_form_asks_for_it() -> None:
    told = "v2.{0}.0-rc2-15-g6290819256d 2.{0}.0\nEdition: Windows 11 Home ; Version: 22H2\ntensorflow can not find GPU. NVIDIA GeForce RTX 3050 Ti Laptop GPU"
    assert slugs(told.format(11)) == ["tf-native-windows-dropped"]
    assert "tf-native-windows-dropped" not in slugs(told.format(10))


def test_a_form_with_the_name_again_before_the_version() -> None:
    form = "TensorFlow version: tf {}\nOS platform and distribution: Windows 11\nNum GPUs Available:  0"
    assert slugs(form.format("2.12.0")) == ["tf-native-windows-dropped"]
    assert "tf-native-windows-dropped" not in slugs(form.format("2.10.1"))
