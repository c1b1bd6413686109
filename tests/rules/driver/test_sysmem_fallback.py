import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Windows 11, RTX 3060 12 GB\n"
        "Task Manager: Dedicated GPU memory 11.8/12.0 GB, Shared GPU memory 9.1/16 GB\n"
        " 45.2s/it very slow",
        "Training suddenly very slow on Windows 10; Shared GPU memory usage goes up to 7 GB",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["sysmem-fallback"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "Windows 11\n"
        "Shared GPU memory 0.1/16 GB\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "sysmem-fallback" not in slugs(text)
