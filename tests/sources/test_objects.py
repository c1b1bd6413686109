"""The JSON lines of the two probes, as facts; hostile ones are passed over."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from parts.ducks import Module, Optimizer, Tensor, linear, weights

from ongpu.facts.framework import Torch
from ongpu.facts.objects import Objects
from ongpu.facts.operands import Operands
from ongpu.model import Evidence
from ongpu.probes import objects as probe
from ongpu.sources.objects import SOURCES

MIB = 1 << 20


def read(text: str) -> dict[type, Any]:
    return {type(fact): fact for fact in SOURCES[0].read(Evidence("objects", text, "live objects"))}


def test_what_the_probe_writes_is_read() -> None:
    net = Module(fc=linear("cuda:0"), buffers={"mean": Tensor(1024, 1024)}, plain={"mask": Tensor(2)})
    text = probe.describe(net, [Tensor(2)], Optimizer(*weights(net), state_on="cuda:0"))
    fact = read(text)[Objects]
    assert SOURCES[0].looks_like(Evidence("pasted", text, "x"))
    assert fact.devices == {"cpu": 4 * MIB, "cuda:0": 80}
    assert (fact.home, fact.whole, fact.model, fact.weights_dtype) == ("cuda:0", False, "Module", "float32")
    assert [p.name for p in fact.astray()] == ["mean"]
    assert ("optimizer", "cuda:0", "float32", 2, 80) in fact.table()
    assert fact.of("plain")[0].ref.line == 1 + text.splitlines().index(next(line for line in text.splitlines() if '"mask"' in line))


def test_shared_memory_is_counted_once() -> None:
    rows = [{"owner": "parameter", "name": n, "device": "cuda:0", "dtype": "float32", "shape": [4], "bytes": 16} for n in "ab"]
    rows[1]["shares"] = "a"
    text = "\n".join(json.dumps(row) for row in [{"what": "objects"}, *rows])
    assert read(text)[Objects].devices == {"cuda:0": 16}


def test_the_build_is_a_fact_where_it_has_cuda() -> None:
    memory = [{"device": "cuda:0", "allocated": 5}]
    torch = {"version": "2.9.0+cu128", "cuda": "12.8", "archs": ["sm_80", "sm_90"], "gpus": 1, "memory": memory}
    facts = read(json.dumps({"what": "failure", "torch": torch, "frames": [{"code": "a + b", "function": "f"}]}))
    assert (facts[Torch].version, facts[Torch].cuda, facts[Torch].archs) == ("2.9.0+cu128", "12.8", ("sm_80", "sm_90"))
    assert facts[Operands].memory[0].allocated == 5
    assert Torch not in read(json.dumps({"what": "failure", "torch": {**torch, "cuda": None}}))


KEYS = st.sampled_from(["device", "class", "memory", "code", "what", "cuda:0"])
WORDS = st.text(max_size=8) | st.sampled_from(["cpu", "cuda:0", "input"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
NAMES = "owner name device dtype shape bytes held of role frame devices module torch optimizer frames unlooked managed"
ROW = st.dictionaries(st.sampled_from(NAMES.split()), JSON)


@given(st.sampled_from(["objects", "failure", 3, None]), st.lists(ROW, max_size=4), ROW)
@settings(max_examples=150, deadline=None)
def test_any_json_is_read_or_passed_over(what: Any, rows: list[dict[str, Any]], head: dict[str, Any]) -> None:
    for row in rows:
        row.setdefault("owner", "operand")
    facts = read("\n".join(json.dumps(row) for row in [{**head, "what": what}, *rows]))
    if Objects in facts:
        fact = facts[Objects]
        assert isinstance(fact.table(), list)
        assert len([*fact.astray(), *fact.escaped(), *fact.plain_astray(), *fact.inputs_astray()]) <= 4 * len(rows)
    if Operands in facts:
        facts[Operands].odd()


@given(st.text(max_size=200))
def test_any_text_is_passed_over(text: str) -> None:
    read(text)
    read('{"what": "objects"}\n' + text)
