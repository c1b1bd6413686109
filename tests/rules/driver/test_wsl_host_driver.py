# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "$ uname -a\n"
        "Linux pc 4.4.0-19041-Microsoft #488-Microsoft Mon Sep 01 13:43:00 PST 2020 x86_64 GNU/Linux\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "  NAME      STATE           VERSION\n"
        "* Ubuntu    Running         1\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "nvidia-container-cli: initialization error: WSL environment detected but no adapters were "
        "found: unknown",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["wsl-host-driver"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "WSL2\n| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "wsl-host-driver" not in slugs(text)


def test_the_folder_that_windows_fills_has_no_libcuda() -> None:
    first = explain("$ ls -l /usr/lib/wsl/lib\n-r-xr-xr-x 1 root root 5399000 libd3d12.so\n-r-xr-xr-x 1 root root 827000 libd3d12core.so\n-r-xr-xr-x 1 root root 919000 libdxcore.so\n").findings[0]
    assert (first.slug, first.variant) == ("wsl-host-driver", "bare")
    whole = "$ ls /usr/lib/wsl/lib\nlibcuda.so  libcuda.so.1  libd3d12.so  libdxcore.so  libnvidia-ml.so.1  nvidia-smi"
    assert "wsl-host-driver" not in slugs(whole)


def test_the_folder_or_libcuda_in_it_is_absent() -> None:
    assert slugs("$ ls /usr/lib/wsl/lib\nls: cannot access '/usr/lib/wsl/lib': No such file or directory\nWSL 2, Ubuntu 22.04, CUDA is not available")[:1] == ["wsl-host-driver"]
    assert "wsl-host-driver" not in slugs("ldconfig: /usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link")


def test_a_driver_of_windows_from_before_wsl() -> None:
    banner = "NVIDIA-SMI {0}       Driver Version: {0}       CUDA Version: 11.0"
    told = explain("WSL2 needs driver 455.41; after the update WSL doesn't see the GPU.", banner.format("451.67")).findings[0]
    assert (told.slug, told.values["version"]) == ("wsl-host-driver", "451.67")  # not the one that is asked for
    assert slugs("WSL2, my program doesn't see the GPU.", banner.format("551.67")) == []
