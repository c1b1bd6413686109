# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


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


@pytest.mark.parametrize(
    "text",
    [
        "[309] ERROR: Nvidia card not showing up in PCI bus after rescan. Continuing anyway",
        "echo 1 > /sys/bus/pci/rescan\nThe dGPU does not come back after a PCI rescan",
        "Cannot switch GPUS : bbswitch refuses to turn ON the GPU",
    ],
)
def test_a_rescan_does_not_bring_it_back(text: str) -> None:
    first = explain(text).findings[0]
    assert (first.slug, first.variant) == ("gpu-not-on-bus", "rescan")


def test_an_excerpt_of_lspci_beside_cards_that_the_driver_lists() -> None:
    bridges = "$ sudo lspci -vvv\n00:03.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge\n\tLnkSta: Speed 16GT/s, Width x16\n"
    listed = "$ nvidia-smi -L\nGPU 0: NVIDIA RTX A6000 (UUID: GPU-11111111-2222-3333-4444-555555555555)"
    assert "gpu-not-on-bus" not in slugs(bridges, listed)


def test_a_laptop_that_is_sold_with_a_card() -> None:
    empty = "$ lspci | grep -i nvidia\n"
    assert slugs(empty, "NovaCustom V56, sold with an NVIDIA dGPU, firmware v0.9.1") == ["gpu-not-on-bus"]
    assert slugs(empty, "a laptop that was sold without any extra card") == ["no-nvidia-gpu"]


def test_a_card_that_was_taken_off_the_bus_and_does_not_come_back() -> None:
    search = "root@host:~# lspci -d 10de::\nroot@host:~#"
    removed = "root@host:~# echo 1 > /sys/bus/pci/devices/0000\\:01\\:00.0/remove\nroot@host:~# echo 1 > /sys/bus/pci/rescan\n"
    assert slugs(removed + search) == ["gpu-not-on-bus"]
    assert slugs("root@host:~# echo 1 | sudo tee /sys/bus/pci/rescan\n" + search) == ["gpu-not-on-bus"]
    assert slugs("root@host:~# cat /sys/bus/pci/devices/0000:01:00.0/vendor\n" + search) == ["no-nvidia-gpu"]
