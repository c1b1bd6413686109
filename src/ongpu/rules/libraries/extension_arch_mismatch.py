"""The framework has code for the card, a compiled extension has not."""

import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.environment import Variables
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.gpus import compute_capability
from ongpu.knowledge.torch import runs
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# Packages (and what they call their compiled parts) with CUDA code of their own.
# fmt: off
_EXTENSIONS = {
    "flash-attn": r"flash[_-]attn", "bitsandbytes": r"bitsandbytes", "mmcv": r"mmcv|mmdet3?d?|im2col_cuda|deform_conv|roi_align|_ext\b", "spconv": r"spconv",
    "detectron2": r"detectron2", "pytorch3d": r"pytorch3d", "xformers": r"xformers", "gsplat": r"gsplat", "diff-gaussian-rasterization": r"diff[_-]gaussian",
    "simple-knn": r"simple[_-]knn", "nvdiffrast": r"nvdiffrast", "tinycudann": r"tiny-?cuda-?nn|\btcnn\b|tinycudann", "apex": r"\bapex\b|fused_layer_norm|multi_tensor",
    "MultiScaleDeformableAttention": r"MultiScaleDeformableAttention|ms_deform|deformable_im2col", "mamba-ssm": r"mamba_ssm|selective_scan",
    "causal-conv1d": r"causal_conv1d", "auto-gptq": r"auto_?gptq|gptq", "autoawq": r"\bawq\b|autoawq|awq_ext", "exllamav2": r"exllama", "torch-scatter": r"torch_scatter",
    "torch-sparse": r"torch_sparse", "torch-cluster": r"torch_cluster", "pointnet2": r"pointnet2|pointnet\+\+|votenet|furthest_point|ball_query", "chamfer": r"chamfer",
    "deepspeed": r"deepspeed|fused_adam|FusedAdam", "sageattention": r"sage_?attn|sageattention", "MinkowskiEngine": r"minkowski", "kaolin": r"kaolin",
    "groundingdino": r"groundingdino", "llama-cpp-python": r"llama[._-]cpp|ggml", "transformer-engine": r"transformer_engine", "natten": r"natten",
    "vllm": r"vllm[/._](?:_C|_moe|vllm_flash)|\bvllm\b", "ctranslate2": r"ctranslate2", "cupy": r"cupy", "faiss-gpu": r"faiss", "warp-ctc": r"warpctc|warp_rnnt",
    "DCNv2": r"dcnv?[234]", "torchvision": r"torchvision[/.]ops|torchvision::|roi_align|deform_conv2d", "nms": r"nms_cuda|nms_kernel|iou3d", "raymarching": r"raymarching|gridencoder|freqencoder",
    "exllama": r"exllama", "sgl-kernel": r"sgl_kernel", "flashinfer": r"flashinfer", "triton": r"\btriton\b", "torchsparse": r"torchsparse", "knn": r"knn_(?:cuda|points)", "correlation": r"correlation_(?:cuda|package)",
    "upfirdn2d": r"upfirdn2d|bias_act|fused_act|StyleGAN", "darknet": r"darknet", "alphapose": r"alphapose", "colmap": r"colmap", "opencv": r"\bcv2?\b.{0,30}(?:cuda|gpu)|opencv",
}
# fmt: on


def check(
    symptoms: Symptoms | None,
    trace: Traceback | None,
    torch: Torch | None,
    gpus: Gpus | None,
    variables: Variables | None,
    packages: Packages | None,
) -> Iterator[Finding]:
    if (
        not symptoms
        or not symptoms.has("no-kernel-image", "kernel-image-missing", "extension-kernel-error")
        or symptoms.has("torch-not-compatible", "torch-supports")
    ):
        return
    names = gpus.all_names() if gpus else ()
    capability = next((g.capability for g in gpus.gpus if g.capability), None) if gpus else None
    capability = capability or next((found for name in names if (found := compute_capability(name))), None)
    capability = capability or symptoms.value("capability", "capability-told")
    if not capability and (major := symptoms.value("major", "capability-told")):
        capability = f"{major}.{symptoms.value('minor', 'capability-told')}"
    arch_list = variables.get("TORCH_CUDA_ARCH_LIST") if variables else None
    left_out = bool(
        arch_list
        and capability
        and re.match(r"[\d.;+ PTXptx]+$", arch_list)
        and not runs(re.split(r"[;\s,]+", arch_list), capability)
    )
    places = [f"{f.file} {f.code}" for f in trace.frames[-3:]] if trace else []
    places += [
        hit.ref.quote for hit in symptoms.seen("no-kernel-image", "kernel-image-missing", "extension-kernel-error")
    ]
    name = _extension(places) or _compiled(trace)
    near = name or _extension([hit.ref.quote for hit in symptoms.seen("extension-name", "extension-prose")][:40])
    fits = bool(torch and torch.archs and capability and runs(torch.archs, capability, torch.cuda))
    works = symptoms.has("torch-itself-works")
    if torch and torch.archs and capability and not fits:
        return  # the framework itself does not fit the card
    near = near or (symptoms.value("name", "cuda-extension-word") if fits or not capability else None)
    if name is None and near and symptoms.has("cuda-extension-word"):
        name = near
    bare = symptoms.value("what", "extension-prose")  # printed by the CUDA code of extensions, never by torch
    if not (name or left_out or fits or ((fits or works) and near) or (bare and near)):
        return
    name = name or near or "?"
    yield Finding(
        certainty=Certainty.CERTAIN if left_out or (fits and name != "?") else Certainty.LIKELY,
        values={
            "extension": name,
            "capability": capability or "?",
            "arch": capability or "?",
            "list": arch_list or "?",
            "package": name,
        },
        variant="list" if left_out else "",
        fixes=(Fix("rebuild-extension"),) if capability and name != "?" else (),
        refs=(
            *symptoms.cite("no-kernel-image", "kernel-image-missing", "extension-kernel-error"),
            *(variables.cite("TORCH_CUDA_ARCH_LIST") if variables else ()),
            *symptoms.cite("extension-name", most=2),
            *(gpus.refs[:2] if gpus else ()),
            *(torch.about("archs", "version") if torch else ()),
            *symptoms.cite("torch-itself-works"),
        ),
    )


