# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("error in ms_deformable_im2col_cuda: no kernel image is available for execution on the device",),
        (
            '  File "/v/lib/python3.10/site-packages/flash_attn/flash_attn_interface.py", line 51, in'
            " _flash_attn_forward\n"
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
            ">>> torch.cuda.get_arch_list()\n"
            "['sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_90', 'sm_100', 'sm_120']\n"
            "RTX 5090",
        ),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
            "RTX 3090\n"
            'TORCH_CUDA_ARCH_LIST="7.0;7.5"\n',
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["extension-arch-mismatch"]


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
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA"
            " major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8."
            " Please reinstall the torchvision that matches your PyTorch install.",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "extension-arch-mismatch" not in slugs(*texts)


def test_the_packages_own_compiled_module_is_named() -> None:
    trace = 'Traceback (most recent call last):\n  File "/opt/conda/lib/python3.10/site-packages/soft_rasterizer/cuda_ops.py", line 31, in forward\n    out = rasterize_cuda.forward_faces(faces)\nRuntimeError: CUDA error: no kernel image is available for execution on the device'
    first = explain(trace).findings[0]
    assert (first.slug, first.values["extension"]) == ("extension-arch-mismatch", "soft-rasterizer")


def test_torchs_own_kernels_are_no_extension() -> None:
    trace = 'Traceback (most recent call last):\n  File "/opt/conda/lib/python3.10/site-packages/torch/nn/functional.py", line 31, in linear\n    return torch._C._nn.linear(input, weight)\nRuntimeError: CUDA error: no kernel image is available for execution on the device'
    assert "extension-arch-mismatch" not in slugs(trace)


def test_the_capability_that_torch_printed_is_the_arch_to_build_for() -> None:
    error = "error in ms_deformable_im2col_cuda: no kernel image is available for execution on the device\n"
    told = explain(error + ">>> torch.cuda.get_device_capability()\n(8, 0)").findings[0]
    assert (told.slug, told.values["capability"]) == ("extension-arch-mismatch", "8.0")
    assert "8.0" in told.text("en").fix
