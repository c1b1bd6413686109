import pytest
from asking import explain, slugs


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


LINK = "$ sudo lspci -vv -s {} | grep Lnk\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed {}GT/s (downgraded), Width x16"
CARD = (
    "$ nvidia-smi\n|   7  NVIDIA RTX PRO 6000 Blac...    On  |   00000000:E3:00.0 Off |                  Off |\n"
    "| 41%   68C    {}            421W /  600W |   91022MiB /  97887MiB |    {}%      Default |"
)


def test_a_slow_link_counts_only_while_its_own_card_works() -> None:
    assert slugs(LINK.format("e3:00.0", "5"), CARD.format("P1", "100")) == ["pcie-link-degraded"]
    assert slugs(LINK.format("e3:00.0", "2.5"), CARD.format("P0", "97")) == ["pcie-link-degraded"]
    assert slugs(LINK.format("e3:00.0", "5"), CARD.format("P8", "0")) == []
    assert slugs(LINK.format("17:00.0", "5"), CARD.format("P1", "100")) == []  # another slot
    assert slugs(LINK.format("e3:00.0", "32"), CARD.format("P1", "100")) == []


def test_nobody_says_idle_of_a_card_at_work() -> None:
    told = explain(LINK.format("e3:00.0", "5"), CARD.format("P1", "100"))
    assert not any(finding.variant == "idle-clocks" for finding in told.findings)
