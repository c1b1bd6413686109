"""The input is on the GPU, the weights are not."""

import ast
from collections.abc import Iterator

from ongpu.facts.dryrun import DryRun
from ongpu.facts.framework import Torch
from ongpu.facts.mismatch import Mismatches
from ongpu.facts.objects import Objects, cite, names, on_host
from ongpu.facts.operands import Operands, cause, seen, sides
from ongpu.facts.placing import thrown_away
from ongpu.facts.program import Event, Program, Script, distinct, tensors
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import CPU, CUDA, MAYBE, Handle, Module, may_be_gpu
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text, Unknown, known


def check(
    mismatches: Mismatches | None, symptoms: Symptoms | None, program: Program | None, objects: Objects | None, operands: Operands | None, dryrun: DryRun | None,
    torch: Torch | None,
) -> Iterator[Finding]:
    if dryrun:
        yield from _in_run(dryrun)
    found = [finding for script in program.scripts for finding in _in_source(script)] if program else []
    blind = torch is not None and (torch.available is False or torch.cuda == "" or torch.device_count == 0)
    if not found and program and symptoms and not mismatches and not blind and (idle := _left_unused(symptoms)):
        found = [finding for script in program.scripts for finding in _unused(script, idle) if all(map(_ignores_gpu, program.scripts))]
    yield from found
    if symptoms and (said := symptoms.cite("pipeline-without-device", most=2)):
        made = [call.ref() for script in program.scripts for call in distinct(script.calls("transformers.pipeline"))] if program else []
        yield Finding(variant="pipeline", refs=(*said, *made[:2]))
    if mismatches and not found and not (program and any(_moved(script) for script in program.scripts)):
        apart = [finding for script in program.scripts for finding in _one_branch(script)] if program else []
        yield from apart or _in_error(mismatches, symptoms, operands)
    if objects:
        yield from _in_objects(objects)


def _in_objects(objects: Objects) -> Iterator[Finding]:
    for what, framework in objects.unlooked:
        if what == "model":
            raise Unknown(f"only PyTorch objects are looked at; this one is: {framework}")
    home, astray = objects.home, objects.astray()
    inputs = [p for p in objects.of("input") if not on_host(p.device)]
    if astray:
        yield Finding(
            certainty=Certainty.LIKELY, variant="partly", refs=cite(astray),
            values={"names": names(astray), "on": astray[0].device, "home": home, "count": len(astray), "line": "?", "input": home, "model": objects.model},
        )
    elif home and on_host(home) and not objects.placed_by_others:
        told = {"on": home, "model": objects.model, "gpus": objects.gpus, "line": "?"}
        if inputs and not objects.moves_inputs:
            yield Finding(values={**told, "input": inputs[0].device}, refs=(*cite(inputs, 2), *cite(objects.of("parameter"), 2)))
        elif objects.gpus and "lightning" not in objects.managed:
            yield Finding(certainty=Certainty.LIKELY, variant="live", values=told, refs=cite(objects.of("parameter"), 3))
        elif objects.gpus is None:
            raise Unknown("whether this process sees a GPU; the model is on the CPU", ("ongpu doctor",))
        elif objects.gpus == 0:
            raise Unknown("whether the model will reach a GPU: it is on the CPU, and this process sees no GPU", ("ongpu doctor",))



def _in_source(script: Script) -> Iterator[Finding]:
    for call in distinct(script.calls("forward")):
        model = call.receiver
        if not isinstance(model, Module) or not model.weighs or call.at.frame.inside("forward"):
            continue
        where = model.where(call)
        inputs = [t for t in tensors((*call.args, *(call.kw or {}).values())) if not t.scalar]
        if where == CPU and any(may_be_gpu(t.where) for t in inputs) and not (model.made and model.made.at.frame.inside("forward")):
            yield _finding(call, model, "source", call.words())
        elif where == CPU and model.sure and call.training_loop and not script.managed and _asks_for_gpu(script) and _ignores_gpu(script):
            yield _finding(call, model, "idle", call.words())
            return
        elif may_be_gpu(where):
            for name, change in _left_behind(script, model.inner, call):
                yield _finding(change, model, "replaced", name)
                return
    yield from _prepared(script)


