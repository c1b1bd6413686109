"""What a traceback lacks: the names of the failing line, where they sit, what they are to the function."""

import json
from collections.abc import Callable
from typing import Any

from parts.ducks import Module, Optimizer, Tensor, linear, weights

from ongpu.probes import operands


def told(fail: Callable[[], Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The first line, and the rows by name (of the innermost frame where several have it)."""
    try:
        fail()
    except RuntimeError as error:
        head, *rows = [json.loads(line) for line in operands.describe(error.__traceback__).splitlines()]
        return head, {row["name"]: row for row in reversed(rows)}
    raise AssertionError("nothing was raised")


def stop(*_: Any, **__: Any) -> Any:
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices")


class Net(Module):
    __module__ = "train"

    def forward(self, x: Any, *more: Any, scale: Any = None) -> Any:
        made = Tensor(4)
        batch = {"y": Tensor(2)}
        other = Tensor(1)
        del other
        return self.stop(self.fc(x), self.mask, self.layers, made, more, batch["y"], scale)

    def __getattr__(self, name: str) -> Any:  # as torch finds registered parts
        for table in ("_modules", "_buffers", "_parameters"):
            if name in self.__dict__[table]:
                return self.__dict__[table][name]
        raise AttributeError(name)


def net() -> Any:
    fc = linear("cuda:0")
    fc.__class__ = type("Linear", (Module,), {"__call__": lambda self, x: x, "__module__": "torch"})
    return Net(fc=fc, buffers={"mask": Tensor(4, on="cuda:0")}, plain={"stop": stop, "layers": [linear("cpu")]})


def test_roles_and_devices() -> None:
    head, rows = told(lambda: net().forward(Tensor(2, on="cuda:0"), Tensor(5), scale=Tensor(6)))
    assert {name: (row["role"], row.get("device") or row["devices"]) for name, row in rows.items() if row["frame"] == 1} == {
        "self.fc": ("module", {"cuda:0": 80}),
        "x": ("argument", "cuda:0"),
        "self.mask": ("attribute", "cuda:0"),
        "self.layers[0]": ("module", {"cpu": 80}),
        "made": ("local", "cpu"),
        "more[0]": ("argument", "cpu"),
        "batch[\"y\"]": ("local", "cpu"),
        "scale": ("argument", "cpu"),
    }
    assert rows["self.mask"]["registered"] is True
    assert (rows["self.layers[0]"]["listed"], rows["self.fc"]["listed"]) == (True, False)
    assert [frame["function"] for frame in head["frames"]][:2] == ["stop", "forward"]
    assert head["frames"][1]["code"].startswith("return self.stop(self.fc(x)")


def test_a_statement_of_several_lines() -> None:
    a, b = Tensor(1, on="cuda:0"), Tensor(2)

    def fail() -> None:
        stop(
            a,
            b,
        )

    assert {"a", "b"} <= set(told(fail)[1])


def test_frames_of_libraries_are_passed_over() -> None:
    code = compile("def inner(x):\n    stop(x)\n", "/venv/lib/python3.11/site-packages/torch/nn/functional.py", "exec")
    space: dict[str, Any] = {"stop": stop}
    exec(code, space)
    head, _ = told(lambda: space["inner"](Tensor(1)))
    assert "inner" not in [frame["function"] for frame in head["frames"]]


def test_no_property_of_the_users_is_run() -> None:
    class Lazy(Module):
        @property
        def weight(self) -> Any:
            raise AssertionError("a property was run")

    model = Lazy()
    rows = told(lambda: stop(model, getattr(model, "none", None) or "model.weight"))[1]
    assert set(rows) <= {"model"}


def test_no_traceback() -> None:
    assert json.loads(operands.describe(None))["frames"] == []


def test_who_holds_the_memory() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = Module(a=linear("cuda:0"), b=linear("cpu"))
            self.model._modules["a"]._parameters["weight"].grad = Tensor(4, 4, on="cuda:0")
            self.optimizer = Optimizer(*weights(self.model), state_on="cuda:0")

        def step(self) -> None:
            head = self.model._modules["a"]
            stop(head)

    head = told(Trainer().step)[0]
    # weight and bias; the gradient; the moments of both layers (their step counters are on the host)
    assert head["held"] == {"cuda:0": {"parameter": 80, "gradient": 64, "optimizer": 160}}
