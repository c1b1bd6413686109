"""Ways to use the GPU that PyTorch has replaced."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.values import Const
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text


def check(program: Program) -> Iterator[Finding]:
    for script in program.scripts:
        yield from _in_source(script)


# What replaces it, and since which release: the deprecation notes in torch/cuda/amp/*.py and torch/__init__.py.
NEW = {
    "torch.cuda.amp.autocast": ('torch.amp.autocast("cuda", ...)', "2.4"),
    "torch.cuda.amp.GradScaler": ('torch.amp.GradScaler("cuda", ...)', "2.4"),
    "torch.set_default_tensor_type": ("torch.set_default_device() and torch.set_default_dtype()", "2.1"),
    "torch.cuda.LongTensor": ("torch.tensor(..., dtype=torch.long, device='cuda')", "0.4"),
    "torch.cuda.FloatTensor": ("torch.tensor(..., device='cuda')", "0.4"),
}


def _in_source(script: Script) -> Iterator[Finding]:
    """Calls of functions that warn, or are gone; `volatile` does nothing since 0.4."""
    told: set[str] = set()
    for call in distinct(script.calls(*NEW)):
        new, since = NEW[call.name]
        edits = _renamed(call)
        if edits or call.name not in told:
            told.add(call.name)
            yield _finding(call, call.name, new, since, edits)
    for call in distinct(script.calls("torch.autograd.Variable")):
        if isinstance((call.kw or {}).get("volatile"), Const) and "volatile" not in told:
            told.add("volatile")
            yield _finding(call, "volatile=True", "with torch.no_grad():", "0.4", ())


def _finding(call: Event, old: str, new: str, since: str, edits: tuple[Edit, ...]) -> Finding:
    return Finding(
        certainty=Certainty.CERTAIN, subject=call.words(), values={"old": old, "new": new, "since": since, "line": call.line}, refs=(call.ref(),), edits=edits
    )


def _renamed(call: Event) -> tuple[Edit, ...]:
    """torch.cuda.amp.X(...) as torch.amp.X("cuda", ...), where it is written out in full."""
    if not call.name.startswith("torch.cuda.amp.") or ast.unparse(call.call.func) != call.name:
        return ()
    named = call.file.replace(call.call.func, call.name.replace(".cuda.", "."))
    if call.call.args:
        return ()  # the new one takes its arguments in another order
    return (named, call.file.argument(call.call, 'device_type="cuda"' if call.name.endswith("autocast") else 'device="cuda"'))


RULE = Rule(
    slug="deprecated-gpu-api",
    layer=Layer.CODE,
    severity=Severity.NOTE,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/amp.html", "https://docs.pytorch.org/docs/stable/generated/torch.set_default_tensor_type.html"),
    en=Text(
        title="{old} is deprecated since PyTorch {since}",
        why="It still works or is ignored silently, warns at each start, and will go in a later release.",
        fix="Write {new}.",
    ),
    zh=Text(
        title="{old} 自 PyTorch {since} 起已弃用",
        why="它目前仍可用或被静默忽略，每次启动都会警告，今后的版本会去掉。",
        fix="改用 {new}。",
    ),
)
