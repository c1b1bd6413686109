import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "NVIDIA A100-SXM4-40GB with CUDA capability sm_80 is not compatible with the current"
            " PyTorch installation.\n"
            "The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70.",
            "torch 1.9.0+cu102",
        ),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
            "GPU: GTX 1080 Ti\n"
            "torch 2.8.0+cu128",
        ),
        (
            "torch 2.7.0.dev20250310+cu124\n"
            "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current"
            " PyTorch installation.\n"
            "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80"
            " sm_86 sm_90.",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["wrong-index-for-gpu"]


@pytest.mark.parametrize(
    "texts",
    [
        ("error in ms_deformable_im2col_cuda: no kernel image is available for execution on the device",),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "wrong-index-for-gpu" not in slugs(*texts)
