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


def test_a_go_program_panics_at_its_start() -> None:
    panic = "panic: Unknown\n\ngoroutine 1 [running]:\ngithub.com/chewxy/cu.init.1()\n\tgithub.com/chewxy/cu/cu.go:13 +0x5e\n"
    modules = "$ lsmod | grep nvidia\nnvidia_drm             53248  1\nnvidia_modeset        790528  4 nvidia_drm\n{}nvidia              11489280  82 nvidia_modeset\n"
    assert slugs(panic, modules.format("")) == ["uvm-module-missing"]
    assert "uvm-module-missing" not in slugs(panic, modules.format("nvidia_uvm            1036288  0\n"))
    assert "uvm-module-missing" not in slugs("panic: Unknown column 'x' in query", modules.format(""))
