# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Found no NVIDIA driver on your system.\n"
        "$ lspci | grep -Ei 'vga|3d|display'\n"
        "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 620 (rev 07)",
        "nvidia-container-cli: initialization error: nvml error: driver not loaded\n"
        "node.kubernetes.io/instance-type=inf1.xlarge",
        "RuntimeError: No CUDA GPUs are available\nmy laptop has only integrated graphics",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["no-nvidia-gpu"]


@pytest.mark.parametrize(
    "text",
    [
        "Found no NVIDIA driver on your system.",
        "instance type g5.xlarge\nFound no NVIDIA driver on your system.",
        "RTX 3060, Intel UHD Graphics 630\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "no-nvidia-gpu" not in slugs(text)


@pytest.mark.parametrize("graphics", ["Intel(R) Iris(R) Xe Graphics", "Intel® Iris® Plus Graphics 655", "Intel(R) Arc(TM) Graphics", "Intel UHD Graphics 620"])
def test_only_intels_graphics_are_told(graphics: str) -> None:
    assert slugs("RuntimeError: Found no NVIDIA driver on your system.", f"Laptop, {graphics}")[:1] == ["no-nvidia-gpu"]


def test_a_rented_server_that_shows_no_graphics_at_all() -> None:
    lspci = "(base) root@vmanager:~# sudo lspci -vkk | grep VGA\n(base) root@vmanager:~#"
    smi = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert slugs(lspci, smi, "a VPS with Ubuntu 20.04")[:1] == ["no-nvidia-gpu"]
    assert "no-nvidia-gpu" not in slugs(lspci, smi, "on a GCP machine with a T4")  # such a card is a 3D controller
    assert "no-nvidia-gpu" not in slugs(smi, "a VPS with Ubuntu 20.04")


def test_colab_with_a_gpu_runtime() -> None:
    line = "No GPU/TPU found, falling back to CPU."
    assert slugs(line, "I run this on Google Colab")[0] == "no-nvidia-gpu"
    assert "no-nvidia-gpu" not in slugs(line, "Google Colab, runtime type: GPU (T4)")
    assert "no-nvidia-gpu" not in slugs(line, "Colab with a T4 runtime")
