import pytest
from asking import slugs


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
