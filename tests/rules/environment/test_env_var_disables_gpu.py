import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("JAX_PLATFORMS=cpu\n>>> jax.devices()\n[CpuDevice(id=0)]",),
        (
            "$ env | grep -i ollama\nOLLAMA_LLM_LIBRARY=cpu_avx2\n",
            "ollama runs on CPU only, RTX 3060",
        ),
        (
            "export NUMBA_DISABLE_CUDA=1\n"
            "numba.cuda.cudadrv.error.CudaSupportError: CUDA is disabled due to setting"
            " NUMBA_DISABLE_CUDA=1 in the environment",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["env-var-disables-gpu"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
        (
            "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun"
            " for more info.)\n"
            "jax 0.3.25\n"
            "jaxlib 0.3.25",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "env-var-disables-gpu" not in slugs(*texts)
