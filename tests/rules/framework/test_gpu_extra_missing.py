# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider"
            " names.Available providers: 'AzureExecutionProvider, CPUExecutionProvider'",
        ),
        ("ValueError: This CTranslate2 package was not compiled with CUDA support",),
        (
            "llama_model_load: warning: failed to mlock\n"
            "BLAS = 0\n"
            "llama-cpp-python 0.2.20, n_gpu_layers=35, GPU is not used",
        ),
        ('RuntimeError: Not compiled with GPU support\n  File "detectron2/layers/roi_align.py"',),
        ("xgboost.core.XGBoostError: XGBoost version not compiled with GPU support.",),
        (
            "lightgbm.basic.LightGBMError: GPU Tree Learner was not enabled in this build.\n"
            "Please recompile with CMake option -DUSE_GPU=1",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["gpu-extra-missing"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ pip list | grep onnx\nonnxruntime 1.16.3\nonnxruntime-gpu 1.16.3",
            "get_available_providers() only shows ['AzureExecutionProvider', 'CPUExecutionProvider']",
        ),
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "gpu-extra-missing" not in slugs(*texts)


@pytest.mark.parametrize(
    "text",
    [
        "Microsoft.ML.OnnxRuntime.OnnxRuntimeException: [ErrorCode:RuntimeException] CUDA execution provider is not enabled in this build.",
        "ai.onnxruntime.OrtException: Error code - ORT_EP_FAIL - message: Failed to find CUDA shared provider",
        "AttributeError: bitsandbytes/libbitsandbytes_cpu.so: undefined symbol: cget_col_row_stats",
        "NameError: name 'str2optimizer32bit' is not defined",
        "UserWarning: Failed to load custom C++ ops. Running on CPU mode Only!\nNameError: name '_C' is not defined",
    ],
)
def test_other_languages_and_libraries_without_their_cuda_part(text: str) -> None:
    assert slugs(text)[:1] == ["gpu-extra-missing"]


def test_blas_is_zero_with_and_without_spaces() -> None:
    for words in ("BLAS = 0", "BLAS=0", "blas=0"):
        assert slugs(f"llama-cpp-python 0.2.89, the server starts but still shows {words} and no GPU usage") == ["gpu-extra-missing"]
    assert "gpu-extra-missing" not in slugs("make LLAMA_OPENBLAS=0 LLAMA_CUBLAS=1, the server starts and uses the GPU")


def test_faiss_falls_back() -> None:
    assert slugs("Failed to load GPU Faiss: ./_swigfaiss_gpu.so: undefined symbol: omp_set_lock\nFaiss falling back to CPU-only.") == ["gpu-extra-missing"]
