import pytest
from asking import slugs


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
