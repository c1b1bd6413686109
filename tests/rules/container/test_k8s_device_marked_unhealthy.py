# ruff: noqa: E501  printed lines stand in one piece

import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '$ kubectl logs nvidia-device-plugin\nXidCriticalError: Xid=31 on Device=GPU-1, the device will go unhealthy.',
        '$ kubectl describe node\nCapacity:\n  nvidia.com/gpu:  8\n  pods:  110\nAllocatable:\n  nvidia.com/gpu:  7\n  pods:  110\n',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "k8s-device-marked-unhealthy"


@pytest.mark.parametrize(
    "text",
    [
        '$ kubectl describe node\nCapacity:\n  nvidia.com/gpu:  8\n  pods:  110\nAllocatable:\n  nvidia.com/gpu:  8\n  pods:  110\n',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "k8s-device-marked-unhealthy" not in slugs(text)


def test_a_node_as_yaml() -> None:
    node = 'status:\n  allocatable:\n    cpu: "48"\n    nvidia.com/gpu: "{}"\n    pods: "110"\n  capacity:\n    cpu: "48"\n    nvidia.com/gpu: "16"\n    pods: "110"'
    assert slugs(node.format(0)) == slugs(node.format(15)) == ["k8s-device-marked-unhealthy"]
    assert slugs(node.format(16)) == []
