"""MIG is on without usable instances, half switched, or asked for by a name that does not exist."""

from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FAILS = ("no-cuda-device", "mig-torch-assert", "cuda-unknown-999", "cuda-init-3", "devices-busy-46", "no-cuda-devices-told", "device-ordinal-told")


def check(symptoms: Symptoms | None, gpus: Gpus | None, variables: Variables | None, torch: Torch | None) -> Iterator[Finding]:
    none = symptoms.cite("mig-none") if symptoms else ()
    failed = symptoms.cite("mig-failed") if symptoms else ()
    fails = symptoms.cite(*FAILS) if symptoms else ()
    on = [g for g in gpus.gpus if g.mig] if gpus else []
    off = [g for g in gpus.gpus if g.mig is False] if gpus else []
    empty = [g for g in on if not g.mig_devices] if none or (gpus and any(g.mig_devices is not None for g in gpus.gpus)) else []
    told = symptoms.cite("mig-enabled-told", "mig-uuid") if symptoms else ()
    asked = (variables.get("CUDA_VISIBLE_DEVICES") or variables.get("NVIDIA_VISIBLE_DEVICES")) if variables else None
    by_index = bool(on and asked and asked.strip() and asked.strip()[0].isdigit())
    several = bool(symptoms and symptoms.has("mig-torch-assert")) or bool(symptoms and symptoms.has("one-device-counted") and symptoms.has("mig-enabled-told"))
    zero = bool(torch and (torch.device_count == 0 or torch.available is False) and torch.cuda != "")
    if none and on:
        variant, certainty = "empty", Certainty.CERTAIN
    elif several and (on or told):
        variant, certainty = "one", Certainty.CERTAIN
    elif failed:
        variant, certainty = "", Certainty.LIKELY
    elif (empty and len(empty) == len(on) and (fails or zero)) or none:
        variant, certainty = "empty", Certainty.LIKELY
    elif (on or told) and (fails or zero):
        variant, certainty = "one" if on and any(g.mig_devices for g in on) else "", Certainty.LIKELY
    elif any(g.mig_devices == 0 for g in on):  # NVML counted them
        variant, certainty = "empty", Certainty.LIKELY
    elif on and off and gpus and len(gpus.gpus) > 1 and by_index:
        variant, certainty = "", Certainty.POSSIBLE
    else:
        return
    cards = tuple(f"GPU {g.index}" for g in (empty or on) if g.index is not None)
    yield Finding(
        certainty=certainty,
        variant=variant,
        values={"gpus": cards or "GPU", "asked": asked or "?"},
        fixes=(Fix("mig-off"), Fix("mig-create")),
        refs=(*none, *(symptoms.cite("one-device-counted") if symptoms else ()), *failed, *fails[:3], *(gpus.cite(*on)[:4] if gpus and on else ()), *told[:3], *(variables.cite("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES") if variables and asked else ())),
    )


RULE = Rule(
    slug="mig-misconfigured",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-visible-devices-hides", "fabric-manager-not-running", "invalid-device-ordinal", "cpu-only-build", "exclusive-process-mode"),
    settle=("nvidia-smi -L", "nvidia-smi mig -lgi", "nvidia-smi mig -lci"),
    see=("https://docs.nvidia.com/datacenter/tesla/mig-user-guide/", "https://github.com/pytorch/pytorch/issues/130181", "https://github.com/wilicc/gpu-burn/issues/36"),
    en=Text(
        title="MIG on {gpus} is not set up as the program needs it",
        why="With MIG enabled a card can be used only through its instances: CUDA sees no whole card, and one process sees one instance. Instances vanish at a reboot and must be created again; enabling or disabling MIG may wait for a GPU reset (\"pending\").",
        fix="Look at nvidia-smi -L and nvidia-smi mig -lgi. Create instances (sudo nvidia-smi mig -cgi <profile> -C) and name one in CUDA_VISIBLE_DEVICES=MIG-<uuid>, or switch MIG off: sudo nvidia-smi -mig 0 (all clients of the card stopped first), then reset or reboot. All cards of a node should be alike.",
    ),
    zh=Text(
        title="{gpus} 的 MIG 配置不符合程序的需要",
        why="启用 MIG 后，只能通过实例使用该卡：CUDA 看不到整卡，一个进程只能看到一个实例。实例在重启后消失，需要重新创建；开关 MIG 可能要等 GPU 复位才生效（pending）。",
        fix="查看 nvidia-smi -L 和 nvidia-smi mig -lgi。创建实例（sudo nvidia-smi mig -cgi <配置> -C），并用 CUDA_VISIBLE_DEVICES=MIG-<uuid> 指定；或关闭 MIG：sudo nvidia-smi -mig 0（先停掉该卡上的所有程序），再复位或重启。同一节点上各卡应保持一致。",
    ),
    variants={
        "empty": (
            Text(
                title="MIG is enabled on {gpus}, but there are no MIG devices: CUDA finds nothing to use",
                why="With MIG enabled a card can be used only through GPU and compute instances, and none was created (they vanish at each reboot). One such card can also make programs on the other cards fail.",
                fix="Switch MIG off, sudo nvidia-smi -mig 0 (on all cards, clients stopped, then a reset or reboot), or create instances: sudo nvidia-smi mig -cgi <profile> -C, and use CUDA_VISIBLE_DEVICES=MIG-<uuid> from nvidia-smi -L.",
            ),
            Text(
                title="{gpus} 启用了 MIG，但没有任何 MIG 实例：CUDA 找不到可用设备",
                why="启用 MIG 后，只能通过 GPU 实例和计算实例使用该卡，而这里一个也没有创建（重启后会消失）。这样的一张卡还可能让其他卡上的程序也失败。",
                fix="关闭 MIG：sudo nvidia-smi -mig 0（所有卡，先停掉程序，再复位或重启）；或创建实例：sudo nvidia-smi mig -cgi <配置> -C，并使用 nvidia-smi -L 给出的 CUDA_VISIBLE_DEVICES=MIG-<uuid>。",
            ),
        ),
        "one": (
            Text(
                title="Several MIG devices are there ({gpus}), but a process can use only one, and it must be named",
                why="CUDA enumerates a single MIG instance per process. NVML counts more, so frameworks ask for a device that CUDA does not have (device_count differs, \"device >= 0 && device < num_gpus\").",
                fix="Name one instance before the program starts: CUDA_VISIBLE_DEVICES=MIG-<uuid> (nvidia-smi -L lists them). For training over several instances switch MIG off: sudo nvidia-smi -mig 0. Peer-to-peer and NCCL do not work between instances.",
            ),
            Text(
                title="存在多个 MIG 实例（{gpus}），但一个进程只能使用其中一个，并且必须指定",
                why="CUDA 在每个进程中只枚举一个 MIG 实例；NVML 数出来的更多，框架就会请求 CUDA 没有的设备（device_count 不一致，“device >= 0 && device < num_gpus”）。",
                fix="在程序启动前指定一个实例：CUDA_VISIBLE_DEVICES=MIG-<uuid>（用 nvidia-smi -L 查看）。要跨实例训练，请关闭 MIG：sudo nvidia-smi -mig 0。实例之间不支持 P2P 和 NCCL。",
            ),
        ),
    },
)
