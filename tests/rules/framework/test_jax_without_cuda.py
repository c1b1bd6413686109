import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun"
            " for more info.)\n"
            "jax 0.3.25\n"
            "jaxlib 0.3.25",
        ),
        (
            ">>> jax.devices()\n[CpuDevice(id=0)]",
            "$ pip list | grep jax\njax 0.4.30\njaxlib 0.4.30",
            "RTX A5000, driver 535.104",
        ),
        (
            "RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are instances of"
            " gpu are present. Platforms present are: interpreter,cpu",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["jax-without-cuda"]


@pytest.mark.parametrize(
    "texts",
    [
        ("JAX_PLATFORMS=cpu\n>>> jax.devices()\n[CpuDevice(id=0)]",),
        (
            "ImportError: /opt/conda/lib/libcublas.so.11: undefined symbol: cublasLtGetStatusString,"
            " version libcublasLt.so.11\n"
            "$ echo $LD_LIBRARY_PATH\n"
            "/usr/local/cuda-11.2/lib64",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "jax-without-cuda" not in slugs(*texts)
