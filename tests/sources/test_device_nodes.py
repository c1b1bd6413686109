"""The nodes, with or without modes, and who wants to open them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Nodes
from ongpu.model import Evidence, Fact
from ongpu.sources.device_nodes import read


def facts(text: str, command: str | None = None) -> dict[type[Fact], Fact]:
    return {type(fact): fact for fact in read(Evidence("pasted", text, "x", command))}


def test_modes_and_groups() -> None:
    text = (
    "crw-rw---- 1 root video 195, 255 25. Nov 19:53 /dev/nvidiactl\nuid=201(netdata) gid=201(netdata) "
        "groups=201(netdata),44(video)"
)
    found = [fact for fact in read(Evidence("pasted", text, "x")) if isinstance(fact, Nodes)]
    assert found[0].nodes[0].mode == "crw-rw----"
    assert found[0].nodes[0].group == "video"
    assert (found[1].user, found[1].groups) == ("netdata", ("netdata", "video"))


def test_names_only() -> None:
    nodes = facts("/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-modeset", "ls /dev/nvidia*")[Nodes]
    assert isinstance(nodes, Nodes)
    assert nodes.listed
    assert nodes.has("/dev/nvidia0")
    assert not nodes.has("/dev/nvidia-uvm")


def test_none() -> None:
    nodes = facts("ls: cannot access '/dev/nvidia*': No such file or directory", "ls -l /dev/nvidia*")[Nodes]
    assert isinstance(nodes, Nodes)
    assert nodes.listed
    assert nodes.nodes == ()


def test_live_listing() -> None:
    text = "crw------- 1 root root 195, 0 Jan  1 00:00 /dev/nvidia0  # not openable"
    nodes = next(iter(read(Evidence("device-nodes", text, "ls -l /dev/nvidia*", "ls -l /dev/nvidia*"))))
    assert isinstance(nodes, Nodes)
    assert nodes.nodes[0].openable is False


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("crw-/dev nvidia0ctl uid=()goups123,\n*"), max_size=400),
    command=st.sampled_from((None, 'ls /dev/nvidia*', 'id', 'groups')),
)
def test_no_text_makes_it_crash(text: str, command: str | None) -> None:
    list(read(Evidence("pasted", text, "x", command)))
