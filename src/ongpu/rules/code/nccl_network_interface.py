"""NCCL or Gloo uses the wrong network interface, or finds none."""

from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.intent import goes_on
from ongpu.facts.nccl import NcclLog
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(nccl: NcclLog | None, symptoms: Symptoms | None, variables: Variables | None) -> Iterator[Finding]:
    none = symptoms.cite("nccl-no-interface", most=2) if symptoms else ()
    refused = tuple(r for r in (symptoms.cite("nccl-connect", most=3) if symptoms else ()))
    infiniband = symptoms.cite("nccl-ib", most=2) if symptoms else ()
    odd = [i for i in (nccl.interfaces if nccl else ()) if i == "lo" or i.startswith(("docker", "br-", "virbr", "veth", "cni", "flannel", "tailscale", "wg", "lo"))]
    chosen_by_hand = symptoms.value("name", "nccl-interface-set") if symptoms else None
    garbage = tuple(h.ref for h in symptoms.seen("nccl-version-differs") if "is neither" in h.ref.quote) if symptoms and chosen_by_hand else ()
    helps = symptoms.cite("ifname-told", most=2) if symptoms and symptoms.has("hang-words", "stands-still", "nccl-timeout-line", "nccl-unhandled") else ()
    helps = helps or (symptoms.cite("ifname-told", most=2) if symptoms and symptoms.has("per-rank-launch") else ())
    # several interfaces are used side by side, bridges of containers among them, and a system call failed
    bridges = symptoms.cite("nccl-bridges", most=1) if symptoms and any("system" in h.ref.quote.lower() for h in symptoms.seen("nccl-unhandled")) else ()
    none = (*none, *garbage, *helps, *bridges)
    if symptoms and symptoms.has("nccl-init-complete") and not none and not refused and all("No device" in r.quote for r in infiniband):
        return  # without InfiniBand NCCL takes sockets: the communicator was made
    if refused and not none and all("[c10d]" in r.quote and "client socket" in r.quote for r in refused) and goes_on(symptoms):
        return  # it tried again, and the run went on
    if not none and not refused and not infiniband:
        return
    setting = (variables.get("NCCL_SOCKET_IFNAME") if variables else None) or chosen_by_hand
    chosen = odd or list(nccl.interfaces if nccl else ())
    yield Finding(
            fixes=(Fix("nccl-interfaces"),),
        certainty=Certainty.CERTAIN if odd and refused else Certainty.LIKELY if none or odd or refused else Certainty.POSSIBLE,
        variant="infiniband" if infiniband and not (none or refused) else "none" if none and not odd else "",
        values={"interfaces": chosen or "an interface that the other machine cannot reach", "setting": setting or "not set"},
        refs=(
            *(nccl.interface_lines[:3] if nccl else ()), *none, *refused, *infiniband, *(variables.cite("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") if variables else ()),
        ),
    )


RULE = Rule(
    slug="nccl-network-interface",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    hides=("nccl-timeout",),
    see=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html", "https://github.com/horovod/horovod/issues/666",),
    en=Text(
        title="NCCL talks over {interfaces}, which the other ranks cannot reach (NCCL_SOCKET_IFNAME: {setting})",
        why="NCCL picks network interfaces by itself, or by NCCL_SOCKET_IFNAME. A list that only excludes docker0 (^docker0) lets the loopback lo back in; bridge and VPN interfaces are not reachable from another machine either.",
        fix="Set NCCL_SOCKET_IFNAME to the routable interface's name (ip -br addr; for example eth0, or ^docker0,lo), the same for GLOO_SOCKET_IFNAME, or leave it unset; open the firewall between the nodes. NCCL_DEBUG=INFO prints the choice.",
    ),
    zh=Text(
        title="NCCL 在用 {interfaces} 通信，其他 rank 连不上（NCCL_SOCKET_IFNAME：{setting}）",
        why="NCCL 会自动或按 NCCL_SOCKET_IFNAME 选择网卡。只排除 docker0（^docker0）会让回环 lo 重新入选；网桥和 VPN 网卡在另一台机器上同样不可达。",
        fix="把 NCCL_SOCKET_IFNAME 设为可路由网卡的名字（ip -br addr 查看；例如 eth0，或 ^docker0,lo），GLOO_SOCKET_IFNAME 同理，或不设；放开节点间防火墙。NCCL_DEBUG=INFO 会打印实际选择。",
    ),
    variants={
        "none": (
            Text(
                title="No usable network interface was found for NCCL or Gloo (NCCL_SOCKET_IFNAME: {setting})",
                why="The interface named in NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME does not exist here, is down, or the host name resolves to an address that no interface has.",
                fix="ip -br addr lists the names; set NCCL_SOCKET_IFNAME (and GLOO_SOCKET_IFNAME) to one that is up, or unset them; correct /etc/hosts. On one machine without network: NCCL_SOCKET_IFNAME=lo.",
            ),
            Text(
                title="NCCL 或 Gloo 找不到可用网卡（NCCL_SOCKET_IFNAME：{setting}）",
                why="NCCL_SOCKET_IFNAME 或 GLOO_SOCKET_IFNAME 指定的网卡在这里不存在或未启用，或主机名解析到了没有网卡拥有的地址。",
                fix="用 ip -br addr 查看名称；把 NCCL_SOCKET_IFNAME（和 GLOO_SOCKET_IFNAME）设为已启用的网卡，或取消设置；修正 /etc/hosts。单机无网络时：NCCL_SOCKET_IFNAME=lo。",
            ),
        ),
        "infiniband": (
            Text(
                title="NCCL's InfiniBand (RDMA) transport fails",
                why="Completion errors of NET/IB come from a wrong GID index (RoCE), a port that is down, missing memlock limits in a container, or devices that cannot reach each other.",
                fix="Check ibstat and ulimit -l (unlimited); set NCCL_IB_GID_INDEX and NCCL_IB_HCA for the fabric. To compare, NCCL_IB_DISABLE=1 goes over sockets (with NCCL_SOCKET_IFNAME).",
            ),
            Text(
                title="NCCL 的 InfiniBand（RDMA）传输失败",
                why="NET/IB 的完成错误来自 GID index 不对（RoCE）、端口未启用、容器里 memlock 限制，或设备之间不可达。",
                fix="检查 ibstat 和 ulimit -l（应为 unlimited）；按网络设置 NCCL_IB_GID_INDEX 和 NCCL_IB_HCA。对比时用 NCCL_IB_DISABLE=1 走 socket（配合 NCCL_SOCKET_IFNAME）。",
            ),
        ),
    },
)
