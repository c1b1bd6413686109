"""Live objects, healthy and faulty: what each rule says of them, and that it is silent where nothing is wrong."""

from typing import Any

import pytest
from asking import explain, live, looked_at
from parts.ducks import Module, Optimizer, Parameter, Tensor, linear, weights

from ongpu.model import Certainty, Severity, Verdict

GPU = "cuda:0"
CARD = {"device": GPU, "name": "NVIDIA H100", "total": 85_000_000_000, "capability": [9, 0], "allocated": 1000, "reserved": 2000}


def model(on: str = GPU, **more: Any) -> Module:
    return Module(body=linear(on), head=linear(on), **more)


def batch(on: str = GPU) -> dict[str, Any]:
    return {"x": Tensor(2, 4, on=on), "labels": Tensor(2, on=on, dtype="int64"), "n": 3}


class TestHealthy:
    def test_all_on_one_gpu(self) -> None:
        net = model(buffers={"mean": Tensor(4, on=GPU)})
        report = looked_at(net, batch(), Optimizer(*weights(net), state_on=GPU), gpus=1)
        assert report.verdict is Verdict.CLEAR
        assert not report.findings

    @pytest.mark.parametrize(
        "more",
        [
            {"plain": {"count": Tensor(), "names": ["a"], "size": 3}},  # a scalar may stay
            {"plain": {"cached": [Tensor(4, on=GPU)]}},
            {"plain": {"example_input_array": Tensor(2, 4)}},  # Lightning's
            {"plain": {"teacher": [Module(weight=Parameter(4, on=GPU, requires_grad=False))]}},  # frozen and hidden on purpose
        ],
    )
    def test_what_may_be_so(self, more: dict[str, Any]) -> None:
        assert live(model(**more), batch(), gpus=1) == []

    @pytest.mark.parametrize("name", ["lengths", "seq_lens", "batch_sizes", "idx", "ids"])
    def test_inputs_that_belong_on_the_cpu(self, name: str) -> None:
        assert live(model(), {**batch(), name: Tensor(2)}, gpus=1) == []

    def test_a_model_that_accelerate_spreads(self) -> None:
        net = Module(body=linear(GPU, plain={"_hf_hook": 1}), head=linear("cpu"), plain={"_hf_hook": 1})
        assert live(net, batch("cpu"), gpus=1) == []

    def test_data_parallel_moves_its_inputs(self) -> None:
        parallel = type("DataParallel", (Module,), {"__module__": "torch.nn.parallel.data_parallel"})
        assert live(parallel(module=model()), batch("cpu"), gpus=2) == []

    def test_lightning_moves_the_model_itself(self) -> None:
        kind = type("LightningModule", (Module,), {"__module__": "lightning.pytorch.core.module"})
        assert live(type("Mine", (kind,), {})(body=linear("cpu")), batch("cpu"), gpus=1) == []

    def test_model_parallel_by_hand(self) -> None:
        assert live(Module(a=linear("cuda:0"), b=linear("cuda:1")), batch(), gpus=2) == []

    def test_two_optimizers_of_two_models(self) -> None:
        one, two = model(), model()
        assert live({"g": one, "d": two}, None, [Optimizer(*weights(one)), Optimizer(*weights(two))], gpus=1) == []

    def test_autocast_brings_types_together(self) -> None:
        assert live(linear(GPU, "bfloat16"), batch(), gpus=1, autocast=True) == []

    def test_labels_may_be_double(self) -> None:
        assert live(model(), (Tensor(2, 4, on=GPU), Tensor(2, on=GPU, dtype="float64")), gpus=1) == []


class TestUnknown:
    def test_no_gpu_to_be_seen(self) -> None:
        report = looked_at(model("cpu"), batch("cpu"), gpus=0)
        assert report.verdict is Verdict.UNKNOWN
        assert "this process sees no GPU" in report.unknown[0].because

    def test_another_framework(self) -> None:
        keras = type("Sequential", (), {"__module__": "keras.src.models"})()
        report = looked_at(keras)
        assert report.verdict is Verdict.UNKNOWN
        assert "Keras" in report.unknown[0].because


def test_model_not_moved() -> None:
    report = looked_at(model("cpu"), batch("cpu"), gpus=2)
    assert [(f.slug, f.variant, f.certainty) for f in report.findings] == [("model-not-moved", "live", Certainty.LIKELY)]
    assert live(model("cpu"), batch(), gpus=1) == ["model-not-moved"]


