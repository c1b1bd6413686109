"""The device nodes /dev/nvidia* are absent."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Nodes
from ongpu.facts.environment import Commands, Machine
from ongpu.facts.hardware import Pci
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, nodes: Nodes | None, driver: Driver | None, container: Container | None, machine: Machine | None, pci: Pci | None,
    commands: Commands | None,
) -> Iterator[Finding]:
    if machine and (machine.wsl or machine.system in ("windows", "macos") or machine.jetson):
        return
    if pci and pci.complete and not pci.nvidia():
        return
    said = symptoms.cite("device-node-missing") if symptoms else ()
    named = (symptoms.value("node", "device-node-missing") or symptoms.value("node2") or symptoms.value("node3")) if symptoms else None
    gone = [path for path in nodes.absent if not path.endswith("nvidia-uvm")] if nodes else []
    have = {node.path for node in nodes.nodes} if nodes else set()
    if named and named.rstrip("*:") in have:
        named, said = None, ()
    cards = [path for path in have if path.startswith("/dev/nvidia") and path[11:].isdigit()]
    listed = bool(nodes and nodes.listed)
    lacking = [p for p in ("/dev/nvidiactl", "/dev/nvidia0") if p not in have and (p != "/dev/nvidia0" or not cards)] if listed else []
    loaded = driver.module_loaded if driver else None
    until = symptoms.cite("until-smi-run", most=2) if symptoms else ()
    booted = symptoms.cite("after-boot-told", most=2) if symptoms else ()
    twice = bool(symptoms and symptoms.has("no-devices-found") and driver and driver.smi_works and (container or (commands and commands.of("ctr", "docker", "podman", "nerdctl", "apptainer", "singularity"))))
    broken = bool(symptoms and symptoms.has("no-cuda-device", "gpu-idle-complaint", "hw-driver-silent", "cuda-unknown-999", "nvml-driver-not-loaded")) or twice
    if (until and (booted or broken)) or (twice and booted):
        yield Finding(
            certainty=Certainty.LIKELY, variant="until", values={"node": "/dev/nvidia*"}, fixes=(Fix("make-nodes"),),
            refs=(*until, *booted, *(symptoms.cite("no-devices-found", "no-cuda-device", most=2) if symptoms else ())),
        )  # fmt: skip
        return
    if not (said or gone or (lacking and (loaded or (have and not cards)))):
        return
    if loaded is False and not (said and container):
        return
    inside = bool(container and container.inside)
    engine = bool(container and (container.runtime or container.gpu_requested)) or bool(symptoms and symptoms.has("docker-device-error"))
    made = symptoms.cite("node-mknod") if symptoms else ()
    node = named or (gone[0] if gone else None) or (lacking[0] if lacking else "/dev/nvidia0")
    sure = bool(loaded and (lacking or gone)) or bool(said and engine)
    yield Finding(
        certainty=Certainty.CERTAIN if sure and not inside else Certainty.LIKELY if (said or gone or lacking) and not inside else Certainty.POSSIBLE,
        variant="container" if engine and not inside else "",
        values={"node": node},
        fixes=(Fix("make-nodes"),),
        refs=(*made, *said, *(nodes.about("absent", "nodes")[:6] if nodes else ()), *(driver.about("module_loaded")[:1] if driver and loaded else ())),
    )


RULE = Rule(
    slug="device-node-missing",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("driver-too-old-for-cuda", "device-permission-denied", "container-no-gpu-flag", "container-runtime-unconfigured", "gpu-not-on-bus", "uvm-module-missing", "suspend-uvm-broken"),
    settle=("ls -l /dev/nvidia*", "lsmod | grep nvidia", "ls -l $(command -v nvidia-modprobe)"),
    see=("https://docs.nvidia.com/cuda/cuda-installation-guide-linux/", "https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/faq.html"),
    en=Text(
        title="The device node {node} does not exist",
        why="Programs reach the driver through /dev/nvidiactl, /dev/nvidia0 ... and /dev/nvidia-uvm. Without a display server nothing creates them at boot: nvidia-modprobe (setuid) or nvidia-persistenced must. They are also absent where the kernel module is not loaded.",
        fix="Check lsmod | grep nvidia first. Then create the nodes: sudo nvidia-modprobe -c 0 && sudo nvidia-modprobe -u -c 0 (one -c for each card), and enable nvidia-persistenced so that they are there at each boot.",
    ),
    zh=Text(
        title="设备节点 {node} 不存在",
        why="程序通过 /dev/nvidiactl、/dev/nvidia0 …… 和 /dev/nvidia-uvm 访问驱动。没有图形界面时，启动过程中没有程序创建它们，需要 nvidia-modprobe（setuid）或 nvidia-persistenced 来创建。内核模块未加载时它们同样不存在。",
        fix="先检查 lsmod | grep nvidia。然后创建节点：sudo nvidia-modprobe -c 0 && sudo nvidia-modprobe -u -c 0（每张卡一个 -c），并启用 nvidia-persistenced，使每次启动都有这些节点。",
    ),
    variants={
        "until": (
            Text(
                title="The GPU is there only after somebody has run a CUDA program or nvidia-smi: nothing makes the device nodes at boot",
                why="Without a display server /dev/nvidia* (and nvidia-uvm) come into being at the first use by root, or by the setuid helper nvidia-modprobe. A container, a "
                "service or a plain user that comes first finds none.",
                fix="Enable nvidia-persistenced, or run sudo nvidia-modprobe -u -c 0 in a unit before docker, containerd or the service starts; install nvidia-modprobe "
                "(setuid root) so that ordinary users can make the nodes too.",
            ),
            Text(
                title="要等有人运行过 nvidia-smi 或 CUDA 程序后 GPU 才可用：开机时没有程序创建设备节点",
                why="没有图形界面时，/dev/nvidia*（以及 nvidia-uvm）要等 root 首次使用、或由 setuid 的 nvidia-modprobe 创建。先启动的容器、服务或普通用户就找不到它们。",
                fix="启用 nvidia-persistenced，或在 docker、containerd、服务启动之前用一个 unit 执行 sudo nvidia-modprobe -u -c 0；安装 nvidia-modprobe"
                "（setuid root），使普通用户也能创建节点。",
            ),
        ),
        "container": (
            Text(
                title="The container engine wants {node}, which does not exist on the host",
                why="The engine passes device nodes by name. After a boot they exist only once the driver (and nvidia_uvm) was loaded and the nodes were made; a container with a fixed device list then fails to start.",
                fix="On the host load the driver and nvidia_uvm before docker starts: sudo nvidia-modprobe -u -c 0 at boot (or enable nvidia-persistenced), then start the container. After a driver change recreate the container or the CDI file (sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml).",
            ),
            Text(
                title="容器引擎需要 {node}，但宿主机上没有这个节点",
                why="引擎按名字传递设备节点。开机后，只有驱动（以及 nvidia_uvm）加载并建好节点，它们才存在；设备列表写死的容器就会启动失败。",
                fix="在宿主机上于 docker 启动之前加载驱动和 nvidia_uvm：开机执行 sudo nvidia-modprobe -u -c 0（或启用 nvidia-persistenced），再启动容器。更换驱动后，重建容器或重新生成 CDI 文件（sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml）。",
            ),
        ),
    },
)
