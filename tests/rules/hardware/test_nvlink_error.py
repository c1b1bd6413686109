import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:06:00): 74, pid=1, NVLink: fatal error detected on link 2",
        "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "GPU 3: Tesla V100-SXM2-32GB (UUID: GPU-aaaa-bbbb)\n\t Link 0: 25.781 GB/s\n\t Link 1: <inactive>",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["nvlink-error"]


@pytest.mark.parametrize(
    "text",
    [
        "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-aaaa-bbbb)\n"
        "\t Link 0: <inactive>\n"
        "\t Link 1: <inactive>\n"
        "\t Link 2: <inactive>\n"
        "\t Link 3: <inactive>",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 239",
        "NVRM: Xid (PCI:0000:06:00): 45, pid=1, Ch 1",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "nvlink-error" not in slugs(text)


@pytest.mark.parametrize("bus", ["PCI:...", "PCI:xxxx", "PCI:<redacted>"])
def test_an_address_that_was_struck_out(bus: str) -> None:
    assert slugs(f"NVRM: Xid ({bus}): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 11 (...)") == ["nvlink-error"]
    assert slugs(f"NVRM: Xid ({bus}): 79, pid=1, GPU has fallen off the bus.") == ["gpu-fell-off-bus"]
