"""The framework build, the CUDA in it, or one feature has dropped (or never had) this card's architecture."""

from collections.abc import Iterator

from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge._gpu_table import architecture
from ongpu.knowledge.card_fit import below, fit, told, toolkit_side, torch_archs, torch_for
from ongpu.knowledge.pci import architecture_of_device_id
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

EXACT = ("arch-not-compatible", "arch-supported", "paddle-arch", "llama-arch", "tensorrt-sm")
DROPPED = ("arch-too-old", "arch-ignored")
FEATURE = ("arch-needs", "arch-unsupported", "arch-needs-ampere", "bf16-unsupported", "ptx-feature-needs")
COMPILE = "sm-not-defined"
NO_CODE = ("no-kernel-image", "invalid-device-function")
# Programs that need a newer card than CUDA itself: https://docs.ollama.com/gpu, https://docs.vllm.ai (GPU installation),
# https://docs.rapids.ai/install
MINIMUM = {"ollama": "5.0", "vllm": "7.0", "rapids": "7.0", "cudf": "7.0", "cuml": "7.0", "text-generation-inference": "7.5", "sglang": "7.5"}
UNUSED = ("gpu-idle-complaint", "gpu-not-seen", "no-kernel-image", "no-cuda-device", "hw-driver-silent")
OLD = "7.5"  # cards older than this are what current builds drop


def check(
    symptoms: Symptoms | None, gpus: Gpus | None, torch: Torch | None, toolkit: Toolkit | None
) -> Iterator[Finding]:
    order = (*DROPPED, *EXACT, *FEATURE, COMPILE, "told-capability")
    cards = gpus.cards() if gpus else ()
    asked = {hit.ref for hit in symptoms.seen(*FEATURE)} if symptoms else set()
    # a warning that a feature is left out on this card, in a run that goes on, is no fault
    aside = {hit.ref for hit in symptoms.seen("feature-stands-aside")} if symptoms and not symptoms.has("run-ends") else set()
    hits = [hit for which in order for hit in (symptoms.seen(which) if symptoms else ())]
    hits = [hit for hit in hits if not (hit.name in FEATURE and hit.ref in aside)]
    featured = any(hit.name in FEATURE for hit in hits)
    hits = [hit for hit in hits if hit.name != "told-capability" or (not cards and hit.ref not in asked)]
    card, name, archs, need = told(hit.groups for hit in hits)
    if not card and cards:
        name, card = min(cards, key=lambda pair: tuple(int(n) for n in pair[1].split(".")))
    refs = symptoms.cite(*DROPPED, *EXACT, *FEATURE, COMPILE, *NO_CODE, "told-capability") if symptoms else ()
    refs = (*(ref for ref in refs if ref not in aside), *(gpus.refs[:2] if gpus else ()))
    failed = bool(symptoms and symptoms.has(*NO_CODE, "arch-not-compatible", "tensorrt-sm"))
    need = need or (symptoms.value("low", "arch-span") if symptoms else None)  # PyTorch's "(8.0) - (12.0)"
    if symptoms and symptoms.has(*DROPPED) and not (card and need and not below(card, need)):
        yield _finding(
            card,
            name,
            need or "?",
            Certainty.CERTAIN if card or symptoms.has("arch-ignored") else Certainty.LIKELY,
            refs,
        )
        return
    if symptoms and symptoms.has("legacy-driver"):
        lines = symptoms.cite("legacy-driver", "legacy-driver-branch")
        branch = symptoms.value("branch", "legacy-driver-branch") or "?"
        name = symptoms.value("card", "legacy-driver") or name
        yield _finding(card, name, branch, Certainty.CERTAIN, (*lines, *refs), "legacy-driver")
        return
    if symptoms and symptoms.has("card-unknown-to-driver"):  # it names no branch, and may also mean a card newer than the driver
        device = symptoms.value("id", "nvrm-pci-id") or ""
        found = architecture_of_device_id(device) or (architecture(card) if card else None)
        if found and found.last_driver:
            lines = symptoms.cite("card-unknown-to-driver", "nvrm-pci-id", most=2)
            shown = name or f"GPU {device}"
            yield _finding(found.capability, shown, found.last_driver, Certainty.CERTAIN, (*lines, *refs), "legacy-driver")
            return
    if symptoms and symptoms.has("hip-no-binary"):
        chip = symptoms.value("arch", "hip-no-binary") or symptoms.value("card", "amd-card")
        lines = symptoms.cite("hip-no-binary", "amd-card", most=2)
        yield _finding(None, chip, "?", Certainty.LIKELY, lines, "hip")
        return
    if symptoms and symptoms.has("xformers-built-for"):
        return  # its list says of each kernel what it would need; the reason common to all is that it was built for another torch
    if symptoms and featured:
        yield from _feature(symptoms, card, name, need, refs)
        return
    program = (symptoms.value("program", "program-named") or "").lower() if symptoms else ""
    floor = MINIMUM.get(program)
    if symptoms and card and floor and below(card, floor) and symptoms.has(*UNUSED):
        lines = symptoms.cite("program-named", *UNUSED, most=1)
        yield _finding(card, name, floor, Certainty.CERTAIN if failed else Certainty.LIKELY, (*refs, *lines), "program", program)
        return
    if not card:
        if failed:
            yield _finding(None, None, "?", Certainty.POSSIBLE, refs, "unknown")
        return
    if symptoms and symptoms.has(COMPILE):
        nvcc = (toolkit.nvcc or toolkit.told_cuda) if toolkit else None
        side = toolkit_side(nvcc, card) if nvcc else None
        if side == "old" or (side is None and below(card, OLD)):
            likely = Certainty.CERTAIN if side else Certainty.LIKELY
            yield _finding(card, name, nvcc or "?", likely, (*refs, *(toolkit.refs if toolkit else ())), "compiler")
        return
    cuda = torch.cuda if torch and torch.cuda else None
    archs = archs or (torch.archs if torch and torch.archs else ())
    archs = archs or (torch_archs(torch.version, cuda) if torch else None) or ()
    refs = (*refs, *(torch.about("archs", "cuda", "version") if torch else ()))
    answer = fit(card, archs, cuda)
    if answer == "old":
        sure = failed or bool(torch and torch.archs)
        yield _finding(card, name, archs, Certainty.CERTAIN if sure else Certainty.LIKELY, refs)
    elif answer is None and failed and below(card, OLD):
        yield _finding(card, name, "?", Certainty.LIKELY, refs, "build-unknown")


