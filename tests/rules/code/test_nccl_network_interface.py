# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "ncclInternalError: Internal check failed.\n"
        "Last error:\n"
        "Bootstrap : no socket interface found",
        "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != "
        "nullptr. Unable to find address for: eth0",
        "node-1:12:34 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n"
        "node-1:12:34 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.17.0.1<43211> "
        "failed : No route to host",
        "h:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\n"
        "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "nccl-network-interface"


BRIDGES = "n1:1:1 [0] NCCL INFO NET/Socket : Using [0]bond0:192.168.1.161<0> [1]br-05ab815fa14e:172.19.0.1<0> [2]veth6163fba:fe80::b8%veth6163fba<0>\n"


def test_bridges_among_the_interfaces_and_a_system_call_that_failed() -> None:
    assert slugs(BRIDGES + "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1191, unhandled system error, NCCL version 2.10.3")[0] == "nccl-network-interface"
    assert not slugs(BRIDGES)
    assert "nccl-network-interface" not in slugs(BRIDGES.replace("br-05ab815fa14e", "bond1").replace("veth6163fba", "bond2") + "unhandled system error, NCCL version 2.10.3")
