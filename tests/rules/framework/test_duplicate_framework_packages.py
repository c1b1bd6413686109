import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ pip list | grep onnx\nonnxruntime 1.16.3\nonnxruntime-gpu 1.16.3",
            "get_available_providers() only shows ['AzureExecutionProvider', 'CPUExecutionProvider']",
        ),
        (
            "UserWarning: \n"
            "--------------------------------------------------------------------------------\n"
            "  CuPy may not function correctly because multiple CuPy packages are installed\n"
            "  in your environment:\n"
            "    cupy-cuda11x, cupy-cuda12x",
        ),
        ("tensorflow==2.4.1\ntensorflow-gpu==2.4.1\nNum GPUs Available:  0\n",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["duplicate-framework-packages"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider"
            " names.Available providers: 'AzureExecutionProvider, CPUExecutionProvider'",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "duplicate-framework-packages" not in slugs(*texts)
