"""An operation is pinned to the GPU and exists for the CPU only."""

import re
from collections.abc import Iterator

from ongpu.facts.symptoms import Symptoms
from ongpu.model import Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms) -> Iterator[Finding]:
    hits = symptoms.seen("tf-no-gpu-kernel")
    pinned = [h for h in hits if re.search(r"supported kernel|Could not find device for node|required incompatible device", h.ref.quote) or "opkernels" in h.ref.quote.lower() or "is not supported on gpu" in h.ref.quote.lower()]
    missing = [h for h in hits if "No OpKernel" in h.ref.quote]
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
