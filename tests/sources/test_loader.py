
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.libraries import Loader
from ongpu.hosts.pasted import read_text
from ongpu.sources import loader

LDD = """\
$ ldd /venv/site-packages/nvidia/cusparse/lib/libcusparse.so.12
\tlinux-vdso.so.1 (0x00007ffebafed000)
\tlibnvJitLink.so.12 => /usr/local/cuda-12.1/lib64/libnvJitLink.so.12 (0x000070ddad800000)
\tlibcublas.so.12 => not found
"""
CACHE = """\
$ ldconfig -p
1203 libs found in cache `/etc/ld.so.cache'
\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12
"""


def read(text: str) -> Loader:
    facts = [fact for item in read_text(text, "paste") for fact in loader.read(item)]
    return facts[0] if facts and isinstance(facts[0], Loader) else Loader()


def test_ldd() -> None:
    found = read(LDD)
    jit = next(item for item in found.loaded if item.name == "libnvJitLink.so.12")
    assert (jit.path, jit.by.rsplit("/", 1)[-1]) == (
        "/usr/local/cuda-12.1/lib64/libnvJitLink.so.12",
        "libcusparse.so.12",
    )
    assert [item.name for item in found.missing()] == ["libcublas.so.12"]


def test_cache() -> None:
    assert read(CACHE).cache == {"libcudart.so.12": "/usr/local/cuda/lib64/libcudart.so.12"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "Could not load dynamic library 'libcudnn.so.7'; dlerror: libcudnn.so.7: cannot open shared object",
            "libcudnn.so.7",
        ),
        ("ImportError: libcublas.so.11: cannot open shared object file: No such file or directory", "libcublas.so.11"),
        ("Could not load dynamic library 'cudnn64_8.dll'; dlerror: cudnn64_8.dll not found", "cudnn64_8.dll"),
        (
            'OSError: [WinError 126] The specified module could not be found. Error loading "C:\\a\\c10_cuda.dll"',
            "c10_cuda.dll",
        ),
        (
            'LoadLibrary failed with error 126 "" when trying to load "C:\\a\\onnxruntime_providers_cuda.dll"',
            "onnxruntime_providers_cuda.dll",
        ),
    ],
)
def test_missing(text: str, name: str) -> None:
    assert name in [item.name for item in read(text).missing()]


def test_opened_is_not_missing() -> None:
    assert read("dso_loader.cc:48] Successfully opened dynamic library libcudart.so.10.1").missing() == ()


@settings(derandomize=True, max_examples=60)
@given(st.text())
def test_no_text_makes_it_crash(text: str) -> None:
    read("libx.so.1 => " + text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('Unable to dynamically load the "cublas" shared library - searched for library names: ["cublas", "cublas64"].', "libcublas.so"),
        ('Unable to dynamically load the "nvcuda" shared library', "libcuda.so"),
        ("I tensorflow/stream_executor/dso_loader.cc:119] Couldn't open CUDA library cudnn64_5.dll", "cudnn64_5.dll"),
    ],
)
def test_rusts_cudarc_and_tensorflow_1(text: str, name: str) -> None:
    assert [item.name for item in read(text).missing()] == [name]
