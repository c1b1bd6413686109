"""The batch job asked the scheduler for no GPU."""

from collections.abc import Iterator

from ongpu.facts.container import Slurm
from ongpu.facts.environment import Variables
from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind, seen
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

FLAG = {"slurm": "--gres=gpu:1", "pbs": "-l select=1:ngpus=1", "lsf": '-gpu "num=1"', "sge": "-l gpu=1", "htcondor": "request_gpus = 1"}
SILENT = ("smi-no-communication", "hw-no-devices", "nvml-driver-not-loaded", "smi-missing", "torch-no-driver", "no-cuda-device")


def check(
    slurm: Slurm | None, symptoms: Symptoms | None, variables: Variables | None, torch: Torch | None, tensorflow: TensorFlow | None,
    jax: Jax | None, onnx: OnnxRuntime | None, gpus: Gpus | None,
) -> Iterator[Finding]:
    nodev = symptoms.cite("slurm-nodevfiles") if symptoms else ()
    visible = variables.get("CUDA_VISIBLE_DEVICES") if variables else None
    told = symptoms.cite("slurm-no-gpu-told", most=2) if symptoms else ()
    invalid = symptoms.cite("slurm-gres-invalid") if symptoms else ()
    missed = blind(symptoms, torch, tensorflow, jax, onnx) or (symptoms.cite(*SILENT, most=1) if symptoms else ())
    lines = slurm.asked_lines if slurm else ()
    apart = bool(slurm and slurm.step_blind)  # perhaps a GPU here, but none in the step that srun starts
    if apart:
        missed = (*missed, *lines)
    system = (slurm.system if slurm else None) or "slurm"
    values = {"flag": FLAG.get(system, FLAG["slurm"]), "system": system.upper() if system in ("pbs", "lsf", "sge") else system.capitalize(),
              "constraint": slurm.constraint if slurm and slurm.constraint else "?", "got": slurm.allocated if slurm and slurm.allocated else "?"}
    fixes = (Fix("ask-slurm-gpu"),) if system == "slurm" else ()
    shown = variables.cite("CUDA_VISIBLE_DEVICES") if variables and visible is not None else ()
    if nodev:
        yield Finding(certainty=Certainty.CERTAIN, variant="nodevfiles", values=values, fixes=fixes, refs=(*nodev, *lines))
        return
    if slurm is None or slurm.gres or (seen(gpus, torch) and not apart):
        return
    none_given = bool(slurm.allocated and "gpu" not in slurm.allocated)
    empty = visible == "" or slurm.gpus == ()
    refs = (*lines[:6], *slurm.about("allocated", "gpus")[:3], *told, *shown, *missed)
    if none_given and (missed or empty or told or slurm.gres == ""):
        yield Finding(certainty=Certainty.CERTAIN, variant="allocated", values=values, fixes=fixes, refs=refs)
    elif slurm.gres == "" and (missed or empty):
        yield Finding(certainty=Certainty.CERTAIN, variant="constraint" if slurm.constraint else "", values=values, fixes=fixes, refs=refs)
    elif told or none_given or (slurm.gres == "" and slurm.partition and "gpu" in slurm.partition.lower()):
        yield Finding(certainty=Certainty.LIKELY, values=values, fixes=fixes, refs=refs)
    elif slurm.job and (empty or missed) and slurm.gres is None and not slurm.gpus:
        sure = Certainty.LIKELY if empty and missed else Certainty.POSSIBLE
        yield Finding(certainty=sure, values=values, fixes=fixes, refs=refs)
    elif invalid:
        yield Finding(certainty=Certainty.POSSIBLE, variant="invalid", values=values, refs=invalid)