def _one_branch(script: Script) -> Iterator[Finding]:
    """Models that one branch moves to the GPU, and the other makes and leaves. Only where something met weights on the CPU."""
    for joined in script.modules:
        there = [m for m in joined.either if any(may_be_gpu(move.device.where) for move in m.moves or ())]
        stays = [m for m in joined.either if m.made and m.sure and not (m.moves or m.escapes or m.owner or m.wraps or m.either)]
        move = next((one for m in there for one in m.moves or ()), None)
        if len(joined.either) != 2 or not stays or move is None or stays[0].made is None or any(g.kind == "cuda" for g in move.event.at.guards):
            continue
        made = stays[0].made
        target = made.stmt.targets[0] if isinstance(made.stmt, ast.Assign) else None
        name = ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else made.words(40)
        yield Finding(
            subject=name, certainty=Certainty.LIKELY, variant="branch", refs=(made.ref(), move.event.ref()),
            values={"on": CPU, "input": CUDA, "name": name, "model": stays[0].name.rpartition(".")[2], "line": made.line, "code": move.event.words(60)},
        )  # fmt: skip
        return


def _left_unused(symptoms: Symptoms) -> tuple[Ref, ...]:
    """The words that say that a GPU is there and does nothing, or that a program which should use it is slow."""
    if symptoms.has("gpu-not-seen", "told-on-purpose"):
        return ()
    told = symptoms.cite("gpu-unused-told", "gpu-idle-words", most=2)
    return told or (symptoms.cite("slow-told-plainly", most=1) if symptoms.has("gpu-wanted", "nvidia-card-named") else ())


def _unused(script: Script, told: tuple[Ref, ...]) -> Iterator[Finding]:
    """A model that is used where nothing in the whole program is ever put on a GPU; no framework would do it either."""
    if script.managed or script.imports & {"tensorflow", "keras", "jax"} or not _ignores_gpu(script) or script.says("map_location", ".cuda", "device_map"):
        return
    for call in distinct(script.calls("forward", ".generate", ".encode", ".predict")):
        model = call.receiver
        if isinstance(model, Module) and model.weighs and model.sure and model.where(call) == CPU and not call.at.frame.inside("forward"):
            made = model.made.words(60) if model.made else model.name
            yield Finding(
                subject=call.words(), certainty=Certainty.LIKELY, variant="unused", values={"name": call.words(60), "model": made, "line": call.line, "on": CPU, "input": CPU},
                refs=(call.ref(), *((model.made.ref(),) if model.made else ()), *told),
            )  # fmt: skip
            return
    for made_by in distinct(script.calls("diffusers.*")):
        if made_by.name.endswith("Pipeline.from_pretrained") and not made_by.stars and not script.says("offload"):
            yield Finding(
                subject=made_by.words(), certainty=Certainty.LIKELY, variant="unused", values={"name": made_by.words(60), "model": made_by.words(60), "line": made_by.line, "on": CPU, "input": CPU},
                refs=(made_by.ref(), *told),
            )  # fmt: skip
            return


def _moved(script: Script) -> bool:
    """Whether the source shows the contrary of what the message's order of devices says: every model is on the GPU when it is used, and
    an input's move is thrown away."""
    uses = [(call.receiver, call) for call in script.calls("forward", ".generate") if isinstance(call.receiver, Module) and call.receiver.weighs]
    outer = [model.where(call) for model, call in uses if not call.at.frame.inside("forward")]
    return bool(outer) and all(where in (CUDA, MAYBE) for where in outer) and any(True for _ in thrown_away(script))


