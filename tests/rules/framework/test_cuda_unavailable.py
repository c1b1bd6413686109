"""cuda-unavailable is told from our own probe only, beside cards that NVML shows."""

import json

from ongpu.engine import diagnose
from ongpu.model import Evidence, Severity

CARDS = "\n".join(
    ['{"init": "ok"}', '{"driver": "535.183.01", "cuda": 12020, "count": 2}']
    + [json.dumps({"gpu": index, "name": "NVIDIA A100 80GB PCIe"}) for index in (0, 1)]
)


def slugs(**answer: object) -> list[str]:
    line = "ongpu-probe " + json.dumps({"framework": "torch", "version": "2.3.1+cu121", "cuda": "12.1", **answer})
    evidence = [Evidence("nvml", CARDS, "NVML"), Evidence("framework-probe", line, "probe of PyTorch")]
    return [f.slug for f in diagnose(evidence, "test").findings if f.weight > Severity.NOTE]


def ok(*right: bool) -> list[dict[str, object]]:
    error = {"error": "RuntimeError: CUDA error: misaligned address"}
    return [{"index": index, "name": "A100", "ok": r, **({} if r else error)} for index, r in enumerate(right)]


def test_found() -> None:
    assert slugs(available=False, count=0, devices=[], error="RuntimeError: something went wrong") == ["cuda-unavailable"]
    assert slugs(available=True, count=2, devices=ok(True, False)) == ["cuda-unavailable"]
    assert slugs(available=True, count=1, devices=ok(True)) == ["cuda-unavailable"]


def test_not_found() -> None:
    assert slugs(available=True, count=2, devices=ok(True, True)) == []
    assert slugs(available=True, count=1, devices=ok(True), visible="1") == []
