"""The program asks for a GPU index that this process does not have."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, gpus: Gpus | None, variables: Variables | None, torch: Torch | None) -> Iterator[Finding]:
    hits = symptoms.seen("invalid-ordinal")
    if not hits or symptoms.has("ordinal-no-gpu", "map-location"):
        return
    tf = [hit for hit in hits if hit.groups.get("tf")]
    if not [h for h in hits if not h.groups.get("tf")] and not any("GPU:0" in h.ref.quote for h in symptoms.seen("tf-gpu0-only")):
        return  # TensorFlow that names no GPU at all: another cause
    present = len(gpus.gpus) if gpus and gpus.gpus else torch.device_count if torch else None
    visible = variables.get("CUDA_VISIBLE_DEVICES") if variables else None
    option = next((f"{h.groups['option']} {h.groups['list']}" for h in symptoms.seen("ordinal-option") if re.search(r"[1-9]", h.groups["list"])), None)
    asked = (tf[0].groups["tf"] if tf else None) or symptoms.value("n", "gpu-requested")
    yield Finding(
            fixes=(Fix("list-gpus"),),
        certainty=Certainty.CERTAIN if present or visible or tf else Certainty.LIKELY,
        variant="mig" if symptoms.has("mig-words") else "",
        values={
            "asked": asked if asked and asked != "0" else option or "a GPU index", "present": present or "fewer", "visible": "not set" if visible is None else visible or '""',
        },
        refs=(
            *(hit.ref for hit in hits[:3]), *(variables.cite("CUDA_VISIBLE_DEVICES") if variables else ()), *(gpus.cite(*gpus.gpus[:4]) if gpus else ()),
            *symptoms.cite("gpu-requested", "ordinal-option", most=2),
        ),
    )


RULE = Rule(
    slug="invalid-device-ordinal",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable", "config-forces-cpu"),
    see=("https://docs.pytorch.org/docs/stable/notes/cuda.html",),
    en=Text(
        title="The program asks for {asked}, which this process does not have (GPUs here: {present}; CUDA_VISIBLE_DEVICES: {visible})",
        why="Indices count from 0 over the GPUs that the process may see: with one card only GPU 0 (cuda:0) exists, and CUDA_VISIBLE_DEVICES=2 makes card 2 \"cuda:0\". A script or checkpoint written for more cards, --nproc_per_node above the number of cards, or a fixed \"cuda:1\" asks for one that is not there.",
        fix="Use cuda:0 (or plain \"cuda\"), a list of devices that torch.cuda.device_count() covers, as many processes as nvidia-smi -L lists GPUs, and the program's single-GPU setting; correct or unset CUDA_VISIBLE_DEVICES.",
    ),
    zh=Text(
        title="程序要用的 {asked} 在本进程中不存在（GPU 数：{present}；CUDA_VISIBLE_DEVICES：{visible}）",
        why="编号从 0 开始，只数本进程可见的 GPU：只有一块卡时只有 GPU 0（cuda:0）；CUDA_VISIBLE_DEVICES=2 会让 2 号卡成为“cuda:0”。为多卡写的脚本或检查点、--nproc_per_node 大于卡数、写死的“cuda:1”都会请求不存在的卡。",
        fix="使用 cuda:0（或只写“cuda”），设备列表不超过 torch.cuda.device_count()，进程数不超过 nvidia-smi -L 列出的 GPU 数，选程序的单卡设置；修正或取消 CUDA_VISIBLE_DEVICES。",
    ),
    variants={
        "mig": (
            Text(
                title="The program asks for {asked}, but a process can open only one MIG slice (GPUs here: {present})",
                why="Several MIG instances may be granted to the job, yet CUDA shows a single MIG instance (the first of CUDA_VISIBLE_DEVICES) to each process, so only cuda:0 exists. The batch system did nothing wrong.",
                fix="Start one process for each slice, each with its own CUDA_VISIBLE_DEVICES=MIG-<uuid> (nvidia-smi -L), or ask for whole GPUs; use cuda:0 in the program.",
            ),
            Text(
                title="程序要用的 {asked} 不存在：一个进程只能打开一个 MIG 切片（GPU 数：{present}）",
                why="作业可能分到多个 MIG 实例，但 CUDA 对每个进程只显示一个 MIG 实例（CUDA_VISIBLE_DEVICES 中的第一个），因此只有 cuda:0。作业系统没有分错。",
                fix="每个切片启动一个进程，各自设置 CUDA_VISIBLE_DEVICES=MIG-<uuid>（nvidia-smi -L 查看），或申请整块 GPU；程序里用 cuda:0。",
            ),
        ),
    },
)
