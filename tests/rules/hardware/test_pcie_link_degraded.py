import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "        GPU Link Info\n"
        "            Link Width\n"
        "                Max                       : 16x\n"
        "                Current                   : 4x\n"
        "        Performance State                 : P0\n"
        "    Utilization\n"
        "        Gpu                               : 100 %",
        "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
        "\t\tLnkSta:\tSpeed 16GT/s, Width x4 (downgraded)",
        "\t\tLnkSta:\tSpeed 5GT/s (downgraded), Width x1 (downgraded)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["pcie-link-degraded"]


@pytest.mark.parametrize(
    "text",
    [
        "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
        "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16",
        "Device 1 [GeForce GTX 1080 Ti] PCIe GEN 1@16x",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "pcie-link-degraded" not in slugs(text)
