# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:61:00): 119, pid=1346198, name=nvidia-smi, Timeout waiting for RPC from GSP! Expected function 103",
        "NVRM: GPU6 _kgspLogRpcTimeout: ***** GSP Timeout *****\n"
        "NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["gsp-timeout"]


@pytest.mark.parametrize(
    "text",
    [
        "nvidia 0000:01:00.0: Direct firmware load for nvidia/570.133.20/gsp_ga10x.bin failed with error -2",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "gsp-timeout" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM\nNVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)",
        "NVRM: kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 94.02.59.00.05",
        "NVRM s_executeBooterUcode_TU102: Booter failed with non-zero error code: 0xa\nNVRM kgspInitRm_IMPL: cannot bootstrap riscv/gsp: 0xffff",
    ],
)
def test_a_processor_that_does_not_start(text: str) -> None:
    told = explain(text).findings[0]
    assert (told.slug, told.variant) == ("gsp-timeout", "boot")
    missing = "nvidia 0000:98:00.0: Direct firmware load for nvidia/550.54.14/gsp_ga10x.bin failed with error -2"
    assert slugs(f"{missing}\n{text}")[:1] == ["gsp-firmware-missing"]
