import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        ("CUDA_VISIBLE_DEVICES=0 but the process runs on GPU 1 in nvidia-smi\nGPU 0: GTX 1050\nGPU 1: RTX 3090",),
        (
            "the device numbers of the program and nvidia-smi do not match\n"
            "GPU 0: Quadro P620 (UUID: GPU-0b0c0d0e-0000-1111-2222-333344445555)\n"
            "GPU 1: TITAN RTX (UUID: GPU-a1b2c3d4-0000-1111-2222-333344445555)",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-device-order"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-device-order" not in slugs(*texts)