@pytest.mark.parametrize("on", ["cpu", "meta"])
def test_model_partly_moved(on: str) -> None:
    net = Module(body=linear(GPU), head=linear(on))
    (found,) = looked_at(net, batch(), gpus=1).findings
    assert (found.slug, found.variant, found.values["names"]) == ("model-not-moved", "partly", "head.weight, head.bias")
    assert found.refs[0].quote == f"head.weight: {on}, float32 [4, 4]"


def test_input_not_moved() -> None:
    (found,) = looked_at(model(), batch("cpu"), gpus=1).findings
    assert (found.slug, found.values["what"]) == ("input-not-moved", "batch['x'], batch['labels']")
    assert live(model(), [Tensor(2, 4, on="cuda:1")], gpus=2) == ["input-not-moved"]


def test_module_not_registered() -> None:
    hidden = model(plain={"extra": [linear("cpu")]})
    found = looked_at(hidden, gpus=1).findings[0]
    assert (found.slug, found.values["names"], found.certainty) == ("module-not-registered", "extra[0]", Certainty.CERTAIN)
    assert live(model("cpu", plain={"extra": {"a": linear("cpu")}}), gpus=0) == ["module-not-registered"]
    assert live(model(plain={"w": Parameter(3, on=GPU)}), gpus=1) == ["module-not-registered"]


def test_what_the_optimizer_holds_though_unregistered_is_trained() -> None:
    extra = linear(GPU)
    net = model(plain={"extra": [extra]})
    assert live(net, None, Optimizer(*weights(net), *weights(extra)), gpus=1) == []


def test_tensor_as_a_mere_attribute() -> None:
    report = looked_at(model(plain={"mask": Tensor(4, 4)}), batch(), gpus=1)
    assert [(f.slug, f.weight) for f in report.findings] == [("tensor-created-on-cpu", Severity.WARNING)]
    before = looked_at(model("cpu", plain={"mask": Tensor(4, 4)}), gpus=0)
    assert [(f.slug, f.weight) for f in before.findings] == [("tensor-created-on-cpu", Severity.NOTE)]


def test_optimizer_before_move() -> None:
    net = model()
    assert live(net, None, Optimizer(*weights(net), state_on="cpu"), gpus=1) == ["optimizer-before-move"]
    stale = looked_at(net, None, Optimizer(*weights(model("meta"))), gpus=1).findings[0]
    assert (stale.slug, stale.variant, stale.certainty) == ("optimizer-before-move", "stale", Certainty.CERTAIN)
    missing = looked_at(net, None, Optimizer(*weights(net._modules["body"])), gpus=1).findings[0]
    assert (missing.variant, missing.certainty) == ("missing", Certainty.POSSIBLE)


def test_dtype_mismatch() -> None:
    found = looked_at(model(), [Tensor(2, 4, on=GPU, dtype="float64")], gpus=1).findings[0]
    assert (found.slug, found.values["want"], found.values["got"]) == ("dtype-mismatch", "float32", "float64")
    assert live(linear(GPU, "float16"), batch(), gpus=1) == ["dtype-mismatch"]


def test_no_mixed_precision_is_a_note() -> None:
    net = model()
    state = {"gpus": 1, "precision": "highest", "autocast": False, "memory": [CARD]}
    report = looked_at(net, batch(), Optimizer(*weights(net)), **state)
    assert [(f.slug, f.weight) for f in report.findings] == [("no-mixed-precision", Severity.NOTE)]
    assert not looked_at(net, batch(), Optimizer(*weights(net)), **{**state, "precision": "high"}).findings
    assert not looked_at(net, batch(), Optimizer(*weights(net)), **{**state, "memory": [{**CARD, "capability": [6, 1]}]}).findings


def test_words_in_both_languages() -> None:
    net = model(plain={"mask": Tensor(4, 4), "extra": [linear("cpu")]})
    report = looked_at(net, [Tensor(2, 4, dtype="float64")], Optimizer(*weights(model("meta"))), gpus=1)
    assert len(report.findings) + len(report.hidden) >= 4
    for finding in (*report.findings, *report.hidden):
        for lang in ("en", "zh"):
            text = finding.text(lang)
            assert "unknown" not in text.title + text.why
            assert "未知" not in text.title + text.why


def test_without_live_objects_nothing_changes() -> None:
    report = explain("RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0!")
    assert [f.slug for f in report.findings] == ["device-mismatch"]
