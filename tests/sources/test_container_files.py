# ruff: noqa: E501  printed lines stand in one piece
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts import pasted
from ongpu.model import Evidence, Fact
from ongpu.sources import container_files as MODULE

SEED = 'services:\n  a:\n    image: x\n    environment: ['


def facts(text: str) -> list[Fact]:
    return [fact for item in pasted.read_text(text, "paste") if MODULE.looks_like(item) for fact in MODULE.read(item)]


COMPOSE = """services:
  web:
    image: webui
    shm_size: 2gb
    environment:
      - NVIDIA_DRIVER_CAPABILITIES=utility
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]
  db:
    image: postgres
"""


def test_compose() -> None:
    found = facts(COMPOSE)[0]
    assert [(r.name, r.gpu, r.shm) for r in found.runs] == [("web", True, "2gb"), ("db", False, "")]  # type: ignore[attr-defined]
    assert found.capabilities == "utility"  # type: ignore[attr-defined]


def test_dockerfile() -> None:
    found = facts("FROM nvidia/cuda:12.1.0-devel-ubuntu22.04\nENV CUDA_VISIBLE_DEVICES=-1 X=2\nRUN pip install torch\n")
    assert found[0].image_cuda == "12.1"  # type: ignore[attr-defined]
    assert found[1].values == {"CUDA_VISIBLE_DEVICES": "-1", "X": "2"}  # type: ignore[attr-defined]


def test_pod() -> None:
    text = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: c\n    image: i\n    resources: {limits: {nvidia.com/gpu: 2}}\n  - name: side\n    image: j\n"
    pod = facts(text)[0].pods[0]  # type: ignore[attr-defined]
    assert (pod.gpus, pod.without, pod.limits) == (2, ("side",), True)


def test_merged_aliases_do_not_grow() -> None:
    lines = ["services:", "  a0: &a0 {image: x, k0: 1}"] + [f"  a{i}: &a{i}\n    <<: [{', '.join(['*a' + str(i - 1)] * 9)}]\n    k{i}: 1" for i in range(1, 12)]
    facts("\n".join(lines))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=400))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", SEED + text, "x", command=text[:80] or None)
    if MODULE.looks_like(evidence):
        list(MODULE.read(evidence))
