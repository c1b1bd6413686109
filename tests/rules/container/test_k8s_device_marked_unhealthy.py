
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
