from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.config import Config, Quota, Quotas
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import possible
from ongpu.queue.engines.local.desk import Device, Want, fits
from ongpu.queue.job import Card, Spec

CARDS = [Card(id=f"GPU-{n}", index=n, name="NVIDIA A100-SXM4-80GB", memory=81920, capability="8.0") for n in range(8)]
MIXED = [
    *CARDS[:2],
    Card(id="GPU-9", index=9, name="NVIDIA H100", memory=81920, capability="9.0"),
    Card(id="GPU-x", name="NVIDIA L4", memory=23034),
]


def said(cards: list[Card], **asked: Any) -> tuple[str, str]:
    with pytest.raises(EngineError) as found:
        possible.refuse(Spec(command=("true",), **asked), cards)
    return found.value.english, found.value.chinese


def test_a_capability_that_no_gpu_has_is_refused() -> None:
    english, chinese = said(CARDS, capability=(9, 0))
    assert english == "--capability 9.0: this machine has 0 such GPUs; it has 8 x NVIDIA A100-SXM4-80GB (80 GiB, 8.0); it would never start"
    assert "8.0" in chinese
    assert "永远无法启动" in chinese
    assert said(MIXED, model="a100", capability=(8, 6))[0].startswith("--model a100 --capability 8.6: this machine has 0 such GPUs; ")
    assert said(MIXED, gpus=3, capability=(9, 0))[0].startswith("--gpus 3 --capability 9.0: this machine has 2 such GPUs")
    for capability in ((8, 0), (7, 5)):
        possible.refuse(Spec(command=("true",), capability=capability), CARDS)
    possible.refuse(Spec(command=("true",), capability=(10, 0), model="L4"), MIXED)  # nobody told what it can


def test_memory_is_told_as_it_is_typed() -> None:
    assert said(CARDS, memory=200 * 1024)[0].startswith("--memory 200 GiB: this machine has 0 such GPUs; the largest has 80 GiB; ")
    assert said(MIXED, gpus=4, memory=30_720)[0].startswith("--gpus 4 --memory 30 GiB: this machine has 3 such GPUs; 4 have at least 22.49")


def test_a_part_of_a_gpu_leaves_what_nobody_may_declare() -> None:
    english, _ = said(CARDS, share=True, memory=81_818)
    assert english.startswith("--share --memory 79.9 GiB: ")
    assert english.endswith("each may declare 79.5 GiB; it would never start")
    possible.refuse(Spec(command=("true",), share=True, memory=81_920 - possible.RESERVE), CARDS)
    possible.refuse(Spec(command=("true",), memory=81_920), CARDS)


def test_cpus_host_memory_and_quotas() -> None:
    quotas = Quotas(each=Quota(gpus=2), users={"zero": Quota(gpu_hours=0.0)}, projects={"demo": Quota(gpus=1)})
    config = Config(cpus=4, host_memory=24_105, quotas=quotas)
    refused: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("ann", {"cpus": 5}, "--cpus 5: this machine gives out 4"),
        ("ann", {"host_memory": 9999 * 1024}, "--host-memory 9999 GiB: this machine gives out 23.54 GiB"),
        ("ann", {"gpus": 3}, "--gpus 3: the quota of ann is 2; it would never start"),
        ("ann", {"gpus": 2, "project": "demo"}, "--gpus 2: the quota of the project demo is 1; it would never start"),
        ("zero", {"gpus": 1}, "--gpus 1: the quota of zero is 0 GPU hours a week; it would never start"),
    )
    for user, asked, words in refused:
        with pytest.raises(EngineError) as found:
            possible.refuse_beyond(Spec(command=("true",), **asked), config, user)
        assert found.value.english == words
        assert found.value.chinese.isascii() is False
    for fine in (Spec(command=("true",), gpus=2, cpus=4, host_memory=24_105), Spec(command=("true",), gpus=1, project="demo")):
        possible.refuse_beyond(fine, config, "ann")
    possible.refuse_beyond(Spec(command=("true",), gpus=0, project="demo"), config, "zero")


@given(
    gpus=st.integers(1, 5),
    memory=st.none() | st.integers(1, 100_000),
    share=st.booleans(),
    model=st.sampled_from(("", "A100", "h100", "L4", "B200")),
    capability=st.none() | st.tuples(st.integers(7, 10), st.integers(0, 9)),
)
def test_what_is_refused_could_never_be_placed(
    gpus: int, memory: int | None, share: bool, model: str, capability: tuple[int, int] | None
) -> None:
    share = share and memory is not None
    spec = Spec(command=("true",), gpus=gpus, memory=memory, share=share, model=model, capability=capability)
    known = [card for card in MIXED if card.capability]
    want = Want(model=model, capability=".".join(map(str, capability or ())), avoid=(), share=share)
    devices = [Device(id=card.id, name=card.name, memory=card.memory, capability=card.capability) for card in known]
    fitting = [one for one in devices if fits(one, want) and (one.memory or 0) - share * possible.RESERVE >= (memory or 0)]
    try:
        possible.refuse(spec, known)
    except EngineError:
        assert len(fitting) < gpus
    else:
        assert len(fitting) >= gpus
