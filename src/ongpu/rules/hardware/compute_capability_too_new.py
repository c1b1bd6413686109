"""The build is older than the card's architecture: it carries no code for it."""

from collections.abc import Iterator

from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.card_fit import below, fit, told, toolkit_side, torch_archs, torch_for
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

EXACT = (
    "arch-not-compatible",
    "arch-unsupported",
    "arch-supported",
    "tf-not-built-for",
    "paddle-arch",
    "llama-arch",
    "tensorrt-sm",
)
COMPILE = "sm-not-defined"
NO_CODE = ("no-kernel-image", "invalid-device-function")
RECENT = "8.9"  # a card as new as this is rather ahead of a build without code for it than dropped by it


def check(
    symptoms: Symptoms | None, gpus: Gpus | None, torch: Torch | None, toolkit: Toolkit | None
) -> Iterator[Finding]:
    cards = gpus.cards() if gpus else ()
    hits = symptoms.seen(*EXACT, COMPILE, *(() if cards else ("told-capability",))) if symptoms else ()
    card, name, archs, _ = told(hit.groups for hit in hits)
    if not card and cards:
        name, card = max(cards, key=lambda pair: tuple(int(n) for n in pair[1].split(".")))
    failed = bool(symptoms and symptoms.has(*NO_CODE, "arch-not-compatible", "tensorrt-sm", "arch-unsupported"))
    refs = symptoms.cite(*EXACT, COMPILE, *NO_CODE, "told-capability") if symptoms else ()
    if not card:
        if failed:
            yield _finding("?", None, (), Certainty.POSSIBLE, refs, "unknown")
        return
    if symptoms and symptoms.has(COMPILE):
        nvcc = (toolkit.nvcc or toolkit.told_cuda) if toolkit else None
        side = toolkit_side(nvcc, card) if nvcc else None
        if side == "new" or (side is None and not below(card, "8.0")):
            likely = Certainty.CERTAIN if side else Certainty.LIKELY
            yield _finding(card, name, (nvcc or "?",), likely, (*refs, *(toolkit.refs if toolkit else ())), "compiler")
        return
    cuda = torch.cuda if torch and torch.cuda else None
    archs = archs or (torch.archs if torch and torch.archs else ())
    archs = archs or (torch_archs(torch.version, cuda) if torch else None) or ()
    refs = (*refs, *(gpus.refs[:2] if gpus else ()), *(torch.about("archs", "cuda", "version") if torch else ()))
    answer = fit(card, archs, cuda)
    if answer == "new":
        sure = failed or bool(torch and torch.archs) or bool(symptoms and symptoms.has(*EXACT))
        yield _finding(card, name, archs, Certainty.CERTAIN if sure else Certainty.LIKELY, refs)
    elif symptoms and symptoms.has("tf-not-built-for"):
        runs = symptoms.has("training-runs") and not symptoms.has("tf-ptx-failed", *NO_CODE)
        weight = Severity.NOTE if runs else Severity.ERROR if symptoms.has("tf-ptx-failed") else Severity.WARNING
        yield _finding(card, name, archs, Certainty.LIKELY, refs, "jit", weight)
    elif answer is None and failed and not below(card, "8.0"):
        likely = Certainty.POSSIBLE if below(card, RECENT) else Certainty.LIKELY
        yield _finding(card, name, archs, likely, refs, "build-unknown")


def _finding(
    card: str,
    name: str | None,
    archs: tuple[str, ...],
    certainty: Certainty,
    refs: tuple[Ref, ...],
    variant: str = "",
    severity: Severity | None = None,
) -> Finding:
    can = torch_for(card) if card != "?" else None
    first, newest = can if can else (("?", "?"), ("?", "?"))
    return Finding(
        subject=name or "",
        certainty=certainty,
        severity=severity,
        variant=variant,
        values={
            "card": name or "the card", "capability": card, "sm": "sm_" + card.replace(".", ""), "archs": archs or "?",
            "first_torch": first[0], "first_build": first[1], "version": newest[0], "build": newest[1],
        },
        fixes=(Fix("show-arch-list"), *((Fix("install-torch-with-code-for-card"),) if can else ())),
        refs=refs,
    )  # fmt: skip


