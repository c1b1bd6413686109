# ruff: noqa: E501  printed lines stand in one piece
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts import pasted
from ongpu.model import Evidence, Fact
from ongpu.sources import kubernetes as MODULE

SEED = '$ kubectl describe node\nCapacity:\n  nvidia.com/gpu: '


def facts(text: str) -> list[Fact]:
    return [fact for item in pasted.read_text(text, "paste") if MODULE.looks_like(item) for fact in MODULE.read(item)]


def test_a_node() -> None:
    found = facts("$ kubectl describe node\nCapacity:\n  nvidia.com/gpu:  8\n  pods:  110\nAllocatable:\n  nvidia.com/gpu:  7\n  pods:  110\n")[0]
    assert (found.capacity, found.allocatable, found.listed) == (8, 7, True)  # type: ignore[attr-defined]


def test_a_node_without_the_resource() -> None:
    assert facts("$ kubectl describe node\nCapacity:\n  cpu:  8\n  pods:  110\n")[0].capacity == 0  # type: ignore[attr-defined]


def test_a_search_that_finds_nothing() -> None:
    assert facts("$ kubectl get pods -A | grep nvidia-device-plugin\n$ ")[0].plugin_absent  # type: ignore[attr-defined]


def test_a_daemonset() -> None:
    text = "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE\nnvdp-nvidia-device-plugin 0 0 0 0 0 <none> 3m"
    assert facts(text)[0].plugin_desired == 0  # type: ignore[attr-defined]


def test_gpus_per_node() -> None:
    assert facts("$ kubectl get nodes\nNAME    GPU\nnode1   1\nnode2   4\n")[0].per_node == (1, 4)  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=400))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", SEED + text, "x", command=text[:80] or None)
    if MODULE.looks_like(evidence):
        list(MODULE.read(evidence))