RULE = Rule(
    slug="slurm-no-gres",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-visible-devices-hides", "driver-not-installed", "driver-module-not-loaded", "no-nvidia-gpu", "invalid-device-ordinal", "cuda-unavailable", "device-node-missing", "gpu-not-on-bus"),
    settle=("scontrol show job $SLURM_JOB_ID | grep -i tres", "echo $SLURM_JOB_GPUS $CUDA_VISIBLE_DEVICES"),
    see=("https://slurm.schedmd.com/gres.html", "https://slurm.schedmd.com/sbatch.html#OPT_gres", "https://github.com/ray-project/ray/pull/7014"),
    en=Text(
        title="The {system} job asked for no GPU ({flag} is missing)",
        why="The scheduler gives a job only what it asks for. Without a GPU request the device cgroup hides the cards, so that nvidia-smi and the frameworks find none, though the node has some. A GPU partition alone is not a request.",
        fix="Add #SBATCH --gres=gpu:1 (or --gpus=1, --gpus-per-node) to the script, or srun --gres=gpu:1 --pty bash for an interactive shell; here: {flag}. A step inside the job inherits what the job got.",
    ),
    zh=Text(
        title="{system} 作业没有申请 GPU（缺少 {flag}）",
        why="调度器只分配作业申请的资源。没有申请 GPU 时，设备 cgroup 会隐藏显卡，nvidia-smi 和框架都找不到 GPU，尽管节点上有。只指定 GPU 分区并不等于申请。",
        fix="在脚本中加入 #SBATCH --gres=gpu:1（或 --gpus=1、--gpus-per-node），交互式使用 srun --gres=gpu:1 --pty bash；此处为 {flag}。作业内的步骤继承作业得到的资源。",
    ),
    variants={
        "nodevfiles": (
            Text(
                title="CUDA_VISIBLE_DEVICES=NoDevFiles: Slurm gave the job no GPU, for it asked for none (--gres)",
                why="Slurm sets NoDevFiles where a job without --gres=gpu:N or --gpus runs on a node with GPUs; a constraint or a GPU partition is not a request.",
                fix="Add --gres=gpu:1 (or --gpus=1) to sbatch, srun or salloc. Do not overwrite CUDA_VISIBLE_DEVICES: the cgroup refuses the devices.",
            ),
            Text(
                title="CUDA_VISIBLE_DEVICES=NoDevFiles：作业没有用 --gres 申请 GPU，Slurm 没有分配",
                why="作业没有 --gres=gpu:N 或 --gpus 却运行在带 GPU 的节点上时，Slurm 会设置 NoDevFiles；约束条件或 GPU 分区不等于申请。",
                fix="给 sbatch、srun 或 salloc 加上 --gres=gpu:1（或 --gpus=1）。不要自行覆盖 CUDA_VISIBLE_DEVICES：cgroup 会拒绝访问设备。",
            ),
        ),
        "constraint": (
            Text(
                title="The job asks for a node with the feature {constraint}, but for no GPU (--gres=gpu:1 is missing)",
                why="A constraint or partition chooses the node; only --gres or --gpus gives the job its cards. Without it the device cgroup hides them, at the latest in the steps that srun starts.",
                fix="Add #SBATCH --gres=gpu:1 (or --gpus=1) beside the constraint and submit the job again.",
            ),
            Text(
                title="作业只要求带 {constraint} 特性的节点，没有申请 GPU（缺少 --gres=gpu:1）",
                why="约束或分区只决定节点；只有 --gres 或 --gpus 才会把显卡分给作业，否则设备 cgroup 会隐藏它们，至少在 srun 启动的步骤里看不到。",
                fix="在约束之外加上 #SBATCH --gres=gpu:1（或 --gpus=1），重新提交作业。",
            ),
        ),
        "allocated": (
            Text(
                title="The job got {got}: no gres/gpu, for none was asked (--gres)",
                why="The allocation's TRES holds no GPU, so the device cgroup hides the node's cards from the job.",
                fix="Submit the job again with {flag} (or --gpus=1), or start a new allocation: salloc --gres=gpu:1.",
            ),
            Text(
                title="作业分到的资源为 {got}：没有 gres/gpu，因为没有用 --gres 申请",
                why="分配的 TRES 中没有 GPU，设备 cgroup 会对作业隐藏节点上的显卡。",
                fix="加上 {flag}（或 --gpus=1）重新提交，或重新申请：salloc --gres=gpu:1。",
            ),
        ),
        "invalid": (
            Text(
                title="Slurm does not know the GPU request: no node of the partition has such a gres",
                why="The type or count in --gres does not exist in this partition, or gres.conf and GresTypes do not name the node's GPUs.",
                fix="sinfo -o \"%P %N %G\" lists what there is; correct --gres=gpu:TYPE:N or the partition. Where the column is (null), the administrator must set GresTypes=gpu and gres.conf.",
            ),
            Text(
                title="Slurm 不认识该 GPU 申请：该分区没有节点具有这样的 gres",
                why="--gres 中的类型或数量在该分区不存在，或 gres.conf 和 GresTypes 没有定义节点的 GPU。",
                fix="用 sinfo -o \"%P %N %G\" 查看可用资源；修正 --gres=gpu:类型:数量 或分区。若该列为 (null)，需管理员设置 GresTypes=gpu 和 gres.conf。",
            ),
        ),
    },
)
