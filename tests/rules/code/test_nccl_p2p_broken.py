# ruff: noqa: E501  printed lines stand in one piece
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


@pytest.mark.parametrize("words", ["If p2p disabled, things all going well.", "without P2P it works", "it works with NCCL_P2P_DISABLE=1", "works fine when P2P is off"])
def test_one_run_without_peer_to_peer_works(words: str) -> None:
    assert slugs("NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer", words) == ["nccl-p2p-broken"]


@pytest.mark.parametrize("words", ["How do I run with P2P disabled? It runs fine.", "p2p is disabled, so it is slower", "Does NCCL work with P2P disabled?"])
def test_words_about_peer_to_peer(words: str) -> None:
    assert "nccl-p2p-broken" not in slugs("NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", words)
