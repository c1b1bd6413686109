# ruff: noqa: E501  printed lines stand in one piece
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


SMI = "$ nvidia-smi -L\nGPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)"


@pytest.mark.parametrize(
    "text",
    [
        'time=2025-10-01 level=WARN source=runner.go:485 msg="user overrode visible devices" ROCR_VISIBLE_DEVICES=0\n'
        'time=2025-10-01 level=INFO source=types.go:60 msg="inference compute" id=cpu library=cpu\n',
        'time=2025-10-01 level=INFO source=routes.go:1332 msg="server config" env="map[CUDA_VISIBLE_DEVICES: GPU_DEVICE_ORDINAL:0 OLLAMA_DEBUG:INFO]"\n'
        'level=INFO source=gpu.go:377 msg="no compatible GPUs were discovered"',
        "    raise RuntimeError(\nRuntimeError: Please use HIP_VISIBLE_DEVICES instead of ROCR_VISIBLE_DEVICES",
        "ValueError: Please don't set ROCR_VISIBLE_DEVICES when HIP/CUDA_VISIBLE_DEVICES is set.",
    ],
)
def test_amd_variables_on_an_nvidia_machine(text: str) -> None:
    assert slugs(text, SMI)[:1] == ["env-var-disables-gpu"]
    assert "env-var-disables-gpu" not in slugs(text)  # no NVIDIA card is known


def test_an_empty_entry_of_ollamas_map_is_not_set() -> None:
    text = 'level=INFO source=routes.go:1332 msg="server config" env="map[CUDA_VISIBLE_DEVICES: GPU_DEVICE_ORDINAL: ROCR_VISIBLE_DEVICES:]"\nlevel=INFO source=gpu.go:377 msg="no compatible GPUs were discovered"'
    assert not {"env-var-disables-gpu", "cuda-visible-devices-hides"} & set(slugs(text, SMI))
