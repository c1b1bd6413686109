"""NumPy is asked to read a tensor that lies on the GPU."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CUDA, MAYBE, Items, Tensor
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, traceback: Traceback | None, program: Program | None) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    if symptoms is None or not symptoms.has("numpy-on-cuda"):
        return
    raised = traceback.said("to numpy", "numpy array") if traceback else None
    own = raised.own() if raised else ()
    cupy = any("Implicit conversion" in hit.ref.quote for hit in symptoms.seen("numpy-on-cuda"))
    yield Finding(
        variant="cupy" if cupy else "",
        values={"line": own[-1].code if own else "?"},
        refs=(*symptoms.cite("numpy-on-cuda"), *(raised.cite() if raised else ())),
    )


NUMPY = ("numpy.array", "numpy.asarray", "numpy.concatenate", "numpy.stack", "numpy.mean", "numpy.argmax", "numpy.save")
READERS = ("sklearn.metrics.*", "matplotlib.pyplot.plot", "matplotlib.pyplot.imshow", "matplotlib.pyplot.hist", "matplotlib.pyplot.scatter")


def _in_source(script: Script) -> Iterator[Finding]:
    """Tensors on CUDA, or with a graph, that NumPy is to read."""
    if script.says(".data[0]"):
        return  # of PyTorch before 0.4, where that was a number
    for call in distinct(script.calls(".numpy", ".__array__", *NUMPY, *READERS)):
        read = call.receiver if call.name.startswith(".") else _astray(call)
        if isinstance(read, Tensor) and read.where in (CUDA, MAYBE) and call.says("force", False) is False and not _host_only(call):
            copy = ".detach().cpu()" if read.graph else ".cpu()"
            asked = call.call.func  # x.numpy: the copy goes behind the x
            yield Finding(
                subject=call.words(),
                certainty=Certainty.LIKELY,
                variant="source",
                values={"code": call.words(60), "line": call.line, "copy": copy},
                refs=(call.ref(),),
                edits=(call.file.after(asked.value, copy),) if call.name == ".numpy" and isinstance(asked, ast.Attribute) else (),
            )


def _astray(call: Event) -> Tensor | None:
    """The argument on CUDA, if any: itself, or what a list holds (of one's own tensors, not of numbers)."""
    for given in call.args[: 2 if call.name.startswith(("sklearn", "matplotlib")) else 1]:
        held = given.items[0] if isinstance(given, Items) and given.items and given.uniform else given
        if isinstance(held, Tensor) and held.where in (CUDA, MAYBE):
            return held
    return None


def _host_only(call: Event) -> bool:
    """Whether it is reached only where there is no CUDA."""
    return any(guard.kind == "cuda" for guard in call.at.guards)


RULE = Rule(
    slug="numpy-on-cuda-tensor",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html",),
    en=Text(
        title="A NumPy function was given a tensor that is on the GPU",
        why="NumPy reads host memory only, and PyTorch does not copy silently. The conversion may be hidden: np.sum, np.array, np.mean, matplotlib, sklearn or pandas call .__array__ on the tensor.{line: The line: *}",
        fix="Stay in torch where gradients are needed (torch.stack(list).sum(), not np.sum). For reporting: x.detach().cpu().numpy(), or x.item() for a scalar.",
    ),
    zh=Text(
        title="把 GPU 上的张量交给了 NumPy 函数",
        why="NumPy 只能读主机内存，PyTorch 不会悄悄复制。转换可能藏在别处：np.sum、np.array、np.mean、matplotlib、sklearn、pandas 都会调用张量的 .__array__。{line:出错行：*}",
        fix="需要梯度的地方留在 torch 里（torch.stack(list).sum()，不要用 np.sum）。仅为展示时：x.detach().cpu().numpy()，标量用 x.item()。",
    ),
    variants={
        "source": (
            Text(
                title="{code}: NumPy cannot read a tensor that lies on the GPU",
                why="NumPy reads host memory only, and PyTorch does not copy silently: this line raises a TypeError where there is a GPU.",
                fix="Copy it first: {copy} before .numpy() or the NumPy function; for one number .item().",
            ),
            Text(
                title="{code}：NumPy 无法读取 GPU 上的张量",
                why="NumPy 只能读主机内存，PyTorch 不会悄悄复制：在有 GPU 的机器上这一行会抛出 TypeError。",
                fix="先复制到主机：在 .numpy() 或 NumPy 函数之前加 {copy}；单个数值用 .item()。",
            ),
        ),
        "cupy": (
            Text(
                title="A NumPy function was given a CuPy array",
                why="CuPy refuses to copy GPU memory to the host silently.{line: The line: *}",
                fix="Call .get() (or cupy.asnumpy(x)) where NumPy is meant, or use the cupy function instead of numpy's.",
            ),
            Text(
                title="把 CuPy 数组交给了 NumPy 函数",
                why="CuPy 不会悄悄把显存复制到主机。{line:出错行：*}",
                fix="需要 NumPy 时调用 .get()（或 cupy.asnumpy(x)）；或者改用 cupy 的对应函数。",
            ),
        ),
    },
)
