"""What is read of live objects: everything by name and device, nothing computed, no framework imported."""

import json
import sys
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
from parts.ducks import ASKED, Module, Optimizer, Parameter, Tensor, linear, weights

from ongpu.probes import objects


def told(model: Any, batch: Any = None, optimizer: Any = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The first line and the others."""
    head, *rows = [json.loads(line) for line in objects.describe(model, batch, optimizer).splitlines()]
    return head, rows


def places(rows: list[dict[str, Any]], owner: str) -> dict[str, str]:
    """{name: device} of an owner."""
    return {row["name"]: row["device"] for row in rows if row["owner"] == owner}


def test_parameters_and_buffers_of_nested_modules() -> None:
    head, rows = told(Module(encoder=linear("cuda:0"), head=linear("cpu"), buffers={"mean": Tensor(3, on="cuda:0")}))
    assert places(rows, "parameter") == {
        "encoder.weight": "cuda:0",
        "encoder.bias": "cuda:0",
        "head.weight": "cpu",
        "head.bias": "cpu",
    }
    assert places(rows, "buffer") == {"mean": "cuda:0"}
    assert (head["model"], head["training"], head["left_off"], head["unlooked"]) == ("Module", True, 0, [])
    assert next(row for row in rows if row["name"] == "head.weight")["bytes"] == 64


def test_tied_weights_are_told_once() -> None:
    weight = Parameter(4, 4)
    rows = told(Module(a=Module(weight=weight), b=Module(weight=weight)))[1]
    assert list(places(rows, "parameter")) == ["a.weight"]


def test_what_escapes_registration() -> None:
    model = Module(
        fc=linear(),
        plain={
            "layers": [linear(), linear()],
            "heads": {"a": linear()},
            "scale": Parameter(1),
            "mask": Tensor(4, 4),
            "w": Tensor(2, requires_grad=True),
        },
    )
    rows = told(model)[1]
    assert set(places(rows, "unregistered")) == {
        "layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias", "heads['a'].weight", "heads['a'].bias", "scale", "w",
    }  # fmt: skip
    assert places(rows, "plain") == {"mask": "cpu"}
    kinds = {row["name"]: row["kind"] for row in rows if "kind" in row}
    assert (kinds["layers[0].bias"], kinds["scale"], kinds["w"], kinds["mask"]) == ("module", "parameter", "tensor", "tensor")


def test_a_list_of_registered_modules_has_not_escaped() -> None:
    one, two = linear(), linear()
    assert not places(told(Module(one=one, two=two, plain={"order": [two, one], "_flat": [one._parameters["weight"]]}))[1], "unregistered")


def test_weights_that_a_hook_computes_are_passed_over() -> None:
    model = Module(weight_g=Parameter(1), weight_v=Parameter(4), plain={"weight": Tensor(4)})
    assert not places(told(model)[1], "plain")


def test_circles_end() -> None:
    model = Module(fc=linear())
    model.__dict__["parent"] = [model]
    model._modules["again"] = model
    loop: list[Any] = []
    loop.append(loop)
    assert len(told(model, loop)[1]) == 2


Pair = namedtuple("Pair", "image label")


@dataclass
class Sample:
    image: Tensor
    name: str = "x"


class Batch:
    def __init__(self) -> None:
        self.edge_index = Tensor(2, 5)
        self.store = {"x": Tensor(3)}


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        (Tensor(2), ["batch"]),
        ([Tensor(2), [Tensor(3)]], ["batch[0]", "batch[1][0]"]),
        ({"ids": Tensor(2), "text": ["a"], "n": 3}, ["batch['ids']"]),
        (OrderedDict(a=(Tensor(1),)), ["batch['a'][0]"]),
        (UserDict(mask=Tensor(2)), ["batch['mask']"]),
        (Pair(Tensor(1), Tensor(2)), ["batch.image", "batch.label"]),
        (Sample(Tensor(1)), ["batch.image"]),
        (Batch(), ["batch.edge_index", "batch.store['x']"]),
        (None, []),
        ("text", []),
        (lambda: 0, []),
    ],
)
def test_nested_batches(batch: Any, names: list[str]) -> None:
    assert list(places(told(Module(), batch)[1], "input")) == names


def test_optimizer_state_and_who_is_held() -> None:
    model = Module(body=linear("cuda:0"), head=linear("cuda:0"))
    head, rows = told(model, None, Optimizer(*weights(model._modules["body"]), state_on="cpu"))
    assert head["optimizer"]["missing"] == ["head.weight", "head.bias"]
    assert (head["optimizer"]["held"], head["optimizer"]["strangers"], head["optimizer"]["twins"]) == (2, 0, 0)
    assert places(rows, "optimizer")["body.weight['exp_avg']"] == "cpu"
    assert {row["of"] for row in rows if row["owner"] == "optimizer"} == {"cuda:0"}


def test_replaced_parameters_are_strangers_of_the_same_shape() -> None:
    model = linear("cuda:0")
    head = told(model, None, Optimizer(Parameter(4, 4), Parameter(4)))[0]["optimizer"]
    assert (head["missing_count"], head["strangers"], head["twins"], head["strangers_on"]) == (2, 2, 2, ["cpu"])


def test_several_and_wrapped_optimizers() -> None:
    class Wrapper:
        def __init__(self, optimizer: Any) -> None:
            self.optimizer = optimizer

    model = linear()
    one, two = (Wrapper(Optimizer(p)) for p in weights(model))
    assert told(model, None, [one, two])[0]["optimizer"]["missing"] == []


def test_several_models() -> None:
    rows = told({"g": linear(), "d": [linear()]})[1]
    assert set(places(rows, "parameter")) == {"['g'].weight", "['g'].bias", "['d'][0].weight", "['d'][0].bias"}


def test_other_frameworks_are_said_not_to_be_looked_at() -> None:
    keras = type("Functional", (), {"__module__": "keras.src.models.functional"})()
    array = type("ArrayImpl", (), {"__module__": "jaxlib.xla_extension"})()
    head, rows = told(keras, {"x": array}, object())
    assert head["unlooked"] == [
        {"what": "model", "framework": "Keras"},
        {"what": "batch['x']", "framework": "JAX"},
        {"what": "optimizer", "framework": "object"},
    ]
    assert not rows
    assert head["model"] is None
    assert not {"torch", "jax", "keras", "tensorflow"} & set(sys.modules)


def test_numpy_arrays_are_inputs_on_the_cpu() -> None:
    array = type("ndarray", (), {"__module__": "numpy", "dtype": "float64", "shape": (2, 3), "device": "cpu"})()
    (row,) = told(Module(), [array])[1]
    assert (row["array"], row["device"], row["dtype"]) == ("numpy", "cpu", "float64")


def test_an_object_that_refuses_every_question_stops_nothing() -> None:
    class Evil(Tensor):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    rows = told(Module(fc=linear(), buffers={"evil": Evil.__new__(Evil)}), [Evil.__new__(Evil)])[1]
    assert len(places(rows, "parameter")) == 2
    assert places(rows, "buffer") == {"evil": "?"}


def test_many_tensors_are_counted_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "MAX_ROWS", 5)
    head, rows = told(None, [Tensor(1) for _ in range(12)])
    assert (len(rows), head["left_off"]) == (5, 7)


def test_who_places_the_parts() -> None:
    hooked = linear("cuda:0", plain={"_hf_hook": object()})
    assert told(hooked)[0]["managed"] == ["accelerate"]
    assert told(hooked)[0]["moves_inputs"] is True
    parallel = type("DistributedDataParallel", (Module,), {"__module__": "torch.nn.parallel.distributed"})
    assert told(parallel(module=linear(), plain={"device_ids": [0]}))[0]["moves_inputs"] is True
    assert told(parallel(module=linear(), plain={"device_ids": None}))[0]["moves_inputs"] is False


def test_no_tensor_is_asked_to_do_anything() -> None:
    ASKED.clear()
    model = Module(fc=linear(), plain={"mask": Tensor(3)}, buffers={"mean": Tensor(3)})
    told(model, {"x": Tensor(3)}, Optimizer(*weights(model), state_on="cpu"))
    assert {"untyped_storage"} >= ASKED  # tells who shares memory with whom; see test_real_objects for the real proof
