"""The user may not open the /dev/nvidia* nodes."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Node, Nodes
from ongpu.facts.environment import Commands, Machine
from ongpu.facts.framework import Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

MATTER = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")


def check(
    symptoms: Symptoms | None, nodes: Nodes | None, machine: Machine | None, container: Container | None, torch: Torch | None, commands: Commands | None
) -> Iterator[Finding]:
    if machine and (machine.system in ("windows", "macos")):
        return
    said = symptoms.cite("device-permission") if symptoms else ()
    words = symptoms.cite("root-only-told", most=2) if symptoms and not symptoms.has("until-smi-run", "container-told") else ()
    both = _root_only(torch, commands)
    mode = symptoms.cite("device-file-mode") if symptoms else ()
    refused = symptoms.cite("nodes-refused-told", most=2) if symptoms else ()
    narrow = next((hit.groups["mode"] for hit in symptoms.seen("device-file-mode") if hit.groups.get("mode", "0666")[-1] not in "67"), None) if symptoms else None
    shut: list[Node] = []
    group = ""
    odd = False
    for node in nodes.nodes if nodes else ():
        if node.path not in MATTER and not node.path[11:].isdigit():
            continue
        if node.openable is False or (node.mode and not _others(node.mode) and node.openable is None and not _may(node, nodes)):
            shut.append(node)
        else:
            continue
        if node.mode and not _group(node.mode):
            odd = True
        elif node.group not in ("root", None):
            group = node.group or ""
    known_user = bool(nodes and nodes.groups is not None)
    failing = bool(torch and torch.available is False) or bool(words) or bool(symptoms and symptoms.has("gpu-idle-complaint", "hw-driver-silent", "no-cuda-device", "cuda-unknown-999", "smi-no-communication", "cuda-init-3", "nvml-driver-not-loaded", "torch-no-driver"))
    cuda = symptoms.cite("gpu-idle-complaint", "no-cuda-device", "nvidia-told", most=1) if symptoms else ()
    if not said and not shut and (both or (words and cuda)):
        yield Finding(
            certainty=Certainty.LIKELY, variant="root", fixes=(Fix("fix-node-permissions"),), refs=(*both, *words, *cuda),
            values={"group": "video", "user": (nodes.user if nodes else None) or "$USER"},
        )  # fmt: skip
        return
    if not said and not shut and narrow and (refused or words):
        gid = next((hit.groups["gid"] for hit in symptoms.seen("device-file-mode") if hit.groups.get("gid", "0") != "0"), None) if symptoms else None
        yield Finding(
            certainty=Certainty.LIKELY, fixes=(Fix("fix-node-permissions"), Fix("join-group")), refs=(*mode, *refused, *words),
            values={"node": "/dev/nvidia*", "mode": narrow, "group": f"video (gid {gid})" if gid else "video", "user": "$USER", "who": nodes.user if nodes else None},
        )  # fmt: skip
        return
    if not said and not shut:
        return
    if shut and not said and not odd and not known_user and not failing and not any(n.openable is False for n in shut):
        return  # mode 0660 is fine for who is in the group
    named = any("/dev/nvidia" in ref.quote for ref in said)
    sure = bool(shut and (odd or known_user or any(n.openable is False for n in shut))) or named
    yield Finding(
        certainty=Certainty.CERTAIN if sure else Certainty.LIKELY,
        variant="mode" if odd or (mode and not group) else "",
        values={"node": shut[0].path if shut else "/dev/nvidia*", "mode": (shut[0].mode if shut else None) or "?", "group": group or (shut[0].group if shut else None) or "video",
                "user": (nodes.user if nodes else None) or "$USER", "who": nodes.user if nodes else None},
        fixes=(Fix("fix-node-permissions"), *((Fix("join-group"),) if group else ())),
        refs=(*said, *words, *(symptoms.cite("selinux-denied", most=2) if symptoms else ()), *(n.ref for n in shut if n.ref), *mode, *(nodes.about("groups")[:1] if nodes and known_user else ())),
    )


def _root_only(torch: Torch | None, commands: Commands | None) -> tuple[Ref, ...]:
    """The lines that show the same check True under sudo and False without."""
    if not torch or not commands or not any(c.startswith("available:") for c in torch.conflicts):
        return ()
    runs = [run for run in commands.ran if run.program.startswith("python")]
    sudo = [run for run in runs if "sudo" in run.text]
    return torch.about("available")[:2] if sudo and len(sudo) < len(runs) else ()


def _others(mode: str) -> bool:
    return mode[7:9] == "rw"


def _group(mode: str) -> bool:
    return mode[4:6] == "rw" and mode[1:3] == "rw"


def _may(node: Node, nodes: Nodes | None) -> bool:
    """Whether the user named by `id` may open it by owner or group."""
    if nodes is None or not node.mode:
        return False
    if nodes.user == "root" or (nodes.user and nodes.user == node.owner):
        return True
    return bool(nodes.groups and node.group in nodes.groups and _group(node.mode))


RULE = Rule(
    slug="device-permission-denied",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("device-node-missing", "driver-too-old-for-cuda", "uvm-module-missing", "suspend-uvm-broken", "cpu-only-build", "driver-module-not-loaded", "driver-not-installed", "wrong-interpreter", "cuda-visible-devices-hides"),
    settle=("ls -l /dev/nvidia*", "id", "grep -r NVreg_DeviceFile /etc/modprobe.d"),
    see=("https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/faq.html", "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"),
    en=Text(
        title="{who:*|This user} may not open {node} ({mode:mode *, }group {group})",
        why="CUDA opens /dev/nvidiactl, /dev/nvidia0 ... and /dev/nvidia-uvm for reading and writing as the user who runs the program. Where they are open only to a group, users and services outside it see no GPU, while root does. SELinux or AppArmor can deny it too (ausearch -m avc).",
        fix="Add the user to the group: sudo usermod -aG {group} {user}, then log in anew (for a service: restart it, or SupplementaryGroups={group} in its unit; in a container: --group-add). Or open the nodes to all: NVreg_DeviceFileMode=0666 in /etc/modprobe.d.",
    ),
    zh=Text(
        title="{who:* |此用户}没有权限打开 {node}（{mode:权限 *，}属组 {group}）",
        why="CUDA 以运行程序的用户身份读写打开 /dev/nvidiactl、/dev/nvidia0 …… 和 /dev/nvidia-uvm。如果它们只对某个组开放，组外的用户和服务就看不到 GPU，而 root 可以。SELinux 或 AppArmor 也可能拒绝（ausearch -m avc）。",
        fix="把用户加入该组：sudo usermod -aG {group} {user}，然后重新登录（服务则重启，或在 unit 中写 SupplementaryGroups={group}；容器用 --group-add）。或对所有人开放：在 /etc/modprobe.d 中设置 NVreg_DeviceFileMode=0666。",
    ),
    variants={
        "root": (
            Text(
                title="Only root sees the GPU: the user may not open /dev/nvidia*",
                why="The same program finds the GPU as root (sudo) and not as a plain user. Then the nodes are open to root or to a group only (video, render, vglusers), or "
                "the user's environment differs (PATH, LD_LIBRARY_PATH); ls -l /dev/nvidia* tells which.",
                fix="Look at ls -l /dev/nvidia* and id. Add the user to the group: sudo usermod -aG {group} {user}, log in anew; or open the nodes with "
                "NVreg_DeviceFileMode=0666 in /etc/modprobe.d.",
            ),
            Text(
                title="只有 root 能看到 GPU：普通用户无权打开 /dev/nvidia*",
                why="同一程序用 root（sudo）能找到 GPU，普通用户不行。要么设备节点只对 root 或某个组（video、render、vglusers）开放，要么用户环境不同"
                "（PATH、LD_LIBRARY_PATH）；ls -l /dev/nvidia* 可以分辨。",
                fix="查看 ls -l /dev/nvidia* 与 id。把用户加入该组：sudo usermod -aG {group} {user}，重新登录；或在 /etc/modprobe.d 设 "
                "NVreg_DeviceFileMode=0666。",
            ),
        ),
        "mode": (
            Text(
                title="The device nodes have wrong permissions ({node} is {mode})",
                why="The nodes get their mode from the module option NVreg_DeviceFileMode (octal, default 0666), or from a udev rule. A decimal or mistyped value yields such odd modes, and nobody but root can open the GPU.",
                fix="Correct NVreg_DeviceFileMode in /etc/modprobe.d (0666, or 0660 with NVreg_DeviceFileGID; octal with a leading 0), update the initramfs and reload the module. At once: sudo chmod 0666 /dev/nvidia*.",
            ),
            Text(
                title="设备节点权限不对（{node} 为 {mode}）",
                why="节点的权限来自模块参数 NVreg_DeviceFileMode（八进制，默认 0666）或 udev 规则。写成十进制或写错就会得到这种奇怪的权限，除 root 外谁也打不开 GPU。",
                fix="在 /etc/modprobe.d 中改正 NVreg_DeviceFileMode（0666，或 0660 加 NVreg_DeviceFileGID；八进制要带前导 0），更新 initramfs 并重新加载模块。临时办法：sudo chmod 0666 /dev/nvidia*。",
            ),
        ),
    },
)
