# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n    - name: c\n      image: nvidia/cuda:12.2.0-base\n\n---\nRuntimeError: No CUDA GPUs are available',
        'The Pod "p" is invalid: spec.containers[0].resources.requests: Required value: Limit must be set for non overcommitable resources',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "k8s-no-gpu-request"


@pytest.mark.parametrize(
    "text",
    [
        'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n    - name: c\n      image: nvidia/cuda:12.2.0-base\n      resources: {limits: {nvidia.com/gpu: 1}}\n',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "k8s-no-gpu-request" not in slugs(text)