def _feature(
    symptoms: Symptoms, card: str | None, name: str | None, need: str | None, refs: tuple[Ref, ...]
) -> Iterator[Finding]:
    """A feature (FlashAttention 2, bfloat16, fp8 kernels) that asks for a newer card than this."""
    bf16 = symptoms.has("bf16-unsupported")
    need = need or ("8.0" if bf16 else None)
    if not need and card and symptoms.has("arch-unsupported") and below(card, OLD):
        yield _finding(card, name, "?", Certainty.LIKELY, refs, "build-unknown")
        return
    if card and need and not below(card, need):
        return  # the card would do: the line is about something else
    exact = symptoms.has("arch-needs-ampere", "ptx-feature-needs", "bf16-unsupported")
    if not card and not exact:
        return
    variant = "bf16" if bf16 else "feature"
    yield _finding(card, name, need or "?", Certainty.CERTAIN if card and need else Certainty.LIKELY, refs, variant)


def _finding(
    card: str | None,
    name: str | None,
    need: str | tuple[str, ...],
    certainty: Certainty,
    refs: tuple[Ref, ...],
    variant: str = "",
    program: str = "?",
) -> Finding:
    can = torch_for(card) if card else None
    age = architecture(card) if card else None
    return Finding(
        subject=name or "",
        certainty=certainty,
        variant=variant,
        values={
            "program": program,
            "card": (f"{name} ({age.name})" if age and age.name not in name else name) if name else "the card", "capability": card or "?", "sm": "sm_" + card.replace(".", "") if card else "?",
            "need": need, "version": can[1][0] if can else "?", "build": can[1][1] if can else "?",
        },
        fixes=(
            Fix("show-arch-list"),
            *((Fix("install-torch-with-code-for-card"),) if can and variant in ("", "build-unknown") else ()),
        ),
        refs=refs,
    )  # fmt: skip


