"""The optimizer's state lies on another device than the parameters."""

from collections.abc import Iterator

from ongpu.facts.mismatch import Mismatches
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches | None, symptoms: Symptoms | None) -> Iterator[Finding]:
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