# A call into a module that was compiled with the package: "_C.mish_forward(inp)", "fused_cuda.forward(x)", "_ext.nms(...)".
_COMPILED = lazy(r"(?:^|[^\w.])(?:\w{1,30}\.)?(?:_C|_ext|_kernels?|_backend|_cuda|\w{1,30}_(?:cuda|ext|gpu|kernels?|cuda_v\d))(?:\.\w{1,60}){1,2}\(")
_PACKAGE = lazy(r"(?:site|dist)-packages[/\\](?P<package>\w{2,60})[/\\.]")
_NOT_EXTENSIONS = ("torch", "torchgen", "functorch", "numpy", "jax", "tensorflow")


def _compiled(trace: Traceback | None) -> str | None:
    """The package whose own compiled module was called last, by the traceback."""
    if not trace or not trace.frames or not _COMPILED.search(trace.frames[-1].code):
        return None
    found = _PACKAGE.search(trace.frames[-1].file)
    return found["package"].replace("_", "-") if found and found["package"] not in _NOT_EXTENSIONS else None


def _extension(places: list[str]) -> str | None:
    text = "\n".join(reversed(places))
    return next((name for name, pattern in _EXTENSIONS.items() if re.search(pattern, text, re.IGNORECASE)), None)


RULE = Rule(
    slug="extension-arch-mismatch",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("compute-capability-too-new", "compute-capability-too-old", "wrong-index-for-gpu"),
    settle=(
        "python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'",
        "cuobjdump --list-elf EXTENSION.so | grep -o 'sm_[0-9a-z]*' | sort -u",
    ),
    see=(
        "https://pytorch.org/docs/stable/cpp_extension.html",
        "https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#gpu-compilation",
    ),
    en=Text(
        title="The compiled extension {extension} has no code for this card{capability: (compute capability *)}",
        why="PyTorch itself runs on the card; the extension was built on another machine, or without this card visible, and holds machine code for other architectures only.",
        fix='Build {extension} again for this card: TORCH_CUDA_ARCH_LIST="{capability:*|X.Y}" pip install --no-build-isolation --no-cache-dir --force-reinstall (delete the build folder and ~/.cache/torch_extensions first), or install a release whose wheel covers the architecture.',
    ),
    zh=Text(
        title="编译好的扩展 {extension} 没有这张卡的代码{capability:（计算能力 *）}",
        why="PyTorch 本身能在这张卡上运行；该扩展是在别的机器上、或编译时看不到这张卡的情况下构建的，只含其他架构的机器码。",
        fix='针对这张卡重新编译 {extension}：TORCH_CUDA_ARCH_LIST="{capability:*|X.Y}" pip install --no-build-isolation --no-cache-dir --force-reinstall（先删除 build 目录和 ~/.cache/torch_extensions），或安装其 wheel 已覆盖该架构的版本。',
    ),
    variants={
        "list": (
            Text(
                title="The extension was built for TORCH_CUDA_ARCH_LIST={list}, which leaves out this card ({capability})",
                why="TORCH_CUDA_ARCH_LIST decides for which architectures an extension gets code. This card ({capability}) is not among them, so its kernels cannot start, while PyTorch itself works.",
                fix='Set TORCH_CUDA_ARCH_LIST="{capability}" (or add +PTX to the last entry), delete the build folder, and build the extension again.',
            ),
            Text(
                title="扩展按 TORCH_CUDA_ARCH_LIST={list} 编译，没有包含这张卡（{capability}）",
                why="TORCH_CUDA_ARCH_LIST 决定为哪些架构生成代码。这张卡（{capability}）不在其中，所以扩展的 kernel 无法启动，而 PyTorch 本身正常。",
                fix='设 TORCH_CUDA_ARCH_LIST="{capability}"（或在最后一项加 +PTX），删除 build 目录后重新编译扩展。',
            ),
        ),
    },
)
