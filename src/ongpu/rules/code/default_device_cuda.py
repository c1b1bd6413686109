"""A global default device or tensor type breaks samplers and loaders."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.mismatch import Mismatches
from ongpu.facts.program import Event, Program, Script
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Const, Device, Value, may_be_gpu
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches | None, symptoms: Symptoms | None, traceback: Traceback | None, program: Program | None) -> Iterator[Finding]:
    yield from (finding for script in program.scripts for finding in _in_source(script)) if program else ()
    found = next((m for m in mismatches.found if m.suspect[0] == "default-device-cuda"), None) if mismatches else None
    told = symptoms.cite("default-tensor-type", "default-device-words", most=2) if symptoms else ()
    inside = next((r for r in traceback.raised if r.through("sampler.py", "randperm", "random_split")), None) if traceback else None
    if inside and not found and symptoms and symptoms.has("numpy-on-cuda"):
        yield Finding(certainty=Certainty.LIKELY, variant="numpy", refs=(*told, *symptoms.cite("numpy-on-cuda"), *(f.ref for f in inside.frames[-1:])))
        return
    forked = symptoms.cite("cuda-init-in-worker") if symptoms else ()
    if not found and not (told and (forked or (mismatches and mismatches.found))):
        return
    sampler = found is not None and found.raised.through("sampler.py", "randperm", "random_split", "dataloader.py") is not None
    yield Finding(
        certainty=Certainty.CERTAIN if told and found else Certainty.LIKELY,
        values={
            "want": (found.other_on if found else None) or "cuda", "have": (found.odd_on if found else None) or "cpu",
            "where": "the loader's sampler" if sampler else "the generator",
        },
        refs=(*(found.raised.cite() if found else ()), *told, *forked[:2]),
    )


def _in_source(script: Script) -> Iterator[Finding]:
    """A default device of CUDA, and a loader that shuffles (or a random split) without a generator of that device."""
    default = next((e for e in script.calls("torch.set_default_device", "torch.set_default_tensor_type") if _cuda(e)), None)
    if default is None:
        return
    for loader in script.loaders:
        made = loader.made
        shuffles = made.says("shuffle", False) is True or (len(made.args) > 2 and isinstance(made.args[2], Const) and made.args[2].value is True)
        if shuffles and made.arg(None, "generator") is None and not made.stars and default.before(made):
            yield _found(default, made)
            return
    for split in script.calls("torch.utils.data.random_split"):
        if split.arg(2, "generator") is None and not split.stars and default.before(split):
            yield _found(default, split)
            return


def _cuda(event: Event) -> bool:
    given: Value | None = event.arg(0, "device") or event.arg(0, "t")
    if isinstance(given, Device):
        return may_be_gpu(given.where)
    return "cuda" in event.words()


def _found(default: Event, used: Event) -> Finding:
    return Finding(
        certainty=Certainty.LIKELY, variant="source", values={"code": default.words(60), "where": used.words(60)}, refs=(default.ref(), used.ref())
    )


RULE = Rule(
    slug="default-device-cuda",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("device-mismatch", "fork-after-cuda-init", "cuda-tensor-in-worker", "numpy-on-cuda-tensor",),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html", "https://github.com/pytorch/pytorch/issues/44714",),
    en=Text(
        title="A global default device sends tensors to {want}, but a random generator is on {have}",
        why="torch.set_default_tensor_type('torch.cuda.FloatTensor') or torch.set_default_device('cuda') makes every new tensor a CUDA tensor, also inside DataLoader's shuffling (torch.randperm in the sampler) and in forked workers, whose generator is on the CPU.",
        fix="Remove the global default and name the device where tensors are made. To keep it, hand the loader a matching generator: DataLoader(..., shuffle=True, generator=torch.Generator(device='cuda')), and num_workers=0.",
    ),
    zh=Text(
        title="全局默认设备把新张量建在 {want}，而随机数生成器在 {have} 上",
        why="torch.set_default_tensor_type('torch.cuda.FloatTensor') 或 torch.set_default_device('cuda') 会让所有新建张量都成为 CUDA 张量，包括 DataLoader 打乱顺序时（采样器里的 torch.randperm）和 fork 出的 worker 中，而那里的生成器在 CPU。",
        fix="去掉全局默认设置，在创建张量处写明设备。若要保留，给 DataLoader 传匹配的生成器：DataLoader(..., shuffle=True, generator=torch.Generator(device='cuda'))，并设 num_workers=0。",
    ),
    variants={
        "source": (
            Text(
                title="{code} makes CUDA the default, and {where} draws random numbers with a CPU generator",
                why="Samplers and random_split call torch.randperm with a generator of the CPU, while new tensors go to the default device: “Expected a 'cuda' device type for generator but found 'cpu'”. Workers then make CUDA tensors, too.",
                fix="Leave the default alone and move explicitly (model.to(device), x.to(device)); or give the loader generator=torch.Generator(device='cuda') and num_workers=0.",
            ),
            Text(
                title="{code} 把 CUDA 设为默认设备，而 {where} 用 CPU 的随机数生成器",
                why="采样器和 random_split 用 CPU 的 generator 调用 torch.randperm，而新张量会建在默认设备上，报错为 “Expected a cuda device type for generator but found cpu”。worker 里也会建出 CUDA 张量。",
                fix="不要改默认设备，显式移动（model.to(device)、x.to(device)）；或给加载器 generator=torch.Generator(device='cuda') 并设 num_workers=0。",
            ),
        ),
        "numpy": (
            Text(
                title="A global default device (cuda) makes the loader's sampler build its permutation on the GPU",
                why="With torch.set_default_device('cuda') or a CUDA default tensor type, torch.randperm inside DataLoader's sampler returns a CUDA tensor, and .numpy() on it fails.",
                fix="Do not set the default device globally: move model and batches instead, or hand the loader a generator: DataLoader(..., shuffle=True, generator=torch.Generator(device='cuda')).",
            ),
            Text(
                title="全局默认设备（cuda）使加载器的采样器在 GPU 上生成随机排列",
                why="设置 torch.set_default_device('cuda') 或 CUDA 默认张量类型后，DataLoader 采样器里的 torch.randperm 返回 CUDA 张量，对它调用 .numpy() 就会失败。",
                fix="不要全局设置默认设备：改为移动模型和 batch；或给加载器传生成器：DataLoader(..., shuffle=True, generator=torch.Generator(device='cuda'))。",
            ),
        ),
    },
)
