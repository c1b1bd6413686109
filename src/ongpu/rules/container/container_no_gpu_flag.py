"""The container was started without asking for a GPU."""

import re
from collections.abc import Iterator

from ongpu.facts.container import Container, Kubernetes, Run
from ongpu.facts.driver import Driver, Nodes
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.hardware import Gpus, Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind, seen
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# Images that are started beside and need no GPU.
_OTHER = lazy(r"(?:^|/)(?:postgres|redis|mysql|mariadb|nginx|traefik|caddy|mongo|rabbitmq|minio|grafana|prom|alpine|busybox|hello-world|qdrant|etcd|registry)\b", re.I)
_WANTS = lazy(
    r"nvidia|cuda|gpu|nvcr\.io|pytorch|tensorflow|ollama|vllm|text-generation-inference|text-embeddings|triton|jax|rapids|comfyui|stable-diffusion|whisper|llama|"
    r"sglang|localai|immich-machine|frigate|deepspeed|axolotl|unsloth|xinference|paddle|mxnet|caffe|kohya|invoke|tabby|webui|torch|jellyfin|plex|deepstream", re.I
)
_BROKEN = ("no-device-driver", "unknown-runtime", "runtime-binary-missing", "toolkit-cli-error", "runtime-not-configured", "requirement-unsatisfied")


def _variant(run: Run) -> str:
    if run.program in ("apptainer", "compose", "podman"):
        return run.program
    return "nodes" if run.nodes else "privileged" if run.privileged else ""


def check(
    container: Container | None, symptoms: Symptoms | None, torch: Torch | None, tensorflow: TensorFlow | None, jax: Jax | None,
    onnx: OnnxRuntime | None, gpus: Gpus | None, machine: Machine | None, kubernetes: Kubernetes | None,
    nodes: Nodes | None, driver: Driver | None, pci: Pci | None,
) -> Iterator[Finding]:
    if symptoms and symptoms.has(*_BROKEN):
        return
    missed = blind(symptoms, torch, tensorflow, jax, onnx)
    if not missed and symptoms and container and container.runs:
        missed = symptoms.cite("smi-absent-told", most=2)
    cpu_build = bool((torch and torch.cuda == "" and not torch.hip) or (symptoms and symptoms.has("torch-not-compiled-with-cuda")))
    told = bool(symptoms and symptoms.has("container-told"))
    runs = [r for r in container.runs if not _OTHER.search(r.image)] if container else []
    composed = any(r.gpu for r in runs if r.program == "compose")
    bare = [r for r in runs if not r.gpu and not (composed and r.program == "compose")]
    by_default = bool(container and container.default_runtime == "nvidia")
    if bare and not by_default and not (kubernetes and kubernetes.pods):
        run = next((r for r in bare if _WANTS.search(f"{r.image} {r.name} {' '.join(r.argv)}")), bare[0])
        wants = _WANTS.search(f"{run.image} {run.name} {' '.join(run.argv)}")
        elsewhere = bool(symptoms and any(hit.name.startswith("other-") for hit in symptoms.hits))
        if not missed and (elsewhere or not wants or any(r.gpu for r in runs) or seen(gpus, torch)):
            return
        sure = Certainty.CERTAIN if missed and not cpu_build else Certainty.LIKELY if missed or (run.program == "compose" and re.search(r"nvidia|cuda|[-:]gpu", run.image, re.I)) else Certainty.POSSIBLE
        yield Finding(
            certainty=sure,
            variant=_variant(run),
            values={"image": run.image or run.name or "the container", "program": run.program, "nodes": run.nodes, "service": run.name or run.image},
            fixes=(Fix("run-container-with-gpu" if run.program not in ("apptainer", "podman") else f"run-{run.program}-with-gpu", {"image": run.image or "IMAGE"}),),
            refs=(*([run.ref] if run.ref else []), *missed),
        )
        return
    container = container or Container()
    if (container.gpu_requested and container.runs) or (kubernetes and (kubernetes.pods or kubernetes.capacity is not None)):
        return
    empty = bool(nodes and nodes.listed and not nodes.nodes)
    card = bool((driver and driver.module_loaded) or (pci and pci.nvidia()))
    if container.inside and empty and card and driver and driver.installed is False and container.runtime != "kubernetes":
        yield Finding(
            certainty=Certainty.CERTAIN, variant="inside", fixes=(Fix("run-container-with-gpu", {"image": container.image or "IMAGE"}),),
            refs=(*container.about("inside", "container")[:1], *nodes.about("nodes")[:1], *(pci.refs[:2] if pci else ()), *driver.about("module_loaded", "module")[:1]) if nodes else (),
        )
        return
    banner = container.driver_seen is False
    hint = bool(symptoms and symptoms.has("banner-no-driver"))
    if (banner or hint) and not seen(gpus, torch):
        building = bool(symptoms and symptoms.has("docker-build-told"))  # no build step has a GPU
        yield Finding(certainty=Certainty.LIKELY, variant="banner", severity=Severity.NOTE if building else None, values={"image": container.image or ""}, fixes=(Fix("run-container-with-gpu", {"image": container.image or "IMAGE"}),),
                      refs=(*container.about("driver_seen"), *missed))
    elif missed and (container.inside or told) and container.runtime not in ("kubernetes",) and not cpu_build:
        works = bool(gpus and gpus.gpus)
        yield Finding(certainty=Certainty.LIKELY if works and told else Certainty.POSSIBLE, variant="inside", values={}, fixes=(Fix("run-container-with-gpu", {"image": container.image or "IMAGE"}),),
                      refs=(*missed, *(symptoms.cite("container-told", most=1) if symptoms else ()), *container.about("inside")[:1]))


