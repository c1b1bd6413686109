"""The optimizer's state lies on another device than the parameters."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.objects import Objects, cite
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CPU, Module, may_be_gpu
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches | None, symptoms: Symptoms | None, objects: Objects | None, program: Program | None) -> Iterator[Finding]:
    yield from _in_objects(objects) if objects else ()
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    yield from found or _in_error(mismatches, symptoms)


# Adagrad makes its state when it is built (torch/optim/adagrad.py); the others at their first step, where the parameters lie then.
EAGER = ("torch.optim.Adagrad",)


def _in_source(script: Script) -> Iterator[Finding]:
    """Optimizers whose state exists before the model is moved. Module.to keeps the parameter objects: the others are fine."""
    for optimizer in script.optimizers:
        state: list[Event] = [optimizer.made] if optimizer.cls in EAGER else []
        state += optimizer.loads or ()
        for module in optimizer.over:
            if optimizer.managed or not isinstance(module, Module) or not state:
                continue
            first = state[0]
            later = [m for m in module.moved() if first.before(m.event) and may_be_gpu(m.device.where)]
            if later and module.where(first) == CPU and script.names_cuda:
                yield Finding(
                    certainty=Certainty.LIKELY,
                    variant="source",
                    values={"what": first.words(), "moved": later[0].event.words(), "name": optimizer.cls.rpartition(".")[2]},
                    refs=(first.ref(), later[0].event.ref()),
                )
                break


def _in_objects(objects: Objects) -> Iterator[Finding]:
    held = objects.optimizer
    if held is None or objects.placed_by_others:
        return
    apart = [p for p in objects.optimizers_state if p.of and p.device != p.of]
    told: dict[str, object] = {"name": held.name, "missing": held.missing_count, "strangers": held.strangers, "on": held.strangers_on, "names": held.missing[:3]}
    if apart:
        yield Finding(variant="state", values={**told, "on": apart[0].device, "of": apart[0].of}, refs=cite(apart))
    if held.missing_count and held.strangers and held.twins == held.missing_count:
        yield Finding(variant="stale", values=told, refs=(held.ref, *cite([p for p in objects.of("parameter") if p.name in held.missing], 3)))
    elif held.held and held.strangers == held.held and held.missing_count:
        yield Finding(certainty=Certainty.LIKELY, variant="stale", values=told, refs=(held.ref,))
    elif held.missing_count and not held.strangers:
        yield Finding(
            certainty=Certainty.POSSIBLE, severity=Severity.WARNING, variant="missing", values=told,
            refs=(held.ref, *cite([p for p in objects.of("parameter") if p.name in held.missing], 3)),
        )


def _in_error(mismatches: Mismatches | None, symptoms: Symptoms | None) -> Iterator[Finding]:
    found = next((m for m in mismatches.found if m.suspect[0] == "optimizer-before-move"), None) if mismatches else None
    near = symptoms.cite("optimizer-load", "optimizer-load-told", "optimizer-step-line", most=3) if symptoms else ()
    shown = symptoms.cite("optimizer-state-cpu", "device-cuda-shown", most=2) if symptoms and symptoms.has("device-cuda-shown") else ()
    if not found and mismatches and near:
        found = next((m for m in mismatches.found if m.odd is None and not m.two_gpus), None)
    shown = shown if symptoms and symptoms.has("optimizer-state-cpu") else ()
    if not found and not shown and not (symptoms and symptoms.has("optimizer-state-device")):
        return
    refs = (*shown, *(found.raised.cite() if found else ()), *(symptoms.cite("optimizer-state-device") if symptoms else ()), *near)
    frame = found.raised.through("/optim/", "optim\\") if found else None
    capturable = bool(found and "capturable" in found.raised.message)
    name = frame.file.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".py") if frame else ""
    yield Finding(
        certainty=Certainty.LIKELY,
        variant="capturable" if capturable else "",
        values={"name": name if name and name not in ("optimizer", "lr_scheduler") else "optimizer"},
        refs=refs,
    )


RULE = Rule(
    slug="optimizer-before-move",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch", "tensor-created-on-cpu", "input-not-moved",),
    see=("https://docs.pytorch.org/docs/stable/optim.html", "https://github.com/pytorch/pytorch/issues/8741",),
    en=Text(
        title="The optimizer's state ({name}) is on the CPU while the parameters or gradients are on the GPU",
        why="The step failed inside the optimizer. Its moments were created or restored while the model was on the CPU: the optimizer was built before model.to(device) (Adagrad and others allocate at construction), or a checkpoint's state was loaded (load_state_dict) before the model was moved.",
        fix="Order: build the model, model.to(device), then the optimizer, then optimizer.load_state_dict(...), which casts the state to the parameters' device. To repair a running object: for s in optimizer.state.values(): move each tensor in s with .to(device).",
    ),
    zh=Text(
        title="优化器（{name}）的状态在 CPU 上，而参数或梯度在 GPU 上",
        why="出错处在优化器内部。它的动量等状态是在模型还在 CPU 时创建或恢复的：优化器建在 model.to(device) 之前（Adagrad 等在构造时就分配状态），或先加载检查点状态（load_state_dict）再移动模型。",
        fix="顺序应为：建模型，model.to(device)，建优化器，再 optimizer.load_state_dict(...)（它会把状态转到参数所在设备）。补救办法：遍历 optimizer.state.values()，把其中每个张量 .to(device)。",
    ),
    variants={
        "source": (
            Text(
                title="{name} has its state on the CPU when the model is moved: {what} comes before {moved}",
                why="Module.to() keeps the parameter objects, so most optimizers may be built first. State that exists already stays where it is, though: Adagrad makes it when it is built, and load_state_dict() casts it to where the parameters lie at that moment.",
                fix="Order: build the model, model.to(device), then the optimizer, then optimizer.load_state_dict(...).",
            ),
            Text(
                title="移动模型时 {name} 的状态还在 CPU 上：{what} 在 {moved} 之前",
                why="Module.to() 会保留参数对象，所以多数优化器可以先建。但已经存在的状态不会跟着移动：Adagrad 在构造时就创建状态，load_state_dict() 则把状态转到当时参数所在的设备。",
                fix="顺序应为：建模型，model.to(device)，建优化器，再 optimizer.load_state_dict(...)。",
            ),
        ),
        "state": (
            Text(
                title="The state of {name} is on {on} while its parameters are on {of}",
                why="The moments were made or restored while the parameters were elsewhere; the next step() stops, or copies at every step.",
                fix="Build the optimizer after model.to(device), then optimizer.load_state_dict(...), which brings the state to the parameters' device. A running one: move each tensor of optimizer.state.values() with .to(device).",
            ),
            Text(
                title="{name} 的状态在 {on} 上，而它的参数在 {of} 上",
                why="动量等状态是在参数位于别处时创建或恢复的；下一次 step() 会报错，或每步都要复制。",
                fix="在 model.to(device) 之后创建优化器，再 optimizer.load_state_dict(...)（它会把状态带到参数所在设备）。正在运行的：把 optimizer.state.values() 中的每个张量 .to(device)。",
            ),
        ),
        "stale": (
            Text(
                title="{name} holds {strangers} parameters that are not the model's (on {on}), and lacks {missing} of the model's: it trains others",
                why="The optimizer was built for parameters that have since been replaced: before to_empty(), a new head, a cast or copy of the model that makes new tensors, or for another model altogether. step() then changes tensors that nobody uses, without any error.",
                fix="Build the optimizer last: after the model is complete, moved and cast. Check: {{id(p) for p in model.parameters()}} against optimizer.param_groups.",
            ),
            Text(
                title="{name} 持有 {strangers} 个不属于该模型的参数（在 {on}），却缺少模型的 {missing} 个：它在训练别的张量",
                why="优化器创建之后参数被换掉了：之后才调用 to_empty()、换头部，或做了会产生新张量的转换与复制；也可能它本来就是为另一个模型建的。step() 只会修改没人使用的张量，而且不报错。",
                fix="最后再建优化器：模型完整、移动、转换之后。可用 {{id(p) for p in model.parameters()}} 与 optimizer.param_groups 对照。",
            ),
        ),
        "missing": (
            Text(
                title="{name} does not hold {missing} trainable parameters of the model: {names}",
                why="They keep their values unless another optimizer trains them. Usual causes: a layer that was added or unfrozen after the optimizer was built, or a list of parameters that leaves them out.",
                fix="Build the optimizer after the model is complete, or optimizer.add_param_group({{'params': new_parameters}}). What is not to be trained: requires_grad_(False), which also saves the memory of its gradients.",
            ),
            Text(
                title="{name} 没有包含模型的 {missing} 个可训练参数：{names}",
                why="除非另有优化器训练它们，它们的值不会改变。常见原因：优化器建好之后才加入或解冻某层，或参数列表漏掉了它们。",
                fix="模型完整之后再建优化器，或用 optimizer.add_param_group({{'params': new_parameters}})。不打算训练的：requires_grad_(False)，还能省下梯度的显存。",
            ),
        ),
        "capturable": (
            Text(
                title="The optimizer's step counters were restored onto the GPU (capturable=False wants them on the CPU)",
                why="load_state_dict put the state 'step' on the GPU; with capturable=False the {name} update wants it on the CPU. PyTorch 1.12.0 did this by mistake; 1.12.1 fixed it. State restored by hand has the same effect.",
                fix="Upgrade PyTorch to 1.12.1 or newer; as a stopgap set optimizer.param_groups[0]['capturable'] = True after loading, and load the checkpoint with map_location='cpu'.",
            ),
            Text(
                title="优化器的 step 计数被恢复到了 GPU 上（capturable=False 要求在 CPU）",
                why="load_state_dict 把状态里的 step 放到了 GPU，而 capturable=False 时 {name} 的更新要求它在 CPU。PyTorch 1.12.0 有此缺陷，1.12.1 已修复；手工恢复状态也会造成同样结果。",
                fix="把 PyTorch 升级到 1.12.1 或更新；临时办法是加载后设置 optimizer.param_groups[0]['capturable'] = True，并用 map_location='cpu' 加载检查点。",
            ),
        ),
    },
)
