"""An operation is pinned to the GPU and exists for the CPU only."""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.program import Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import called
from ongpu.facts.values import Const
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, program: Program | None) -> Iterator[Finding]:
    if program:
        yield from (finding for script in program.scripts for finding in _in_source(script))
    if symptoms:
        yield from _in_error(symptoms)


CPU_ONLY = re.compile(
    r"\b(?:strings\.\w{1,60}|lookup\.\w{1,60}|string_input_producer|py_func|py_function|numpy_function|read_file|"
    r"decode_(?:jpeg|png|csv|image|raw)|WholeFileReader|TFRecordReader|parse_single_example)\("
)


def _in_source(script: Script) -> Iterator[Finding]:
    """Operations that have no GPU kernel inside with tf.device("/gpu:0"), where soft placement is off: by a setting, or in TensorFlow 1."""
    if "tensorflow" not in script.imports or script.says("allow_soft_placement=True", "allow_soft_placement = True", "set_soft_device_placement(True)"):
        return
    off = any(e.certain and isinstance(v := e.arg(0, "enabled"), Const) and v.value is False for e in script.calls("tensorflow.config.set_soft_device_placement"))
    session = next((e for e in script.calls("tensorflow.Session", "tensorflow.compat.v1.Session", "tensorflow.InteractiveSession")), None)
    if not off and (session is None or session.arg(2, "config") is not None):
        return
    for event in distinct(script.calls("tensorflow.device", "tensorflow.compat.v1.device")):
        name = event.arg(0)
        if not isinstance(name, Const) or "gpu" not in str(name.value).lower():
            continue
        blocks = [n for n in ast.walk(script.tree) if isinstance(n, ast.With) and any(item.context_expr is event.node for item in n.items)]
        inside = [x for block in blocks for s in block.body for x in ast.walk(s) if isinstance(x, ast.Call)]
        op = next((x for x in inside if CPU_ONLY.search(ast.unparse(x.func) + "(") or _whole_number(x)), None)
        if op is not None:
            words = script.file.quote(op, 60)
            yield Finding(certainty=Certainty.LIKELY, values={"op": called(op), "ops": words}, refs=(script.file.ref(op), event.ref()))
            return


def _whole_number(call: ast.Call) -> bool:
    """A variable of whole numbers, such as a step counter: its assignments have no GPU kernel for int32."""
    if called(call) not in ("Variable", "get_variable"):
        return False
    words = ast.unparse(call)
    first = call.args[0] if call.args else None
    return "int32" in words or (called(call) == "Variable" and isinstance(first, ast.Constant) and type(first.value) is int and "dtype" not in words)


def _in_error(symptoms: Symptoms) -> Iterator[Finding]:
    hits = symptoms.seen("tf-no-gpu-kernel")
    pinned = [h for h in hits if re.search(r"supported kernel|Could not find device for node|required incompatible device", h.ref.quote) or "opkernels" in h.ref.quote.lower() or "is not supported on gpu" in h.ref.quote.lower()]
    missing = [h for h in hits if "No OpKernel" in h.ref.quote]
    only = symptoms.cite("cpu-only-told", most=2)
    if only:
        yield Finding(values={"op": symptoms.value("op", "cpu-only-told"), "ops": symptoms.value("op", "cpu-only-told")}, refs=(*only, *symptoms.cite("tf-node-op", most=1)))
        return
    if not pinned and not (missing and symptoms.has("tf-devices-with-gpu")):
        return
    cpu_only = tuple(dict.fromkeys(h.groups["op"] for h in symptoms.seen("tf-cpu-only-op")))
    op = symptoms.value("op", "tf-no-gpu-kernel") or symptoms.value("op", "tf-operation") or "?"
    node = symptoms.value("op", "tf-node-op")
    yield Finding(
        values={"op": op, "ops": cpu_only or (f"{node} ({op})" if node and node != op else op)},
        refs=(*(h.ref for h in hits[:2]), *symptoms.cite("tf-cpu-only-op", most=6), *symptoms.cite("tf-cpu-kernels", "tf-node-op", most=2)),
    )


RULE = Rule(
    slug="tf-op-without-gpu-kernel",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://www.tensorflow.org/guide/gpu", "https://github.com/tensorflow/tensorflow/issues/11677",),
    en=Text(
        title="Operations without a GPU kernel {ops:(*) }are pinned to the GPU",
        why="TensorFlow was told to place {op:*|an operation} on /device:GPU:0, but {ops:*|some operations} exist for the CPU only in this release. The GPU itself was found.",
        fix="Allow soft placement (tf.config.set_soft_device_placement(True); TF1: tf.ConfigProto(allow_soft_placement=True)), or take these operations (initialisers, string and look-up operations) out of the with tf.device('/gpu:0') block: with tf.device('/cpu:0').",
    ),
    zh=Text(
        title="没有 GPU kernel 的运算{ops:（*）}被固定到了 GPU",
        why="TensorFlow 被要求把{op: * |运算}放在 /device:GPU:0，但该版本中{ops: * |有些运算}只有 CPU 实现。GPU 本身已被找到。",
        fix="允许软放置（tf.config.set_soft_device_placement(True)；TF1：tf.ConfigProto(allow_soft_placement=True)），或把这些运算（初始化、字符串、查表等）移出 with tf.device('/gpu:0')，放到 with tf.device('/cpu:0')。",
    ),
)