RULE = Rule(
    slug="compute-capability-too-old",
    layer=Layer.HARDWARE,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "illegal-memory-access", "device-side-assert", "dtype-mismatch"),
    settle=(
        'python -c "import torch; print(torch.__version__, torch.cuda.get_arch_list())"',
        "nvidia-smi --query-gpu=name,compute_cap --format=csv",
    ),
    see=(
        "https://developer.nvidia.com/cuda-legacy-gpus",
        "https://github.com/pytorch/pytorch/issues/157517",
    ),
    en=Text(
        title="{card}{capability: (compute capability *,}{sm: *)} is too old for this build{need:, which needs *}",
        why="Each framework release drops the oldest architectures, and CUDA 13 dropped everything below 7.5 (Turing). The "
        "binary has no code for this card; the driver may be fine and is_available() may still say True.",
        fix="Use a build that still carries {sm:*|this card}{version:: the newest PyTorch that does is * from the }{build:* index} (check "
        "with torch.cuda.get_arch_list()); or compile it yourself with TORCH_CUDA_ARCH_LIST={capability:*|X.Y}; or use a newer "
        "card. For other programs install an older release built for an older CUDA.",
    ),
    zh=Text(
        title="{card}{capability:（计算能力 *，}{sm:*）}对这个构建来说太旧{need:，构建要求 *}",
        why="框架每个版本都会放弃最老的架构，CUDA 13 放弃了 7.5（Turing）以下的所有架构。二进制里没有这张卡的代码；驱动可能完全正常，"
        "is_available() 也可能仍为 True。",
        fix="改用仍{sm:带 * |支持这张卡}的构建{build:：最新的是 * 源的 }{version:PyTorch *}（用 torch.cuda.get_arch_list() 核对）；或以 "
        "TORCH_CUDA_ARCH_LIST={capability:*|X.Y} 自行编译；或换新卡。其他程序则安装为旧版 CUDA 构建的旧版本。",
    ),
    variants={
        "legacy-driver": (
            Text(
                title="{card} is no longer supported by the installed driver: its last branch is {need}.xx (legacy)",
                why="NVIDIA's newer driver branches ignore cards of old architectures: Kepler ends with 470, Maxwell, Pascal and Volta with 580. "
                "The module loads, sees the card and leaves it alone.",
                fix="Install the legacy driver {need}.xx (Ubuntu: nvidia-driver-{need}; Arch: nvidia-{need}xx-dkms from AUR; Debian: "
                "nvidia-tesla-{need}-driver), or use nouveau for the display. CUDA then ends with what that branch knows, and current "
                "frameworks have no code for the card.",
            ),
            Text(
                title="已安装的驱动不再支持 {card}：它的最后一个分支是 {need}.xx（legacy）",
                why="NVIDIA 新驱动分支会忽略旧架构的卡：Kepler 止于 470，Maxwell、Pascal、Volta 止于 580。模块能加载，也看到了卡，但不接管。",
                fix="安装旧版驱动 {need}.xx（Ubuntu：nvidia-driver-{need}；Arch：AUR 的 nvidia-{need}xx-dkms；Debian：nvidia-tesla-{need}-driver），"
                "或用 nouveau 显示。CUDA 也止于该分支所支持的版本，目前的框架没有这张卡的代码。",
            ),
        ),
        "feature": (
            Text(
                title="This feature needs {need:compute capability * or newer|a newer GPU}; {card}{capability: has *| does not serve}",
                why="FlashAttention 2 needs Ampere (8.0), FlashAttention 3 Hopper (9.0), fp8 kernels Ada (8.9), Marlin and bf16 "
                "kernels Ampere, Triton Volta (7.0). An older card (Turing, Volta, Pascal) has no such instructions; no driver "
                "or reinstall changes that.",
                fix='Turn the feature off: attn_implementation="sdpa" or "eager" instead of flash_attention_2, another '
                "quantisation (GPTQ/AWQ without Marlin, bitsandbytes), dtype float16 (--dtype half), torch.compile off; or "
                "run on an Ampere or newer card.",
            ),
            Text(
                title="此功能要求{need:计算能力 * 以上|更新的 GPU}；{card} {capability:只有 *|不满足}",
                why="FlashAttention 2 需要 Ampere（8.0），FlashAttention 3 需要 Hopper（9.0），fp8 kernel 需要 Ada（8.9），Marlin 与 bf16 "
                "kernel 需要 Ampere，Triton 需要 Volta（7.0）。更老的卡（Turing、Volta、Pascal）没有相应指令，换驱动或重装都无济于事。",
                fix='关闭该功能：用 attn_implementation="sdpa" 或 "eager" 代替 flash_attention_2，换别的量化方式（不用 Marlin 的 '
                "GPTQ/AWQ、bitsandbytes），数据类型用 float16（--dtype half），关闭 torch.compile；或换 Ampere 及更新的卡。",
            ),
        ),
        "bf16": (
            Text(
                title="bfloat16 needs compute capability 8.0 (Ampere) or newer; {card} has {capability}",
                why="Cards before Ampere have no bfloat16 arithmetic.",
                fix="Use float16: dtype=half (vLLM --dtype half), torch_dtype=torch.float16, fp16=True instead of bf16=True in the "
                "trainer's arguments, or float32; or run on an Ampere or newer card.",
            ),
            Text(
                title="bfloat16 要求计算能力 8.0（Ampere）以上；{card} 只有 {capability}",
                why="Ampere 之前的卡没有 bfloat16 运算单元。",
                fix="改用 float16：dtype=half（vLLM 用 --dtype half）、torch_dtype=torch.float16、训练参数用 fp16=True 代替 bf16=True，"
                "或用 float32；或换 Ampere 及更新的卡。",
            ),
        ),
        "compiler": (
            Text(
                title="The CUDA toolkit in use ({need}) no longer compiles for {sm} ({card})",
                why="CUDA 12 dropped Kepler (3.x), CUDA 13 dropped Maxwell, Pascal and Volta (below 7.5).",
                fix="Take {sm} out of the list of architectures (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST, -gencode) if the "
                "card is another, or build with an older toolkit: CUDA 12.9 for 5.0 to 7.2, CUDA 11.8 for 3.5 and 3.7.",
            ),
            Text(
                title="所用的 CUDA 工具链（{need}）已不能为 {sm}（{card}）编译",
                why="CUDA 12 放弃了 Kepler（3.x），CUDA 13 放弃了 Maxwell、Pascal、Volta（7.5 以下）。",
                fix="如果实际的卡不是它，从架构列表（CMAKE_CUDA_ARCHITECTURES、TORCH_CUDA_ARCH_LIST、-gencode）里去掉 {sm}；否则用旧版"
                "工具链编译：5.0 至 7.2 用 CUDA 12.9，3.5、3.7 用 CUDA 11.8。",
            ),
        ),
        "build-unknown": (
            Text(
                title="The program has no code for {card} (compute capability {capability}): the build has probably dropped it",
                why='"No kernel image" means that the binary holds machine code for other architectures only. Current builds begin '
                "at 7.5 (CUDA 13) or 5.0 (CUDA 12.6). If the framework itself works on the card, a compiled extension is to blame.",
                fix="Look at torch.cuda.get_arch_list(). Install a build that still has {sm}: PyTorch {version} from {build} is the "
                "newest; or compile with TORCH_CUDA_ARCH_LIST={capability:*|X.Y}; or use a newer card.",
            ),
            Text(
                title="程序里没有 {card}（计算能力 {capability}）的代码：构建很可能已放弃它",
                why="“no kernel image” 表示二进制里只有其他架构的机器码。目前的构建从 7.5（CUDA 13）或 5.0（CUDA 12.6）开始。"
                "如果框架本身能在这张卡上运行，问题就在某个已编译的扩展。",
                fix="查看 torch.cuda.get_arch_list()。安装仍带 {sm} 的构建：最新的是 {build} 的 PyTorch {version}；或以 "
                "TORCH_CUDA_ARCH_LIST={capability:*|X.Y} 编译；或换新卡。",
            ),
        ),
        "program": (
            Text(
                title="{program} needs compute capability {need} or newer; {card} has {capability}",
                why="The published builds of the program hold no code for older cards, so it passes the GPU over and works on the CPU, or fails at its first kernel.",
                fix="Use an older release that still had {sm}, or build the program yourself with {sm} and the last CUDA toolkit that knows it (CUDA 11.x for Kepler, "
                "12.x for Maxwell to Volta); else a newer card.",
            ),
            Text(
                title="{program} 需要计算能力 {need} 以上；{card} 只有 {capability}",
                why="该程序发布的构建不含更老架构的代码，因此会跳过这张 GPU 改用 CPU，或在第一个内核失败。",
                fix="换用仍支持 {sm} 的旧版本，或用最后支持它的 CUDA Toolkit（Kepler 用 CUDA 11.x，Maxwell 到 Volta 用 12.x）为 {sm} 自行编译；否则换新卡。",
            ),
        ),
        "hip": (
            Text(
                title="The ROCm build has no code for this AMD card",
                why="ROCm builds carry kernels for some chips only (gfx900, gfx906, gfx90a, gfx1030, gfx1100 and their like); for others HIP finds no code object, rocBLAS no Tensile library. "
                "Older cards (gfx803, RX 400 and 500) were dropped; some newer ones come in with a later release.",
                fix="See the card's gfx number with rocminfo. A near relative is often accepted: HSA_OVERRIDE_GFX_VERSION=10.3.0 for gfx103x, 11.0.0 for gfx110x. Else take the PyTorch build of a newer ROCm, one that is "
                "built for this chip (PYTORCH_ROCM_ARCH, HIP_VISIBLE_DEVICES to leave out the integrated graphics), or run on the CPU.",
            ),
            Text(
                title="这个 ROCm 构建没有该 AMD 显卡的代码",
                why="ROCm 构建只含部分芯片的内核（gfx900、gfx906、gfx90a、gfx1030、gfx1100 等）；其他芯片上 HIP 找不到代码对象，rocBLAS 找不到 Tensile 库。较旧的卡（gfx803，RX 400、500 系）已被放弃，部分新卡要等后续版本。",
                fix="用 rocminfo 查看 gfx 编号。相近的芯片往往可以冒充：gfx103x 用 HSA_OVERRIDE_GFX_VERSION=10.3.0，gfx110x 用 11.0.0。否则换用更新 ROCm 的 PyTorch，或为该芯片编译的版本（PYTORCH_ROCM_ARCH；用 HIP_VISIBLE_DEVICES 排除核显），或在 CPU 上运行。",
            ),
        ),
        "unknown": (
            Text(
                title="The program has no code for this card; the build may have dropped so old a card",
                why='"No kernel image" (or invalid device function) has two causes: a card so old that the build dropped it, or '
                "one newer than the build. The card's compute capability and torch.cuda.get_arch_list() tell which.",
                fix="Compare `nvidia-smi --query-gpu=name,compute_cap --format=csv` with torch.cuda.get_arch_list(). Maxwell, Pascal "
                "and Volta need a cu126 build (PyTorch up to 2.14), Kepler 3.7 an old cu118 one.",
            ),
            Text(
                title="程序里没有这张卡的代码；构建可能已放弃这么旧的卡",
                why="“no kernel image”（或 invalid device function）有两种原因：卡太旧、已被构建放弃，或卡比构建新。"
                "显卡的计算能力与 torch.cuda.get_arch_list() 可以分辨。",
                fix="对比 `nvidia-smi --query-gpu=name,compute_cap --format=csv` 与 torch.cuda.get_arch_list()。Maxwell、Pascal、Volta "
                "需要 cu126 的构建（PyTorch 2.14 及以前），Kepler 3.7 需要更旧的 cu118。",
            ),
        ),
    },
)
