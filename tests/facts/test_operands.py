"""Which cause the operands of a failing line show."""

import pytest

from ongpu.facts.code import Raised
from ongpu.facts.mismatch import Mismatch
from ongpu.facts.operands import Operand, Operands, cause
from ongpu.model import Ref


def seen(name: str, role: str, device: str, **more: object) -> Operand:
    return Operand(name=name, role=role, frame=0, device=device, ref=Ref("dry run", 1, name), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operand", "function", "slug"),
    [
        (seen("criterion", "module", "cpu", module="CrossEntropyLoss"), "<module>", "tensor-created-on-cpu"),
        (seen("net", "module", "cpu", module="Net"), "<module>", "model-not-moved"),
        (seen("self.scale", "attribute", "cpu", shape=(16,)), "forward", "tensor-created-on-cpu"),
        (seen("noise", "local", "cpu", shape=(16,)), "training_step", "tensor-created-on-cpu"),
        (seen("x", "argument", "cpu", shape=(16,)), "forward", "input-not-moved"),
    ],
)
def test_the_operand_names_the_cause(operand: Operand, function: str, slug: str) -> None:
    raised = Raised(error="RuntimeError", message="", ref=Ref("traceback", 1, ""))
    found = Mismatch(odd="weight", odd_on="cpu", other_on="cuda:0", method=None, raised=raised)
    other = seen("y", "local", "cuda:0", shape=(16,))
    assert cause(found, Operands(operands=(operand, other), codes=("loss = f(x)",), functions=(function,)))[0] == slug
