import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183",
        "[  12.3] NVRM: API mismatch: the client has the version 535.183.01, but\n"
        "[  12.3] NVRM: this kernel module has the version 535.171.04.  Please\n",
    ],
)
def test_told_by_the_driver(text: str) -> None:
    assert slugs(text)[0] == "driver-library-mismatch"


def test_versions_are_named() -> None:
    finding = explain("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183").findings[0]
    assert finding.values["user"] == "535.183"


def test_a_healthy_banner_is_not_it() -> None:
    assert slugs("| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |") == []
