import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "nvidia 0000:01:00.0: Direct firmware load for nvidia/535.54.03/gsp_ga10x.bin failed with error "
        "-2",
        "NVRM: RmFetchGspRmImages: No firmware image found\n"
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x61:0x56:1697)",
        "NVRM: _kgspFwContainerVerifyVersion: GSP firmware image version mismatch: got version "
        "535.54.03, expected version 535.86.05",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["gsp-firmware-missing"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "nvidia 0000:05:00.0: firmware: failed to load nvidia/595.71.05/gsp_log_ga10x.bin (-2)\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "nouveau 0000:01:00.0: Direct firmware load for nvidia/ad104/gsp/bootloader-535.113.01.bin "
        "failed with error -2",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "gsp-firmware-missing" not in slugs(text)
