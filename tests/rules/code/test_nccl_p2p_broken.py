import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "NotImplementedError: Using RTX 4000 series doesn't support faster communication broadband via P2P "
        'or IB. Please set `NCCL_P2P_DISABLE="1"` and `NCCL_IB_DISABLE="1" or use `accelerate launch` which '
        "will do this automatically.",
        "It hangs forever with two GPUs. export NCCL_P2P_DISABLE=1 makes it work",
        "Verification error @ element 1: val = 0.000000, ref = 4.000000\n"
        "simpleP2P",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "nccl-p2p-broken"


@pytest.mark.parametrize(
    "text",
    [
        "rank0 NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    ],
)
def test_neighbours(text: str) -> None:
    assert "nccl-p2p-broken" not in slugs(text)
