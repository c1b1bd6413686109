"""MPS is asked for, but its daemon or server is gone, stuck or another user's."""

from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

DEFAULT_PIPE = "/tmp/nvidia-mps"


def check(symptoms: Symptoms | None, variables: Variables | None, processes: Processes | None, torch: Torch | None) -> Iterator[Finding]:
    said = symptoms.cite("mps-failed") if symptoms else ()
    told = symptoms.cite("mps-told") if symptoms else ()
    pipe = variables.get("CUDA_MPS_PIPE_DIRECTORY") if variables else None
    servers = [p for p in processes.processes if "nvidia-cuda-mps" in (p.name or "")] if processes else []
    fails = symptoms.cite("devices-busy-46", "cuda-unknown-999", "no-cuda-device", "cuda-init-3", "mps-hang-told", "driver-library-mismatch", "cuda-os-call-304") if symptoms else ()
    word = symptoms.cite("mps-word", most=2) if symptoms else ()
    trouble = symptoms.cite("mps-trouble-told", most=2) if symptoms else ()
    ends = bool(symptoms and symptoms.has("mps-client-ended")) and not fails
    if ends and not trouble:
        return
    if word and trouble and not said and not ends:
        certainty, told = Certainty.LIKELY, (*word, *trouble)
    elif said:
        certainty = Certainty.CERTAIN
    elif (pipe or told or servers) and fails:
        certainty = Certainty.LIKELY
    elif processes and processes.mps_alive is False:  # its pipe is there, and its daemon is not
        pipe, certainty = processes.mps_pipe, Certainty.LIKELY
    else:
        return
    code = next((c for c in ("805", "806", "807", "808", "809") if any(c in ref.quote for ref in said)), "805")
    yield Finding(
        certainty=certainty,
        values={"pipe": pipe or DEFAULT_PIPE, "code": code},
        fixes=(Fix("restart-mps"), Fix("without-mps")),
        refs=(*said, *fails[:3], *(variables.cite("CUDA_MPS_PIPE_DIRECTORY") if variables and pipe else ()), *told[:4], *(p.ref for p in servers if p.ref), *(processes.about("mps")[:1] if processes and processes.mps_pipe else ())),
    )


RULE = Rule(
    slug="mps-stale",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("k8s-no-gpu-request", "exclusive-process-mode", "gpu-busy-other-process", "suspend-uvm-broken", "uvm-module-missing", "cpu-only-build", "uvm-hmm-init-failure"),
    settle=("ps -ef | grep nvidia-cuda-mps", "env | grep CUDA_MPS", "tail /var/log/nvidia-mps/control.log"),
    see=("https://docs.nvidia.com/deploy/mps/", "https://github.com/NVIDIA/nvidia-container-toolkit/issues/277", "https://github.com/apecloud/ApeRAG/issues/120"),
    en=Text(
        title="CUDA looks for the MPS daemon (nvidia-cuda-mps-control, pipe {pipe}) and gets no working server ({code})",
        why="Where the pipe directory of MPS exists (/tmp/nvidia-mps, or CUDA_MPS_PIPE_DIRECTORY), every CUDA program goes through the daemon. After a crash, a driver update or another user's session a dead pipe is left, or the server sits in a fault, and each new program fails. In a container the pipe and the IPC namespace must be shared.",
        fix="Restart MPS: echo quit | nvidia-cuda-mps-control, end what is left of nvidia-cuda-mps-server, remove the stale pipe directory, then nvidia-cuda-mps-control -d (as the user who owns the jobs, or root). Or run without MPS: unset CUDA_MPS_PIPE_DIRECTORY and remove /tmp/nvidia-mps.",
    ),
    zh=Text(
        title="CUDA 在寻找 MPS 守护进程（nvidia-cuda-mps-control，管道 {pipe}），但没有可用的服务进程（{code}）",
        why="只要存在 MPS 的管道目录（/tmp/nvidia-mps 或 CUDA_MPS_PIPE_DIRECTORY），每个 CUDA 程序都会经由守护进程。崩溃、驱动升级或其他用户的会话会留下失效的管道，或让服务进程停在故障状态，此后新程序都会失败。在容器里，还必须共享该管道和 IPC 命名空间。",
        fix="重启 MPS：echo quit | nvidia-cuda-mps-control，结束残留的 nvidia-cuda-mps-server，删除失效的管道目录，再（以作业所属用户或 root）运行 nvidia-cuda-mps-control -d。或不用 MPS：unset CUDA_MPS_PIPE_DIRECTORY，并删除 /tmp/nvidia-mps。",
    ),
)
