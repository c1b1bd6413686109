"""What the framework itself said when it was asked to compute: the line of `probes/framework.py`."""

import json
from collections.abc import Iterable

from ongpu.facts.framework import Torch
from ongpu.model import Evidence, Fact, Get, Ref, Source

ORIGIN = "probe of PyTorch"
MARK = "ongpu-probe "


def read(evidence: Evidence) -> Iterable[Fact]:
    """Whether it sees the GPUs, how many, and whether each computes."""
    line = next((line for line in evidence.text.splitlines() if line.startswith(MARK)), None)
    if line is None:
        if evidence.kind == "framework-probe" and evidence.problem:
            words = f"PyTorch did not answer: {evidence.problem}"
            yield Torch(computed=False, probe_error=words, refs=(Ref(ORIGIN, 1, words, "probe_error"),))
        return
    answer = json.loads(line[len(MARK) :])
    devices = answer.get("devices") or []
    failed = tuple((int(d["index"]), str(d.get("error") or "a wrong result")) for d in devices if not d.get("ok"))
    error = answer.get("error") or (f"GPU {failed[0][0]}: {failed[0][1]}" if failed else None)
    available, count = answer.get("available"), answer.get("count")
    refs = [Ref(ORIGIN, 1, f"torch.cuda.is_available() = {available}", "available")] if available is not None else []
    if count is not None:
        refs.append(Ref(ORIGIN, 1, f"torch.cuda.device_count() = {count}", "device_count"))
    if error:
        refs.append(Ref(ORIGIN, 1, str(error), "probe_error"))
    elif devices:
        refs.append(Ref(ORIGIN, 1, f"a matrix product is right on {len(devices)} GPUs", "computed"))
    yield Torch(
        version=answer.get("version"),
        cuda=answer["cuda"] or "" if "cuda" in answer else None,
        available=available,
        device_count=count,
        archs=tuple(answer["archs"]) if answer.get("archs") else None,
        computed=False if error or failed else True if devices else None,
        probe_error=error,
        probed=failed,
        visible=answer.get("visible"),
        refs=tuple(refs),
    )


SOURCES = (
    Source(
        kind="framework-probe",
        read=read,
        looks_like=lambda evidence: MARK in evidence.text,
        gives=(Torch,),
        get=(Get(call="probe:ask", limit=25.0),),
        settle="python -c \"import torch; print(torch.zeros(1).cuda())\"",
    ),
)
