"""A global default device or tensor type breaks samplers and loaders."""

from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.mismatch import Mismatches
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(mismatches: Mismatches | None, symptoms: Symptoms | None, traceback: Traceback | None) -> Iterator[Finding]:
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
