"""What is known about tensors on different devices, and who is to blame for it."""


from ongpu.facts.code import Raised
from ongpu.lazy import dataclass, lazy
from ongpu.model import Certainty, Fact

_OPTIMIZER = ("/optim/", "optimizer.step", "optim.step", "opt.step(", "optimizers/", "scaler.step", "\\optim\\", "deepspeed/ops/adam")
_LOADING = ("torch/serialization.py", "load_state_dict", "load_checkpoint")
_LIST = lazy(r"self\.\w+\[[^\]]+\]\(|for \w+(?:, ?\w+)? in (?:enumerate\(|zip\()?self\.\w+")
_LAYER = lazy(r"\bnn\.[A-Z]\w+\([^()]*\)(?:\.\w+\([^()]*\))?\(")
_ASSIGN = lazy(r"^\s*[\w.,\[\] ]{1,80}=(?!=)")
_SAMPLER = ("utils/data/sampler.py", "randperm", "random_split", "utils/data/dataset.py", "dataloader.py")
_MADE = lazy(
    r"\b(?:torch|np|numpy)\.(?:zeros|ones|arange|tensor|rand\w*|full|eye|empty|linspace|from_numpy|triu|tril"
    r"|FloatTensor|LongTensor|Tensor|as_tensor)\b"
)
_COMBINES = lazy(
    r"[-+*/&|@<>]|\bcat\b|\bstack\b|\bwhere\b|masked_fill|\[[^\]]+\]|matmul|gather|scatter|\badd\b|\bmul\b"
)
_LOSS = ("torch/nn/modules/loss.py", "criterion(", "loss_fn(", "cross_entropy", "nll_loss", "criterion_", "loss_func")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One complaint about tensors on two devices (or of two types).

    odd: what stands apart, in the message's words: "input", "weight", "index", "target", "hidden", "lengths" ...; None
    where it does not say. odd_on, other_on: "cpu", "cuda:0" ... of that tensor and of the others.
    """

    odd: str | None
    odd_on: str | None
    other_on: str | None
    method: str | None  # the operation: "addmm", "index_select"
    raised: Raised

    @property
    def suspect(self) -> tuple[str, Certainty]:
        """The slug of the likeliest cause, and how sure the words and the frames make it."""
        return _suspect(self)

    @property
    def line(self) -> str:
        """The user's own line where it happened, "" where it is not known."""
        own = self.raised.own()
        return own[-1].code if own else ""

    @property
    def two_gpus(self) -> bool:
        """Whether both devices are GPUs."""
        return all((on or "cpu").startswith("cuda:") for on in (self.odd_on,
        self.other_on)) and self.odd_on != self.other_on


@dataclass(frozen=True, kw_only=True)
class Mismatches(Fact):
    """The complaints about devices, in order."""

    found: tuple[Mismatch, ...] = ()


def _in_optimizer(raised: Raised) -> bool:
    """Whether it happened in an optimizer's step, and not in a closure that the step called (Lightning, LBFGS)."""
    frame = raised.through(*_OPTIMIZER)
    if frame is None:  # an optimizer of another package: its own step is where it stopped
        last = raised.frames[-1] if raised.frames else None
        return last is not None and last.library and "optim" in last.file.lower() and last.function.startswith(("step", "_step"))
    inner = raised.frames[len(raised.frames) - raised.frames[::-1].index(frame) :]
    return not any(not later.library or "closure" in later.function for later in inner)


def _suspect(mismatch: Mismatch) -> tuple[str, Certainty]:
    raised, odd = mismatch.raised, mismatch.odd
    likely, possible, certain = Certainty.LIKELY, Certainty.POSSIBLE, Certainty.CERTAIN
    if odd == "lengths":
        return "device-mismatch", certain
    if odd == "generator":
        stray = raised.frames and not raised.through(*_SAMPLER)
        return ("device-mismatch", likely) if stray else ("default-device-cuda", likely)
    if odd == "optimizer state" or _in_optimizer(raised):
        return "optimizer-before-move", likely
    if mismatch.two_gpus:
        return "device-mismatch", likely
    if odd == "weight":
        own = " ".join(frame.code for frame in raised.own()[-3:])
        if _LAYER.search(own):
            return "tensor-created-on-cpu", likely
        return ("module-not-registered", likely) if _LIST.search(own) else ("model-not-moved", likely)
    if odd in ("input", "target", "xgboost input", "output"):
        if _MADE.search(mismatch.line):
            return "tensor-created-on-cpu", likely
        return ("model-not-moved", possible) if odd == "output" else ("input-not-moved", likely)
    if odd in ("hidden", "class weight", "condition", "tensors", "mask", "collective", "indexed"):
        return "tensor-created-on-cpu", likely
    if odd and odd.startswith("feature"):
        return "input-not-moved", likely
    return _by_frames(mismatch)


def _by_frames(mismatch: Mismatch) -> tuple[str, Certainty]:
    """Where the message names no argument, the line where it happened tells most."""
    raised, line = mismatch.raised, mismatch.line
    if raised.through(*_LOSS) and not _MADE.search(line):
        return "input-not-moved", Certainty.LIKELY
    own = raised.own()
    in_library = bool(raised.frames) and raised.frames[-1].library
    if line and (_MADE.search(line) or (_COMBINES.search(_ASSIGN.sub("", line)) and not in_library)):
        return "tensor-created-on-cpu", Certainty.LIKELY
    if own and any("forward" in frame.function for frame in own[-2:]) and _COMBINES.search(line):
        return "tensor-created-on-cpu", Certainty.LIKELY
    return "device-mismatch", Certainty.LIKELY