RULE = Rule(
    slug="container-no-gpu-flag",
    layer=Layer.CONTAINER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-not-installed", "driver-module-not-loaded", "cuda-lib-missing", "device-node-missing", "no-nvidia-gpu", "cuda-unavailable", "wsl-host-driver"),
    settle=("docker inspect --format '{{.HostConfig.DeviceRequests}} {{.HostConfig.Runtime}}' CONTAINER",),
    see=(
        "https://docs.docker.com/engine/containers/gpu/",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
    ),
    en=Text(
        title="The container of {image} was started without --gpus: it has no GPU",
        why="Docker gives a container neither the /dev/nvidia* nodes nor the driver's libraries (libcuda.so.1, libnvidia-ml.so.1, nvidia-smi) unless it is asked to. They come from the host when the container is started; nothing has to be installed in the image.",
        fix="Start it with docker run --gpus all ... (or --gpus device=0; --runtime=nvidia on old Docker). The host needs the NVIDIA driver and nvidia-container-toolkit.",
    ),
    zh=Text(
        title="启动 {image} 的容器时没有加 --gpus：容器里没有 GPU",
        why="除非明确要求，Docker 不会把 /dev/nvidia* 设备和驱动库（libcuda.so.1、libnvidia-ml.so.1、nvidia-smi）放进容器。它们在容器启动时由宿主机挂载，镜像里不需要安装驱动。",
        fix="用 docker run --gpus all ...（或 --gpus device=0；旧版 Docker 用 --runtime=nvidia）启动。宿主机需要 NVIDIA 驱动和 nvidia-container-toolkit。",
    ),
    variants={
        "privileged": (
            Text(
                title="The container of {image} has --privileged but not --gpus: device nodes without the driver's libraries",
                why="--privileged shows the host's device nodes, but libcuda.so.1 and libnvidia-ml.so.1 of the host's driver are put into a container only by the NVIDIA runtime, which --gpus calls.",
                fix="Add --gpus all to docker run; --privileged is not needed for CUDA and can be dropped. The host needs nvidia-container-toolkit.",
            ),
            Text(
                title="{image} 的容器只有 --privileged 而没有 --gpus：有设备节点，却没有驱动库",
                why="--privileged 只暴露宿主机的设备节点；宿主机驱动的 libcuda.so.1 和 libnvidia-ml.so.1 要由 NVIDIA 运行时挂进容器，而它由 --gpus 触发。",
                fix="在 docker run 中加上 --gpus all；CUDA 不需要 --privileged，可以去掉。宿主机需要 nvidia-container-toolkit。",
            ),
        ),
        "nodes": (
            Text(
                title="Only device nodes ({nodes}) were passed to the container of {image}, not --gpus: the driver's libraries are missing",
                why="--device /dev/nvidia0 passes the node, but CUDA also needs libcuda.so.1 of the host's driver, /dev/nvidiactl and /dev/nvidia-uvm. The NVIDIA runtime brings them all.",
                fix="Use --gpus all (docker) or --device nvidia.com/gpu=all (podman, CDI) instead of single --device /dev/nvidia* options.",
            ),
            Text(
                title="只把设备节点（{nodes}）传给了 {image} 的容器，没有 --gpus：缺少驱动库",
                why="--device /dev/nvidia0 只传设备节点，CUDA 还需要宿主机驱动的 libcuda.so.1、/dev/nvidiactl 和 /dev/nvidia-uvm。NVIDIA 运行时会一并提供。",
                fix="改用 --gpus all（docker）或 --device nvidia.com/gpu=all（podman，CDI），不要逐个写 --device /dev/nvidia*。",
            ),
        ),
        "compose": (
            Text(
                title="The compose service {service} asks for no GPU",
                why="A service gets a GPU only by a device reservation (deploy.resources.reservations.devices with driver nvidia and capabilities [gpu]), by gpus: all in newer Compose, or by runtime: nvidia. It is the counterpart of docker run --gpus all.",
                fix="Add to the service: deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: all, capabilities: [gpu]}}]}}}}}} and run docker compose up -d --force-recreate.",
            ),
            Text(
                title="compose 服务 {service} 没有申请 GPU",
                why="服务只有通过设备预留（deploy.resources.reservations.devices，driver: nvidia，capabilities: [gpu]）、新版 Compose 的 gpus: all，或 runtime: nvidia 才能得到 GPU，相当于 docker run --gpus all。",
                fix="在该服务中加入：deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: all, capabilities: [gpu]}}]}}}}}}，然后 docker compose up -d --force-recreate。",
            ),
        ),
        "apptainer": (
            Text(
                title="{image} was started by Apptainer/Singularity without --nv: it has no driver libraries",
                why="Apptainer shows the device nodes, but binds libcuda.so.1, libnvidia-ml.so.1 and nvidia-smi of the host only with --nv (or --nvccli).",
                fix="Use apptainer exec --nv IMAGE ... (singularity exec --nv). For docker the counterpart is --gpus all.",
            ),
            Text(
                title="用 Apptainer/Singularity 启动 {image} 时没有加 --nv：容器内没有驱动库",
                why="Apptainer 会暴露设备节点，但只有加上 --nv（或 --nvccli）才会绑定宿主机的 libcuda.so.1、libnvidia-ml.so.1 和 nvidia-smi。",
                fix="使用 apptainer exec --nv 镜像 ...（singularity exec --nv）。在 docker 中对应 --gpus all。",
            ),
        ),
        "podman": (
            Text(
                title="The podman container of {image} was started without a GPU device",
                why="Podman passes GPUs by CDI: without --device nvidia.com/gpu=all (or --gpus all in podman 5) neither nodes nor driver libraries are in the container.",
                fix="Run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml once, then podman run --device nvidia.com/gpu=all --security-opt=label=disable ... (docker: --gpus all).",
            ),
            Text(
                title="用 podman 启动 {image} 的容器时没有传入 GPU 设备",
                why="podman 通过 CDI 传递 GPU：没有 --device nvidia.com/gpu=all（podman 5 也可用 --gpus all），容器里既无设备节点也无驱动库。",
                fix="先执行一次 nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml，再用 podman run --device nvidia.com/gpu=all --security-opt=label=disable ...（docker 对应 --gpus all）。",
            ),
        ),
        "banner": (
            Text(
                title="The image's entrypoint found no NVIDIA driver: the container was started without --gpus",
                why="NVIDIA's images print this where libcuda is not in the container. The driver's libraries come from the host when the container is started with a GPU.",
                fix="Start the container with docker run --gpus all ... (the host needs the driver and nvidia-container-toolkit; in Kubernetes: limits nvidia.com/gpu).",
            ),
            Text(
                title="镜像入口脚本没有检测到 NVIDIA 驱动：容器启动时没有加 --gpus",
                why="NVIDIA 官方镜像在容器内找不到 libcuda 时打印此行。驱动库在带 GPU 启动容器时由宿主机挂载。",
                fix="用 docker run --gpus all ... 启动（宿主机需要驱动和 nvidia-container-toolkit；Kubernetes 中要设置 limits: nvidia.com/gpu）。",
            ),
        ),
        "inside": (
            Text(
                title="The program runs in a container that shows no GPU: most often it was started without --gpus",
                why="Driver libraries and device nodes reach a container only when it was started with a GPU. Whether it was, the run command or docker inspect tells.",
                fix="Start it with docker run --gpus all ... (compose: a device reservation with capabilities [gpu]). If that fails, look at nvidia-container-toolkit on the host.",
            ),
            Text(
                title="程序运行在看不到 GPU 的容器里：最常见的原因是启动时没有加 --gpus",
                why="只有带 GPU 启动容器时，驱动库和设备节点才会进入容器。启动命令或 docker inspect 可以确认。",
                fix="用 docker run --gpus all ... 启动（compose：带 capabilities: [gpu] 的设备预留）。如果仍失败，检查宿主机上的 nvidia-container-toolkit。",
            ),
        ),
    },
)
