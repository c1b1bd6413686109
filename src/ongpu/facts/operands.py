"""What is known of the tensors and modules that a failing line used, as they were when it failed."""

import re

from ongpu.facts.mismatch import Mismatch
from ongpu.facts.objects import FLOATS, CardMemory, on_host
from ongpu.lazy import dataclass
from ongpu.model import Certainty, Fact, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One name in a failing line. frame: 0 is the innermost of the user's own. device: of a module, that of most of its weights.

    role: "argument", "local", "global", "attribute" or "module". registered: a parameter or buffer of its module. listed: a
    module that stands in a plain list, tuple or dict.
    """

    name: str
    role: str
    frame: int
    device: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    module: str = ""
    registered: bool = False
    listed: bool = False
    ref: Ref


@dataclass(frozen=True, kw_only=True)
class Operands(Fact):
    """The names in the failing lines. codes, functions: the lines themselves and where they stand, the innermost first.

    held: (device, owner, bytes) of the modules and optimizers that the frames know, off the host.
    """

    operands: tuple[Operand, ...] = ()
    codes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    memory: tuple[CardMemory, ...] = ()
    held: tuple[tuple[str, str, int], ...] = ()

    def odd(self) -> tuple[tuple[Operand, ...], str] | None:
        """(the operands on the host, the device of the others) in the innermost line where the two meet; scalars may."""
        for frame in range(len(self.codes)):
            here = [o for o in self.operands if o.frame == frame and o.shape != () and o.device]
            host = tuple(o for o in here if on_host(o.device))
            others = [o.device for o in here if not on_host(o.device)]
            if host and others:
                return host, others[0]
        return None


def cause(found: Mismatch, operands: Operands | None) -> tuple[str, Certainty]:
    """The slug of the likeliest cause, and how sure: by the operands themselves where they were seen, else by words and frames."""
    slug, certainty = found.suspect
    odd = operands.odd() if operands and slug != "optimizer-before-move" and found.odd not in ("lengths", "generator") else None
    if operands is None or odd is None:
        return slug, certainty
    first = odd[0][0]
    if first.role == "module" and first.module.endswith("Loss"):  # its class weights, a buffer
        return "tensor-created-on-cpu", Certainty.CERTAIN
    if first.role == "module":
        return ("module-not-registered" if first.listed else "model-not-moved"), Certainty.CERTAIN
    if first.role == "attribute":
        return ("model-not-moved" if first.registered else "tensor-created-on-cpu"), Certainty.CERTAIN
    if first.role == "argument" or _given(first, operands):
        return "input-not-moved", Certainty.LIKELY
    if operands.functions[first.frame] in ("forward", "training_step", "validation_step"):
        return "tensor-created-on-cpu", Certainty.LIKELY
    return slug, certainty


def _given(operand: Operand, operands: Operands) -> bool:
    """Whether the line gives it to a module: "net(x)"."""
    code, name = operands.codes[operand.frame], re.escape(operand.name)
    modules = [o.name for o in operands.operands if o.module and o.frame == operand.frame]
    return any(re.search(rf"{re.escape(module)}\([^()\n]{{0,200}}{name}(?!\w)", code) for module in modules)


def sides(found: Mismatch, operands: Operands | None) -> tuple[str, str]:
    """(where the odd one sits, where the others do): as seen, else as the message says."""
    odd = operands.odd() if operands else None
    return (odd[0][0].device, odd[1]) if odd else (found.odd_on or "cpu", found.other_on or "cuda:0")


def seen(operands: Operands | None) -> tuple[Ref, ...]:
    """The lines that tell of the operands where two devices meet: those on the host first."""
    odd = operands.odd() if operands else None
    if operands is None or odd is None:
        return ()
    frame = odd[0][0].frame
    others = tuple(o.ref for o in operands.operands if o.frame == frame and o.device and not on_host(o.device))
    return (*(o.ref for o in odd[0][:3]), *others[:3])


def seen_types(operands: Operands | None) -> tuple[Ref, ...]:
    """The lines that tell of the operands where two floating types meet, in the innermost line where they do."""
    for frame in range(len(operands.codes) if operands else 0):
        here = [o for o in operands.operands if o.frame == frame and o.dtype in FLOATS] if operands else []
        if len({o.dtype for o in here}) > 1:
            return tuple(o.ref for o in here[:4])
    return ()
