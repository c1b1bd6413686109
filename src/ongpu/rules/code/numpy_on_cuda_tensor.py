"""NumPy is asked to read a tensor that lies on the GPU."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, traceback: Traceback | None) -> Iterator[Finding]:
    if not symptoms.has("numpy-on-cuda"):
        return
    raised = traceback.said("to numpy", "numpy array") if traceback else None
    own = raised.own() if raised else ()
    cupy = any("Implicit conversion" in hit.ref.quote for hit in symptoms.seen("numpy-on-cuda"))
    yield Finding(
        variant="cupy" if cupy else "",
        values={"line": own[-1].code if own else "?"},
        refs=(*symptoms.cite("numpy-on-cuda"), *(raised.cite() if raised else ())),
    )


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