RULE = Rule(
    slug="compute-capability-too-new",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "illegal-memory-access", "device-side-assert"),
    settle=(
        'python -c "import torch; print(torch.__version__, torch.cuda.get_arch_list())"',
        "nvidia-smi --query-gpu=name,compute_cap --format=csv",
    ),
    see=(
        "https://docs.nvidia.com/cuda/blackwell-compatibility-guide/",
        "https://github.com/pytorch/pytorch/issues/164342",
    ),
    en=Text(
        title="{card} ({sm}, compute capability {capability}) is newer than this build, which has code only for {archs}",
        why="Machine code runs only on cards of the same major compute capability. This build was made before the card's "
        "architecture existed, so the first kernel finds no image to run (no kernel image is available).",
        fix="Install a build that has {sm} code. For PyTorch: version {first_torch} from the {first_build} index or newer "
        "(now {version} from {build}), with torchvision and torchaudio of the same index; rebuild compiled extensions "
        "(flash-attn, xformers) with TORCH_CUDA_ARCH_LIST={capability}. Reinstalling the driver or the CUDA toolkit "
        "does not help.",
    ),
    zh=Text(
        title="{card}（{sm}，计算能力 {capability}）比这个构建更新，构建只含 {archs} 的代码",
        why="机器码只能在主版本号相同的计算能力上运行。这个构建发布时还没有该架构，因此第一个内核就找不到可执行的映像"
        "（no kernel image is available）。",
        fix="换用带 {sm} 代码的构建。PyTorch：从 {first_build} 源安装 {first_torch} 或更新版本（目前为 {build} 的 {version}），"
        "torchvision、torchaudio 用同一个源；flash-attn、xformers 等已编译的扩展要以 TORCH_CUDA_ARCH_LIST={capability} "
        "重新编译。重装驱动或 CUDA Toolkit 没有用。",
    ),
    variants={
        "compiler": (
            Text(
                title="The CUDA toolkit in use ({archs}) does not know {sm} ({card}): it is older than the card",
                why="nvcc, ptxas and nvrtc compile only for architectures that existed when they were released.",
                fix="Use a newer CUDA toolkit (for {sm}), or build for an older architecture with PTX, which the driver "
                'translates: TORCH_CUDA_ARCH_LIST="8.0+PTX". Check `nvcc --version` and CUDA_HOME: an old nvcc may come '
                "first on PATH. A Triton or ptxas error: set TRITON_PTXAS_PATH to a newer ptxas, or update triton and torch.",
            ),
            Text(
                title="所用的 CUDA 工具链（{archs}）不认识 {sm}（{card}）：它比显卡旧",
                why="nvcc、ptxas、nvrtc 只能为发布时已有的架构编译。",
                fix='换用支持 {sm} 的新版 CUDA Toolkit；或为旧架构编译并附带 PTX，由驱动翻译：TORCH_CUDA_ARCH_LIST="8.0+PTX"。'
                "检查 `nvcc --version` 与 CUDA_HOME，PATH 里可能排着旧的 nvcc。若报错来自 Triton 或 ptxas：把 "
                "TRITON_PTXAS_PATH 指向新版 ptxas，或升级 triton 与 torch。",
            ),
        ),
        "jit": (
            Text(
                title="TensorFlow has no binary for compute capability {capability}: it compiles every kernel from PTX first",
                why="The wheel carries only PTX for so new a card. The driver translates it at the first start, which can "
                "take half an hour, and kernels may fail with CUDA_ERROR_INVALID_PTX or CUDA_ERROR_INVALID_HANDLE.",
                fix="Wait once and enlarge the cache (CUDA_CACHE_MAXSIZE=4294967296), or use tf-nightly or NVIDIA's "
                "TensorFlow container (nvcr.io/nvidia/tensorflow) built for {sm}.",
            ),
            Text(
                title="TensorFlow 没有计算能力 {capability} 的二进制代码：每个内核都要先从 PTX 编译",
                why="对这么新的卡，wheel 里只有 PTX，由驱动在首次启动时翻译，可能要半小时；也可能报 CUDA_ERROR_INVALID_PTX 或 "
                "CUDA_ERROR_INVALID_HANDLE。",
                fix="首次耐心等待并加大缓存（CUDA_CACHE_MAXSIZE=4294967296）；或改用 tf-nightly、NVIDIA 的 TensorFlow 容器"
                "（nvcr.io/nvidia/tensorflow）等带 {sm} 代码的构建。",
            ),
        ),
        "build-unknown": (
            Text(
                title="The program has no code for {card} ({sm}): the build is probably older than the card",
                why='"No kernel image" means that the binary holds machine code for other architectures only. Which ones '
                "is not shown here; torch.cuda.get_arch_list() or cuobjdump tells. If the framework itself works on the "
                "card, one compiled extension is to blame instead.",
                fix="Install a build with {sm} code. PyTorch: {first_torch} from {first_build} or newer (now {version} from "
                "{build}); compile other programs for {sm} (-DCMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST={capability}).",
            ),
            Text(
                title="程序里没有 {card}（{sm}）的代码：构建很可能比显卡旧",
                why="“no kernel image” 表示二进制里只有其他架构的机器码，这里没有显示是哪些；torch.cuda.get_arch_list() 或 "
                "cuobjdump 可以看到。如果框架本身能在这张卡上运行，问题就在某个已编译的扩展。",
                fix="安装带 {sm} 代码的构建。PyTorch：{first_build} 的 {first_torch} 或更新（目前为 {build} 的 {version}）；"
                "其他程序按 {sm} 编译（-DCMAKE_CUDA_ARCHITECTURES、TORCH_CUDA_ARCH_LIST={capability}）。",
            ),
        ),
        "unknown": (
            Text(
                title="The program has no code for this card; the card may be newer than the build",
                why='"No kernel image" (or invalid device function) has two causes: a card newer than the build, or one so '
                "old that the build dropped it. The card's compute capability and torch.cuda.get_arch_list() tell which.",
                fix="Compare `nvidia-smi --query-gpu=name,compute_cap --format=csv` with torch.cuda.get_arch_list(). A Blackwell "
                "card (sm_100, sm_120) needs PyTorch 2.7 or newer from cu128 or newer; Ada and Ampere need CUDA 11.1+ builds.",
            ),
            Text(
                title="程序里没有这张卡的代码；显卡可能比构建新",
                why="“no kernel image”（或 invalid device function）有两种原因：卡比构建新，或卡太旧、已被构建放弃。"
                "显卡的计算能力与 torch.cuda.get_arch_list() 可以分辨。",
                fix="对比 `nvidia-smi --query-gpu=name,compute_cap --format=csv` 与 torch.cuda.get_arch_list()。Blackwell"
                "（sm_100、sm_120）需要 cu128 及以上的 PyTorch 2.7+；Ampere、Ada 需要 CUDA 11.1+ 的构建。",
            ),
        ),
    },
)
