# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n    - name: c\n      image: nvidia/cuda:12.2.0-base\n      resources: {limits: {nvidia.com/gpu: 4}}\n$ kubectl describe node\nCapacity:\n  nvidia.com/gpu:  2\n  pods:  110\nAllocatable:\n  nvidia.com/gpu:  2\n  pods:  110\n',
        'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: resource.Quantity{}: must be an integer',
        '0/5 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: present}, 3 Insufficient nvidia.com/gpu.',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "k8s-gpu-request-unsatisfiable"


@pytest.mark.parametrize(
    "text",
    [
        '0/4 nodes are available: 3 Insufficient cpu.',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "k8s-gpu-request-unsatisfiable" not in slugs(text)