def _finding(at: Event, model: Module, variant: str, name: str) -> Finding:
    foreign = isinstance(model.cls, str) and not model.cls.startswith("torch.")
    made = (model.made.ref(),) if model.made else ()
    return Finding(
        subject=name,
        variant=variant,
        certainty=Certainty.LIKELY if foreign or variant == "idle" else Certainty.CERTAIN,
        values={"on": CPU, "input": "cuda", "name": name, "model": model.name.rpartition(".")[2], "line": at.line},
        refs=(at.ref(), *made),
    )


def _asks_for_gpu(script: Script) -> bool:
    """Whether the script chooses a device that may be a GPU."""
    return any(may_be_gpu(getattr(call.value, "where", "")) for call in script.calls("torch.device"))


def _ignores_gpu(script: Script) -> bool:
    """Whether nothing in it is ever put there."""
    moves = (call for call in script.calls() if call.name in (".to", ".cuda", ".set_device", ".to_empty") or "device" in (call.kw or {}) or call.name == "torch.cuda.set_device")
    return not any(True for _ in moves) and not any(True for _ in script.calls("torch.set_default_device", "torch.set_default_tensor_type"))


def _left_behind(script: Script, model: Module, use: Event) -> Iterator[tuple[str, Event]]:
    """Layers that were put into the model after it had been moved, and were not moved themselves."""
    for change in script.of("setattr"):
        part = change.value
        if change.receiver is not model or not isinstance(part, Module) or not part.weighs or not change.before(use):
            continue
        if may_be_gpu(model.where(change)) and part.sure and part.where(use) == CPU:
            yield change.name, change


def _prepared(script: Script) -> Iterator[Finding]:
    """Bare tensors given to accelerator.prepare, which moves none."""
    for call in distinct(script.calls(".prepare")):
        if not (isinstance(call.receiver, Handle) and call.receiver.name == "accelerate.Accelerator"):
            continue
        for place, given in enumerate(call.args):
            node = call.given(place)
            if node is not None and given in list(tensors([given])) and getattr(given, "graph", False):
                yield Finding(
                    subject=call.file.quote(node), variant="prepare", values={"name": call.file.quote(node), "line": call.line, "on": CPU, "input": "cuda", "model": "?"}, refs=(call.ref(),)
                )


def _in_error(mismatches: Mismatches, symptoms: Symptoms | None, operands: Operands | None) -> Iterator[Finding]:
    for found in mismatches.found:
        slug, certainty = cause(found, operands)
        if slug != "model-not-moved":
            continue
        yield Finding(
            certainty=certainty,
            variant="parallel" if found.method == "data_parallel" else "",
            values={"on": sides(found, operands)[0], "input": sides(found, operands)[1], "line": found.line or "?"},
            refs=(*found.raised.cite(), *seen(operands), *(symptoms.cite("hf-model-device", "prints-device", most=2) if symptoms else ())),
        )
        return


def _in_run(run: DryRun) -> Iterator[Finding]:
    """From a dry run: what was trained on the CPU. Unknown where the run could not be followed."""
    heavy = [line for line in run.devices.by_line if line.device == "cpu" and line.place]
    stayed = [model for model in run.devices.models if model.called and model.parameters and set(model.bytes) == {"cpu"}]
    work = run.devices.flop.get("cpu", 0.0)
    if run.used_gpu:
        much = work >= max(1e10, 0.01 * run.devices.flop.get("cuda", 0.0))
    else:
        much = run.worked_on_cpu
    if much:
        yield Finding(
            variant="run" if not run.used_gpu else "run-part",
            severity=Severity.WARNING if run.used_gpu else None,
            values={"model": stayed[0].class_ if stayed else "?", "work": f"{work / 1e9:.3g}", "line": str(heavy[0].place) if heavy else "?"},
            refs=run.heaviest("cpu"),
        )
    why = run.unseen()
    known(None if why else True, f"whether it runs and fits: {why}")


