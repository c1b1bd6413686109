import pytest
from asking import slugs


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
