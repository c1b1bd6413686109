"""TensorFlow, JAX and the others."""

import pytest

from ongpu.knowledge import jax, others, tensorflow
from ongpu.knowledge._versions import numbers
from ongpu.knowledge.cuda import oldest_driver_for


def test_tensorflow_release() -> None:
    found = tensorflow.release("2.15.1")
    assert found is not None
    assert (found.cuda, found.cudnn, found.driver) == ("12.2", "8.9", "525.60.13")
    assert tensorflow.release("2.12") is not None
    assert tensorflow.release("3.0") is None
    assert tensorflow.release("x") is None


def test_tensorflow_platforms() -> None:
    assert tensorflow.gpu_on_windows("2.10.1") is True
    assert tensorflow.gpu_on_windows("2.11.0") is False
    assert tensorflow.gpu_platforms("2.10") == ("linux_x86_64", "windows_x86_64")
    assert tensorflow.gpu_platforms("2.20") == ("linux_x86_64",)
    assert tensorflow.has_and_cuda_extra("2.13") is False
    assert tensorflow.has_and_cuda_extra("2.14.0") is True


def test_tensorflow_python() -> None:
    assert tensorflow.python_ok("2.15", "3.12") is False
    assert tensorflow.newest_for_python("3.8") == "2.13"
    assert tensorflow.newest_for_python("2.7") is None


def test_tensorflow_drivers_agree_with_cuda() -> None:
    for release in tensorflow.releases():
        assert release.driver == oldest_driver_for(release.cuda), release.version


def test_jax() -> None:
    assert [line.cuda_major for line in jax.lines_of("0.7.2")] == [13, 12]
    assert [line.cuda_major for line in jax.lines_of("0.6.2")] == [12]
    assert [line.cuda_major for line in jax.lines_of("0.4.25")] == [12, 11]
    assert jax.lines_of("junk") == ()
    assert jax.oldest_cudnn("0.12.0.1", 13) == "9.12.0.46"
    assert jax.oldest_cudnn("0.6.1", 12) == "9.1"
    assert jax.oldest_cudnn("0.1", 12) is None
    line = jax.line_of_plugin("jax_cuda12_pjrt")
    assert line is not None
    assert line.extra == "cuda12"
    assert jax.line_of_plugin("jaxlib") is None
    for line in jax.lines():
        assert line.driver == oldest_driver_for(str(line.cuda_major))


def test_others_lines() -> None:
    ort = others.line("onnxruntime_gpu", "1.16.3")
    assert ort is not None
    assert (ort.cuda, ort.cudnn) == (("11",), "8")
    assert others.cuda_ok("onnxruntime-gpu", "1.20.0", "12.4") is True
    assert others.cuda_ok("onnxruntime-gpu", "1.20.0", "11.8") is False
    assert others.cuda_ok("bitsandbytes", "0.45.5", "12.9") is False
    assert others.cuda_ok("unheard-of", "1.0", "12.9") is None
    assert others.line("ctranslate2", "4.4.0") != others.line("ctranslate2", "4.5.0")


@pytest.mark.parametrize(
    ("name", "version", "torch", "is_ok"),
    [
        ("xformers", "0.0.28.post3", "2.5.1+cu124", True),
        ("xformers", "0.0.28.post3", "2.6.0", False),
        ("xformers", "0.0.35", "2.12.0", True),
        ("vllm", "0.10.2", "2.8.0", True),
        ("triton", "3.4.0", "2.8.0", True),
        ("bitsandbytes", "0.50.2", "2.3.0", False),
        ("vllm", "99.0", "2.8.0", None),
        ("vllm", "0.10.2", "not a version", None),
    ],
)
def test_torch_ok(name: str, version: str, torch: str, is_ok: bool | None) -> None:
    assert others.torch_ok(name, version, torch) is is_ok


def test_releases_for_torch_and_rivals() -> None:
    assert others.releases_for_torch("vllm", "2.9.0") == ("0.13.0", "0.11.2")
    ort = others.package("onnxruntime-gpu")
    assert ort is not None
    assert ort.rivals == ("onnxruntime",)
    assert others.package("Flash_Attn") is not None


def test_lines_do_not_overlap() -> None:
    for package in others.packages():
        for newer, older in zip(package.lines, package.lines[1:], strict=False):
            assert older.last is not None
            assert numbers(older.last) < numbers(newer.first), package.name
