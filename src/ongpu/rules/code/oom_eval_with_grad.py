"""Evaluation records a graph, because gradients are not switched off."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import Oom, OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.memory import suspect
from ongpu.facts.program import Event, Loop, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.values import Module, Tensor, Unknown
from ongpu.model import Certainty, Edit, Finding, Layer, Ref, Rule, Severity, Text


def check(
    oom: OutOfMemory | None, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None, program: Program | None,
) -> Iterator[Finding]:
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    given = [finding for script in program.scripts for finding in _given(script, oom, traceback)] if program and oom and not found else []
    yield from (*found, *given)
    if oom and not given:
        yield from _in_error(oom, traceback, log, processes, gpus, symptoms)


def _in_source(script: Script) -> Iterator[Finding]:
    """Loops that call a module in eval() mode with gradients on, in a script that trains; or in a function that is named so."""
    if not (script.names_cuda or script.managed) or script.managed & {"lightning"}:
        return
    for loop in script.loops:
        call = next((f for f in loop.forwards or () if f.loop is loop), None) if loop.evaluates else None
        if call is None or call.name not in ("forward", ".forward") or call.at.grad is not True or not isinstance(call.receiver, Module):
            continue
        if call.discarded:
            continue  # a first call to warm up: its graph goes at once
        named = call.receiver.training(call) is not False
        if named and not _evaluation_by_name(script, call, call.receiver):
            continue
        if call.at.frame.inside("forward", "step", "evaluation") or _wants_gradients(script, loop, call):
            continue
        yield Finding(
            subject=call.words(),
            certainty=Certainty.POSSIBLE if named else Certainty.LIKELY,
            severity=Severity.WARNING,
            variant="named-source" if named else "source",
            values={"code": call.words(), "line": call.line, "function": call.at.frame.name},
            refs=(call.ref(), *_last_eval(call.receiver, call)),
            edits=() if named else _decorated(call),  # a name is no proof
        )


def _given(script: Script, oom: OutOfMemory, traceback: Traceback | None) -> Iterator[Finding]:
    """A function that evaluates a model that it is given, with gradients on, where the memory ran out in it, or beside a line that says so."""
    if script.says("no_grad", "inference_mode", "set_grad_enabled", "volatile") or script.managed:
        return
    for call in distinct(script.calls(".eval")):
        frame, model = call.at.frame, call.call.func
        name = ast.unparse(model.value) if isinstance(model, ast.Attribute) else ""
        if not frame.alone or frame.function is None or not isinstance(call.receiver, Unknown) or not EVALUATES.intersection(frame.name.lower().split("_")):
            continue
        inside = traceback is not None and any(part.function == frame.name for raised in traceback.raised for part in raised.frames)
        said = any(word in error.ref.quote.lower() for error in oom.errors for word in ("valid", "eval", "test "))
        use = next((e for e in script.calls() if e.loop and e.at.frame is frame and ast.unparse(e.call.func) == name and e.at.grad is True), None)
        if use is not None and (inside or said) and not any(e.at.frame is frame for e in script.calls(".backward")):
            yield Finding(
                subject=use.words(), certainty=Certainty.LIKELY, variant="source", values={"code": use.words(), "line": use.line, "function": frame.name},
                refs=(use.ref(), call.ref(), oom.errors[0].ref),
            )  # fmt: skip
            return


EVALUATES = frozenset({"val", "valid", "validate", "validation", "eval", "evaluate", "evaluation", "test"})


def _evaluation_by_name(script: Script, call: Event, module: Module) -> bool:
    """Whether its function is called so, and the script calls that function and trains that module elsewhere; tests of pytest are not meant."""
    frame, file = call.at.frame, call.file
    words = frame.name.lower().split("_")
    if frame.function is None or not EVALUATES.intersection(words) or "train" in words or any(f.alone for f in frame.chain()):
        return False
    if "pytest" in script.imports or "unittest" in script.imports or file.name.replace("\\", "/").rpartition("/")[2].startswith("test_"):
        return False
    told = [e for e in module.modes or () if e.order < call.order and e.name in (".train", ".eval")]
    if told and (told[-1].args or told[-1].kw):
        return False  # a mode that nobody knows
    losses = (e.receiver for e in script.calls(".backward"))
    return any(isinstance(loss, Tensor) and any(m is module.inner.root for m in loss.modules()) for loss in losses)


def _decorated(call: Event) -> tuple[Edit, ...]:
    """@torch.no_grad() on the function that evaluates, where nothing in it has to do with gradients."""
    node = call.at.frame.function.node if call.at.frame.function else None
    if not isinstance(node, ast.FunctionDef) or not any(line.strip() == "import torch" for line in call.file.lines):
        return ()
    words = ast.unparse(node)
    if any(word in words for word in ("grad", "backward", ".step(", "yield", "optim", "lambda", "train_")) or call.loop is None or call.loop.node not in set(ast.walk(node)):
        return ()
    return (call.file.before(node, "@torch.no_grad()\n" + " " * node.col_offset),)


def _last_eval(module: Module, call: Event) -> tuple[Ref, ...]:
    return tuple(event.ref() for event in module.modes or () if event.name == ".eval" and event.order < call.order)[-1:]


def _wants_gradients(script: Script, loop: Loop, call: Event) -> bool:
    """Whether something in the loop asks for gradients (an attack, saliency), or the whole program switched them off."""
    if any(loop in e.at.loops for e in script.calls("torch.autograd.grad", ".requires_grad_", ".retain_grad", ".backward")):
        return True
    if any(e.name == "requires_grad" and e.kind == "setattr" and loop in e.at.loops for e in script.events):
        return True
    return any(e.before(call) for e in script.calls("torch.set_grad_enabled", "torch._C._set_grad_enabled"))


def _in_error(
    oom: OutOfMemory, traceback: Traceback | None, log: TrainingLog | None, processes: Processes | None, gpus: Gpus | None,
    symptoms: Symptoms | None,
) -> Iterator[Finding]:
    slug, certainty, error = suspect(oom, traceback, log, processes, gpus)
    told = symptoms.cite("eval-oom-words", "eval-oom-told", "volatile-removed", "diff-adds-no-grad", most=2) if symptoms else ()
    late = _evaluating(symptoms, error) if symptoms else ()
    free = symptoms is not None and symptoms.has("no-grad-words") and not symptoms.has("volatile-removed", "diff-adds-no-grad")
    told = (*told, *late)
    if slug in ("oom-graph-retained", "oom-fragmentation") and (late or (symptoms and symptoms.has("volatile-removed"))):
        slug = "oom-batch-too-large"
    if slug == "oom-batch-too-large" and told and not free and certainty is not Certainty.CERTAIN:
        certainty = Certainty.LIKELY
    elif slug != "oom-eval-with-grad" or free:
        return
    elif told:
        certainty = max(certainty, Certainty.LIKELY)
    raised = next((r for r in traceback.raised if r.frames), None) if traceback else None
    yield Finding(
        certainty=certainty,
        values={"line": raised.own()[-1].code if raised and raised.own() else "?"},
        refs=(error.ref, *told, *(raised.cite() if raised else ())),
    )


def _evaluating(symptoms: Symptoms, error: Oom) -> tuple[Ref, ...]:
    """Lines of the log that show evaluation just before the memory ran out."""
    lines = [hit.ref for hit in symptoms.seen("eval-context")]
    near = [ref for ref in lines if ref.source != error.ref.source or 0 <= error.ref.line - ref.line <= 14]
    return tuple(near[-2:])


RULE = Rule(
    slug="oom-eval-with-grad",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("oom-batch-too-large", "oom-graph-retained",),
    see=("https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",),
    en=Text(
        title="Memory ran out during evaluation, and nothing shows that gradients are off",
        why="model.eval() only switches layers such as BatchNorm and Dropout; autograd still records the graph and keeps all activations. The traceback runs through evaluation code without torch.no_grad() around it{line:: *|.}",
        fix="Wrap the forward pass of validation and inference in with torch.no_grad(): (or torch.inference_mode()), move outputs to the host (.cpu()) as they come, and use a batch that fits.",
    ),
    zh=Text(
        title="显存在评估阶段耗尽，且没有迹象表明关闭了梯度",
        why="model.eval() 只切换 BatchNorm、Dropout 等层；autograd 仍会记录计算图并保留全部激活。回溯经过评估代码，而外层没有 torch.no_grad(){line:：*|。}",
        fix="验证和推理的前向用 with torch.no_grad():（或 torch.inference_mode()）包住，输出及时移到主机（.cpu()），并使用放得下的 batch。",
    ),
    variants={
        "source": (
            Text(
                title="Evaluation runs with gradients on: {code} is in eval() mode, without torch.no_grad()",
                why="model.eval() only switches layers such as BatchNorm and Dropout. Autograd still records the graph of each forward pass and keeps all its activations until the output is gone: memory as in training, for nothing, and slower.",
                fix="Put the loop under with torch.no_grad(): (or torch.inference_mode()), or decorate the function with @torch.no_grad().",
            ),
            Text(
                title="评估时没有关闭梯度：{code} 处于 eval() 模式，却不在 torch.no_grad() 之内",
                why="model.eval() 只切换 BatchNorm、Dropout 等层。autograd 仍会记录每次前向的计算图，并保留全部激活直到输出被释放：白白占用与训练相同的显存，还更慢。",
                fix="把循环放进 with torch.no_grad():（或 torch.inference_mode()），或给函数加上 @torch.no_grad()。",
            ),
        ),
        "named-source": (
            Text(
                title="{function} runs {code} with gradients on: no torch.no_grad() around it",
                why="By its name the function evaluates a model that this script trains, and nothing in it asks for gradients. Autograd still records the graph of each forward pass and keeps all its activations until the output is gone: memory as in training, for nothing, and slower. Without model.eval() layers such as Dropout and BatchNorm also act as in training.",
                fix="Decorate {function} with @torch.no_grad() (or torch.inference_mode()), call model.eval() at its start, and model.train() before training goes on.",
            ),
            Text(
                title="{function} 在开着梯度的情况下运行 {code}：外层没有 torch.no_grad()",
                why="从名字看，这个函数在评估本脚本训练的模型，其中没有任何地方需要梯度。autograd 仍会记录每次前向的计算图，并保留全部激活直到输出被释放：白白占用与训练相同的显存，还更慢。不调用 model.eval() 时，Dropout、BatchNorm 等层也仍按训练方式工作。",
                fix="给 {function} 加上 @torch.no_grad()（或 torch.inference_mode()），在开头调用 model.eval()，继续训练前再调用 model.train()。",
            ),
        ),
    },
)
