# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "$ ls /dev/nvidia*\n"
        "/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-modeset\n"
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
        "modprobe: FATAL: Module nvidia-uvm not found in directory /lib/modules/5.15.0\n"
        "cudaGetDeviceCount returned 30\n"
        "-> unknown error",
        "openat(AT_FDCWD, \"/dev/nvidia-uvm\", O_RDWR|O_CLOEXEC) = -1 ENOENT (No such file or directory)\n"
        "failed call to cuInit: CUDA_ERROR_UNKNOWN",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["uvm-module-missing"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ ls /dev/nvidia*\n"
        "/dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools\n"
        "RuntimeError: CUDA unknown error",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "uvm-module-missing" not in slugs(text)


def test_nvidia_docker_1_cannot_load_it() -> None:
    assert slugs("$ nvidia-docker run --rm nvidia/cuda nvidia-smi\nError: Could not load UVM kernel module. Is nvidia-modprobe installed?")[:1] == ["uvm-module-missing"]
