"""The build is older than the card's architecture: it carries no code for it."""

from collections.abc import Iterator

from ongpu.facts.framework import Packages, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge import tensorflow
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
ODD = ("slow-start-told", "bad-numbers-told")
# Older than the tables: https://www.tensorflow.org/install/source#gpu and https://pytorch.org/get-started/previous-versions/
TF_CUDA = {f"1.{n}": "8.0" for n in range(1, 5)} | {f"1.{n}": "9.0" for n in range(5, 13)} | {"1.13": "10.0", "1.14": "10.0", "1.15": "10.0"}
TORCH_CUDA = {"0.3": "9.0", "0.4": "9.0", "1.0": "10.0", "1.1": "10.0", "1.2": "10.0", "1.3": "10.1", "1.4": "10.1", "1.5": "10.2", "1.6": "10.2"}
RECENT = "8.9"  # a card as new as this is rather ahead of a build without code for it than dropped by it


def check(
    symptoms: Symptoms | None, gpus: Gpus | None, torch: Torch | None, toolkit: Toolkit | None, tf: TensorFlow | None, packages: Packages | None
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
    if symptoms and symptoms.has(COMPILE) and symptoms.has("harmless-ptxas-fallback") and not symptoms.has(*NO_CODE):
        return  # the driver compiles in ptxas's place
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
    program, built, lines = _program(torch, tf, packages)
    odd = symptoms.cite(*ODD, most=2) if symptoms else ()
    if answer != "new" and built and odd and toolkit_side(built, card) == "new":
        yield _finding(card, name, (f"{program} (CUDA {built})",), Certainty.LIKELY, (*lines, *refs, *odd), "older-cuda", Severity.WARNING)
        return
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


def _program(torch: Torch | None, tf: TensorFlow | None, packages: Packages | None) -> tuple[str, str | None, tuple[Ref, ...]]:
    """(framework and version, the CUDA of its build, lines): PyTorch, else TensorFlow."""
    if torch and torch.version and (cuda := torch.cuda or TORCH_CUDA.get(torch.version.partition("+")[0][:3].rstrip("."))):
        return f"PyTorch {torch.version}", cuda, torch.about("version", "cuda")[:1]
    version = tf.version if tf else None
    if not version and packages and (found := packages.get("tensorflow-gpu", "tensorflow")):
        version = found.version
    if version:
        release = tensorflow.release(version)
        return f"TensorFlow {version}", release.cuda if release else TF_CUDA.get(".".join(version.split(".")[:2])), tf.about("version")[:1] if tf else ()
    return "", None, ()


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
    hides=("cuda-unavailable", "illegal-memory-access", "device-side-assert", "nvcc-framework-mismatch"),
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
        why="机器码只能在主版本号相同的计算能力上运行。这个构建发布时还没有该架构，因此第一个 kernel 就找不到可执行的映像"
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
        "older-cuda": (
            Text(
                title="{archs} is older than {card} ({sm}): the driver compiles every kernel anew from PTX, and results may be wrong",
                why="The build has no machine code for this architecture. The first start translates all kernels (minutes to an hour, and again whenever the cache "
                "is full or gone); old libraries (cuBLAS, cuDNN) may hang on the new card or yield NaN and nonsense.",
                fix="Use a build that knows {sm}: an Ampere card needs CUDA 11 or newer (11.1 for sm_86), Ada 11.8, Blackwell 12.8. TensorFlow 1.x: NVIDIA's build "
                "(pip install nvidia-pyindex nvidia-tensorflow, 1.15 on CUDA 11) or its container; else TensorFlow 2.4 or newer, PyTorch {first_torch} from "
                "{first_build} or newer. Until then enlarge the cache of compiled kernels: CUDA_CACHE_MAXSIZE=4294967296.",
            ),
            Text(
                title="{archs} 比 {card}（{sm}）旧：驱动要从 PTX 重新编译每个内核，结果也可能不对",
                why="这个构建没有该架构的机器码。首次启动要翻译全部内核（几分钟到一小时；缓存满了或没了就再来一次）；旧的 cuBLAS、cuDNN 在新卡上可能卡住，或算出 NaN、"
                "错误结果。",
                fix="换用认识 {sm} 的构建：Ampere 需要 CUDA 11 以上（sm_86 需要 11.1），Ada 需要 11.8，Blackwell 需要 12.8。TensorFlow 1.x 用 NVIDIA 的构建"
                "（pip install nvidia-pyindex nvidia-tensorflow，CUDA 11 上的 1.15）或其容器；否则用 TensorFlow 2.4+，PyTorch 用 {first_build} 的 {first_torch} 或更新。"
                "在此之前加大内核缓存：CUDA_CACHE_MAXSIZE=4294967296。",
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
                title="TensorFlow 没有计算能力 {capability} 的二进制代码：每个 kernel 都要先从 PTX 编译",
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
                fix="Install a build with {sm} code. PyTorch: {first_torch:* from|see}{first_build: * or newer|its download page}{version: (now * from }"
                "{build:*)}; compile other programs for {sm} (-DCMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST={capability}).",
            ),
            Text(
                title="程序里没有 {card}（{sm}）的代码：构建很可能比显卡旧",
                why="“no kernel image” 表示二进制里只有其他架构的机器码，这里没有显示是哪些；torch.cuda.get_arch_list() 或 "
                "cuobjdump 可以看到。如果框架本身能在这张卡上运行，问题就在某个已编译的扩展。",
                fix="安装带 {sm} 代码的构建。PyTorch：{first_build:* 的|查看}{first_torch: * 或更新|其下载页}{build:（目前为 * 的 }{version:*）}；"
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
