# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183",
        "[  12.3] NVRM: API mismatch: the client has the version 535.183.01, but\n"
        "[  12.3] NVRM: this kernel module has the version 535.171.04.  Please\n",
        "kernel version 418.56.0 does not match DSO version 418.87.0 -- cannot find working devices in "
        "this configuration",
        "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown",
        "pynvml.nvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["driver-library-mismatch"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "modinfo -F version nvidia\n"
        "535.183.01\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "driver-library-mismatch" not in slugs(text)


def test_packages_without_a_state() -> None:
    told = explain(
        "Failed to initialize NVML: Driver/library version mismatch", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024",
        "nvidia-driver-550:amd64 550.107.02-0ubuntu0.24.04.1",
    ).findings[0]  # fmt: skip
    assert (told.slug, told.values["module"], told.values["user"]) == ("driver-library-mismatch", "550.90.07", "550.107.02")
    assert "driver-library-mismatch" not in slugs("nvidia-driver-550:amd64 550.107.02-0ubuntu0.24.04.1")