RULE = Rule(
    slug="model-not-moved",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch",),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html", "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",),
    en=Text(
        title="The weights are on {on} while the input is on {input}",
        why="The data was moved to the GPU; the layer that stopped has its weight on the CPU{line:: *}. Either the model was never moved, or this part escaped the move: layers in a plain Python list or dict (they need nn.ModuleList or nn.ModuleDict), a layer replaced after .to(device), or a bare tensor that neither .to() nor accelerator.prepare() moves.",
        fix="Call model.to(device) after the model is complete (heads replaced, checkpoint loaded) and before the optimizer is built. Then look for what escaped: print([n for n, p in model.named_parameters() if p.device.type == 'cpu']); what is missing from this list altogether is not registered.",
    ),
    zh=Text(
        title="权重在 {on} 上，而输入在 {input} 上",
        why="数据已移到 GPU，出错的那一层权重却在 CPU{line:：*}。要么模型根本没有移动，要么这一部分被漏掉了：层放在普通 Python 列表或字典里（应改用 nn.ModuleList 或 nn.ModuleDict）、在 .to(device) 之后又替换了某一层，或是裸张量（.to() 和 accelerator.prepare() 都不会移动它）。",
        fix="在模型完全建好（换好头部、加载完权重）之后、创建优化器之前调用 model.to(device)。再查漏网的部分：print([n for n, p in model.named_parameters() if p.device.type == 'cpu'])；列表里根本没出现的就是没有注册。",
    ),
    variants={
        "pipeline": (
            Text(
                title="The transformers pipeline was built without a device, so its model is on the CPU",
                why="The library says so itself: a GPU is there, and no `device` argument was passed to the Pipeline. It then runs on the CPU without any error, ten to a hundred times slower.",
                fix="pipeline(..., device=0), or device='cuda:0', or device_map='auto' for a model that one card cannot hold. Newer releases of transformers take the GPU by themselves.",
            ),
            Text(
                title="创建 transformers pipeline 时没有指定 device，模型在 CPU 上",
                why="库自己已经说明：环境里有 GPU，但没有给 Pipeline 传 `device` 参数。它会在 CPU 上运行而不报错，慢十到百倍。",
                fix="pipeline(..., device=0)，或 device='cuda:0'；单卡放不下的模型用 device_map='auto'。较新的 transformers 会自动使用 GPU。",
            ),
        ),
        "unused": (
            Text(
                title="Nothing in the program is ever put on the GPU: {model} stays on the CPU",
                why="\"{name}\" (line {line}) runs where its weights are, and these were never moved: no .to(device), no .cuda(), no device= anywhere. There is no error, PyTorch simply computes on the CPU; nvidia-smi shows no process.",
                fix="model.to(\"cuda\") after it is loaded, and each batch as well: batch = batch.to(\"cuda\"), or {{k: v.to(\"cuda\") for k, v in batch.items()}}; results come back with .cpu() before .numpy().",
            ),
            Text(
                title="程序里没有任何东西被放到 GPU 上：{model} 一直在 CPU",
                why="“{name}”（第 {line} 行）在权重所在处运行，而权重从未移动：没有 .to(device)、.cuda() 或 device=。不会报错，PyTorch 只是在 CPU 上计算；nvidia-smi 里也看不到进程。",
                fix="加载后 model.to(\"cuda\")，每个 batch 也要移动：batch = batch.to(\"cuda\")，或 {{k: v.to(\"cuda\") for k, v in batch.items()}}；结果在 .numpy() 之前用 .cpu() 取回。",
            ),
        ),
        "run": (
            Text(
                title="Nothing was computed on the GPU: {model:* |the script }trains on the CPU",
                why="In the dry run a GPU was there (torch.cuda.is_available() said so), yet no tensor was ever put on it; {work} GFLOP of matrix work ran on the CPU{line:, most of it at *}. There is no error: it is only slow.",
                fix="device = torch.device('cuda'), model.to(device) before the optimizer is built, and inputs, targets = inputs.to(device), targets.to(device) for each batch. With a library, look for its switch (use_cpu, no_cuda, accelerator, device).",
            ),
            Text(
                title="没有在 GPU 上计算任何东西：{model:* |脚本}在 CPU 上训练",
                why="试运行中 GPU 是存在的（torch.cuda.is_available() 为真），但没有任何张量被放上去；{work} GFLOP 的矩阵运算在 CPU 上执行{line:，主要在 *}。这不会报错，只是很慢。",
                fix="device = torch.device('cuda')，创建优化器之前 model.to(device)，每个 batch 都 inputs, targets = inputs.to(device), targets.to(device)。用框架时检查它的开关（use_cpu、no_cuda、accelerator、device）。",
            ),
        ),
        "run-part": (
            Text(
                title="{work} GFLOP of matrix work run on the CPU{model:, in *}, while the GPU is in use",
                why="Part of the computation never left the CPU{line:, most of it at *}; the GPU waits for it. Intended offloading looks the same.",
                fix="Move that part too: model.to(device), and its inputs. If it is meant to run on the CPU (offloading, a data pipeline), nothing needs to change.",
            ),
            Text(
                title="有 {work} GFLOP 的矩阵运算在 CPU 上执行{model:（*）}，同时 GPU 也在使用",
                why="部分计算一直留在 CPU 上{line:，主要在 *}，GPU 要等它。有意的卸载（offload）看起来也是这样。",
                fix="把这部分也移过去：model.to(device)，以及它的输入。如果是有意放在 CPU 上（卸载、数据管线），则无需改动。",
            ),
        ),
        "live": (
            Text(
                title="The whole model ({model}) is on the CPU; GPUs that this process sees: {gpus}",
                why="Every parameter that ongpu.check was shown sits on {on}. Unless a trainer moves it later (accelerate, the Hugging Face Trainer, Lightning), it runs there, without any error.",
                fix="model.to(device) before the optimizer is built, and the batches to the same device.",
            ),
            Text(
                title="整个模型（{model}）都在 CPU 上；本进程能看到的 GPU 数：{gpus}",
                why="ongpu.check 看到的全部参数都在 {on}。除非之后由训练器移动（accelerate、Hugging Face Trainer、Lightning），它就在 CPU 上运行，而且不会报错。",
                fix="创建优化器之前 model.to(device)，并把 batch 移到同一设备。",
            ),
        ),
        "partly": (
            Text(
                title="Part of the model is on {on} while the rest is on {home}: {names}",
                why="{count} parameters or buffers of {model} are not where the others are. They were added or replaced after model.to(device), or put back by hand; the forward pass stops where the two meet.",
                fix="Call model.to(device) again once the model is complete, before the optimizer is built; a part that has no memory (meta) gets it from to_empty() or from loading its weights.",
            ),
            Text(
                title="模型的一部分在 {on} 上，其余在 {home} 上：{names}",
                why="{model} 有 {count} 个参数或 buffer 不在其余部分所在的设备上：它们是在 model.to(device) 之后才加入或替换的，或被手动移回；前向走到两者相遇处就会报错。",
                fix="模型完全建好之后、创建优化器之前再调用一次 model.to(device)；没有内存的部分（meta）要用 to_empty() 或加载权重。",
            ),
        ),
        "source": (
            Text(
                title="{model} is never moved to the GPU, while what it is given at line {line} is there",
                why="\"{name}\" runs the model on a batch that was moved to the GPU; the weights are still on the CPU, where they were made. This stops with \"Expected all tensors to be on the same device\".",
                fix="Call model.to(device) once the model is complete and before the optimizer is built.",
            ),
            Text(
                title="{model} 从未移到 GPU，而第 {line} 行送进去的数据已在 GPU 上",
                why="“{name}”让模型处理已移到 GPU 的数据，而权重仍在创建时所在的 CPU 上，会报 \"Expected all tensors to be on the same device\"。",
                fix="在模型建好之后、创建优化器之前调用 model.to(device)。",
            ),
        ),
        "idle": (
            Text(
                title="A device is chosen, but nothing is moved to it: {model} trains on the CPU",
                why="The script asks for a GPU, yet neither the model nor the batches are moved there. \"{name}\" at line {line} runs on the CPU, without any error.",
                fix="model.to(device) before the optimizer is built, and inputs, targets = inputs.to(device), targets.to(device) for each batch.",
            ),
            Text(
                title="选好了设备，却没有把任何东西移过去：{model} 在 CPU 上训练",
                why="脚本要用 GPU，但模型和 batch 都没有移过去。第 {line} 行的“{name}”在 CPU 上运行，而且不会报错。",
                fix="创建优化器之前 model.to(device)；每个 batch：inputs, targets = inputs.to(device), targets.to(device)。",
            ),
        ),
        "branch": (
            Text(
                title="{name} is moved to the GPU in one branch only: made in line {line}, it stays on the CPU",
                why="\"{code}\" moves the model that the other branch made. The one that is made here is never moved, and meets an input on the GPU.",
                fix="Move {name} after both branches: {name} = {name}.to(device).",
            ),
            Text(
                title="只有一个分支把 {name} 移到 GPU：第 {line} 行新建的这个留在 CPU 上",
                why="“{code}”移动的是另一个分支里的模型。这里新建的从未移动，却遇上了 GPU 上的输入。",
                fix="在两个分支之后统一移动：{name} = {name}.to(device)。",
            ),
        ),
        "replaced": (
            Text(
                title="The layer {name} is put into {model} after the model was moved: it stays on the CPU",
                why="Module.to(device) moves what the module holds at that moment. The layer that line {line} sets is made on the CPU and never moved. Under autocast the error speaks of dtypes (Float and Half) instead of devices.",
                fix="Replace the layer first and move the model afterwards, or move the new layer too: model.{name}.to(device).",
            ),
            Text(
                title="{name} 层是在模型移动之后才放进 {model} 的：它留在 CPU 上",
                why="Module.to(device) 只移动当时已有的部分。第 {line} 行设置的新层建在 CPU 上，之后没有移动。在 autocast 下，报错说的是 dtype（Float 与 Half）而不是设备。",
                fix="先替换层再移动模型，或把新层也移过去：model.{name}.to(device)。",
            ),
        ),
        "prepare": (
            Text(
                title="{name} is a bare tensor: accelerator.prepare does not move it",
                why="prepare moves modules and wraps data loaders and optimizers; a plain tensor comes back as it was, on the CPU, while the batches of the prepared loader are on the GPU (line {line}).",
                fix="Put the tensor into an nn.Module as nn.Parameter (or use nn.Linear) before prepare, or move it by hand: {name}.to(accelerator.device).",
            ),
            Text(
                title="{name} 是裸张量：accelerator.prepare 不会移动它",
                why="prepare 会移动模块，并包装数据加载器和优化器；普通张量原样返回，仍在 CPU 上，而 prepare 过的加载器给出的 batch 在 GPU 上（第 {line} 行）。",
                fix="在 prepare 之前把它作为 nn.Parameter 放进 nn.Module（或改用 nn.Linear），或手动移动：{name}.to(accelerator.device)。",
            ),
        ),
        "parallel": (
            Text(
                title="The model is still on {on} when it is wrapped for several GPUs",
                why="DataParallel and DistributedDataParallel want all parameters and buffers of the module on the GPU (device_ids[0]) before they wrap it; one was found on {on}.",
                fix="Call model.to(device) (cuda:0, or cuda:LOCAL_RANK for DDP) before the wrapping, and move parts that are added later too.",
            ),
            Text(
                title="包装成多 GPU 时模型仍在 {on} 上",
                why="DataParallel 和 DistributedDataParallel 要求在包装之前，模块的全部参数和 buffer 都已在 GPU（device_ids[0]）上；这里发现有一个在 {on}。",
                fix="包装之前先 model.to(device)（cuda:0；DDP 用 cuda:LOCAL_RANK），之后新增的部分也要移动。",
            ),
        ),
    },
)
