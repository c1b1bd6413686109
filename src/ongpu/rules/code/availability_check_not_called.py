"""torch.cuda.is_available stands without parentheses, so that it is always true."""

import ast
from collections.abc import Iterator

from ongpu.facts.program import Program, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Named
from ongpu.model import Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, program: Program | None) -> Iterator[Finding]:
    found = list(_in_source(program)) if program else []
    yield from found
    if symptoms and not found:
        yield from _in_error(symptoms)


def _in_source(program: Program) -> Iterator[Finding]:
    for script in program.scripts:
        for test in distinct(script.of("test")):
            if isinstance(test.value, Named) and test.value.name in ("torch.cuda.is_available", "torch.cuda.is_bf16_supported"):
                direct = isinstance(test.node, ast.Attribute)
                yield Finding(
                    subject=test.value.name,
                    values={"expr": test.value.name},
                    refs=(test.ref(),),
                    edits=(test.file.after(test.node, "()"),) if direct else (),
                )


def _in_error(symptoms: Symptoms) -> Iterator[Finding]:
    names = ("is-available-not-called", "is-available-printed-as-function")
    if not symptoms.has(*names):
        return
    yield Finding(values={"expr": symptoms.value("expr", *names) or symptoms.value("expr4", *names) or "torch.cuda.is_available"}, refs=symptoms.cite(*names))


RULE = Rule(
    slug="availability-check-not-called",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable",),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.cuda.is_available.html",),
    en=Text(
        title="{expr} is written without parentheses: the function is never called",
        why="A function object is always true, so the program takes the CUDA branch on every machine, also where there is no usable GPU, and then fails with a CUDA error (or prints <function is_available ...>).",
        fix="Call it: {expr}(), as in device = 'cuda' if torch.cuda.is_available() else 'cpu'. Then find out why no GPU is available, if one should be.",
    ),
    zh=Text(
        title="{expr} 后面漏了括号：函数根本没有被调用",
        why="函数对象永远为真，所以程序在任何机器上都会走 CUDA 分支，哪怕没有可用 GPU，随后就报 CUDA 错误（或打印出 <function is_available ...>）。",
        fix="加上括号：{expr}()，例如 device = 'cuda' if torch.cuda.is_available() else 'cpu'。如果本该有 GPU，再查为什么不可用。",
    ),
)
