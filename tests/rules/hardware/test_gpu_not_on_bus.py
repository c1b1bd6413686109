import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Found no NVIDIA driver on your system.\n"
        "$ lspci -vnn | grep VGA -A 12\n"
        "00:02.0 VGA compatible controller [0300]: VMware SVGA II Adapter [15ad:0405]",
        "# card moved from the x16 slot to a riser\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "lspci | grep -i nvidia shows nothing. No devices were found",
        "bbswitch: device 0000:01:00.0 is in state: OFF\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["gpu-not-on-bus"]


@pytest.mark.parametrize(
    "text",
    [
        "No devices were found",
        "$ lspci -nn -d 10de:\n"
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2684] (rev a1)\n"
        "$ nvidia-smi\n"
        "No devices were found",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "gpu-not-on-bus" not in slugs(text)
