import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "$ pip list\nPackage Version\n------- -------\ntorch   2.1.0+cpu\ntorchvision 0.16.0+cpu",
            "Windows 11, RTX 4070",
        ),
        (
            "PyTorch version: 2.0.1+cpu\n"
            "Is debug build: False\n"
            "CUDA used to build PyTorch: None\n"
            "ROCM used to build PyTorch: N/A\n"
            "OS: Microsoft Windows 10 Pro\n"
            "Is CUDA available: False\n"
            "CUDA runtime version: 11.8.89\n"
            "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 3080\n"
            "Nvidia driver version: 536.23",
        ),
        (
            "Ultralytics YOLOv8.0.20 🚀 Python-3.10.6 torch-2.0.0+cpu CPU\n"
            "ValueError: Invalid CUDA 'device=0' requested. Use 'device=cpu' or pass valid CUDA"
            " device(s) if available",
        ),
        (
            "RuntimeError: Could not run 'aten::empty_strided' with arguments from the 'CUDA' backend."
            " This could be because the operator doesn't exist for this backend",
        ),
        (
            "$ conda list | grep torch\npytorch                   2.2.1           cpu_py310hfe7c1a1_0    conda-forge\n",
            ">>> torch.cuda.is_available()\nFalse",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cpu-only-build"]


@pytest.mark.parametrize(
    "texts",
    [
        ("MacBook Pro M1, macOS 13.4\nAssertionError: Torch not compiled with CUDA enabled",),
        (
            "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun"
            " for more info.)\n"
            "jax 0.3.25\n"
            "jaxlib 0.3.25",
        ),
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cpu-only-build" not in slugs(*texts)


@pytest.mark.parametrize(
    "text",
    [
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
        ">>> tf.test.is_built_with_cuda()\nFalse\n>>> tf.config.list_physical_devices('GPU')\n[]",
        "paddle.device.is_compiled_with_cuda() False",
    ],
)
def test_signs_of_a_build_without_cuda(text: str) -> None:
    assert slugs(text)[:1] == ["cpu-only-build"]


def test_a_frame_of_set_device_is_no_sign() -> None:
    assert "cpu-only-build" not in slugs("    torch._C._cuda_setDevice(device)\nRuntimeError: CUDA error: invalid device ordinal")


def test_chinese_without_a_version_is_spaced() -> None:
    report = explain("AssertionError: Torch not compiled with CUDA enabled")
    assert next(f for f in report.findings if f.slug == "cpu-only-build").text("zh").title == "安装的 PyTorch 是 CPU 版"
