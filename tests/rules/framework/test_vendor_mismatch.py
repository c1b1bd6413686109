import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA"
            " GPU and installed a driver\n"
            "GPU: AMD Radeon RX 6700 XT, torch 2.0.1+cu118",
        ),
        ("AMD RX 7900 XTX, Windows 11. AssertionError: Torch not compiled with CUDA enabled",),
        ("torch 2.1.0+rocm5.6, GPU: NVIDIA RTX 3090, torch.cuda.is_available() False",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["vendor-mismatch"]


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "NVIDIA A100-SXM4-40GB with CUDA capability sm_80 is not compatible with the current"
            " PyTorch installation.\n"
            "The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70.",
            "torch 1.9.0+cu102",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "vendor-mismatch" not in slugs(*texts)


def test_forges_words_on_an_amd_card() -> None:
    assert slugs("Windows 11\nGPU: Radeon RX9070\nRuntimeError: PyTorch is not able to access CUDA")[:1] == ["vendor-mismatch"]
