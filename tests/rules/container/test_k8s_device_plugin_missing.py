# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        '$ kubectl get ds -A\nNAMESPACE NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE\nkube-system   nvidia-device-plugin-daemonset   0   0   0   0   0   <none>   3m',
        '$ kubectl describe node n1\nCapacity:\n  cpu:     8\n  memory:  32Gi\n  pods:    110\nAllocatable:\n  cpu:     8\n  pods:    110\n0/1 nodes are available: 1 Insufficient nvidia.com/gpu.',
        '$ kubectl get pods -A | grep nvidia-device-plugin\n$ kubectl get nodes\nNAME STATUS\nn1 Ready\n',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "k8s-device-plugin-missing"


@pytest.mark.parametrize(
    "text",
    [
        '$ kubectl describe node\nCapacity:\n  nvidia.com/gpu:  8\n  pods:  110\nAllocatable:\n  nvidia.com/gpu:  8\n  pods:  110\n',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "k8s-device-plugin-missing" not in slugs(text)


@pytest.mark.parametrize(("desired", "missing"), [(0, True), (3, False)])
def test_describe_tells_how_many_pods_are_wanted(desired: int, missing: bool) -> None:
    text = f"$ kubectl describe daemonset -n nvidia nvidia-device-plugin\nNode-Selector:  <none>\nDesired Number of Nodes Scheduled: {desired}\nCurrent Number of Nodes Scheduled: {desired}"
    assert any(f.variant == "desired" for f in explain(text).findings) is missing
    assert not any(f.variant == "desired" for f in explain(text.replace("nvidia", "fluentd")).findings)
