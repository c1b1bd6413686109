# ruff: noqa: E501 - the words stand in one piece
"""Why Slurm lets a job wait or ended it, in plain words and with what to do.

The names are those of https://slurm.schedmd.com/job_reason_codes.html (all of them, 25.05), of squeue(1) 22.05 and of
src/common/job_state_reason.c up to 26.05; those of limits are put together from what is limited, for whom and how.
"""

import re
from collections.abc import Mapping

from ongpu.lazy import lazy

# What stands where others have a name (slurmctld's job_mgr.c and job_scheduler.c)
PHRASES = (("held state", "JobHeldUser"), ("requeued held", "JobHeldUser"), ("Nodes required for job are DOWN", "ReqNodeNotAvail"))
HELD = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"})
_ASSOC = ("sacctmgr show assoc user=$USER", "sacctmgr show assoc user=$USER")
_QOS = ("sacctmgr show qos", "sacctmgr show qos")

# name: (English, what to do, Chinese, what to do)
WORDS: Mapping[str, tuple[str, str, str, str]] = {
    "None": ("Slurm has not looked at it yet", "wait some seconds (bf_interval, sched_interval)", "Slurm 还没有考虑它", "稍等几秒（bf_interval、sched_interval）"),
    "WaitingForScheduling": ("Slurm has not looked at it yet", "wait some seconds (bf_interval, sched_interval)", "Slurm 还没有考虑它", "稍等几秒（bf_interval、sched_interval）"),
    "Resources": ("it comes next, and waits for GPUs, CPUs or memory that others hold", "ask for fewer GPUs, less memory or CPUs, or give a time limit so that it "
                  "fits a gap", "轮到它了，在等别人占用的 GPU、CPU 或内存", "少要 GPU、内存或 CPU，或写明时限以便填入空档"),
    "Priority": ("jobs of higher priority come first", "a time limit lets it run in a gap before them; sprio -l shows why they come first",
                 "优先级更高的作业在前", "写明时限可在它们之前填入空档；sprio -l 可看优先级来源"),
    "Dependency": ("it waits for other jobs to end", "scontrol show job names them", "它在等其他作业结束", "scontrol show job 可看是哪些"),
    "DependencyNeverSatisfied": ("a job that it waits for ended the wrong way: it will never start", "cancel it, mend the other, submit both again",
                                 "它所等的作业没有按要求结束：它永远不会启动", "取消它，修好前一个，再一起提交"),
    "BeginTime": ("its start time has not come (after a requeue Slurm waits about two minutes)", "at once: scontrol update JobId=ID StartTime=now",
                  "还没到它的启动时间（重新排队后 Slurm 约等两分钟）", "立即启动：scontrol update JobId=ID StartTime=now"),
    "JobHeldUser": ("it is held by its owner (or Slurm requeued it held)", "ongpu release ID", "被所有者挂起（或 Slurm 重新排队时挂起）", "ongpu release ID"),
    "JobHeldAdmin": ("an operator of Slurm holds it", "ask them: only they can release it", "被 Slurm 管理员挂起", "请联系管理员：只有他们能放行"),
    "JobHoldMaxRequeue": ("it was requeued too often (MAX_BATCH_REQUEUE, 5): it is held", "find why it fails to start (slurmd.log of the node), then ongpu release ID",
                          "重新排队次数过多（MAX_BATCH_REQUEUE，5 次）：已挂起", "先查它为何起不来（节点的 slurmd.log），再 ongpu release ID"),
    "JobArrayTaskLimit": ("its array runs as many at once as it may", "more at once: scontrol update JobId=ID ArrayTaskThrottle=N",
                          "该数组同时运行的数量已到上限", "提高上限：scontrol update JobId=ID ArrayTaskThrottle=N"),
    "JobLaunchFailure": ("it could not be started or was killed at its start: a working folder, output file or script that the node does not see, a failed prolog",
                         "the end of the node's SlurmdLogFile", "无法启动或刚启动就被杀：节点看不到工作目录、输出文件或脚本，或 prolog 失败", "看该节点 SlurmdLogFile 的末尾"),
    "ReqNodeNotAvail": ("a node that it needs is down, drained, reserved or busy", "sinfo -R says why; a reservation may be near: scontrol show reservation",
                        "所需节点处于 down、drain、被预留或忙碌", "sinfo -R 可看原因；可能即将有预留：scontrol show reservation"),
    "NodeDown": ("a node that it needs is down", "sinfo -R; then scontrol update NodeName=NODE State=RESUME", "所需节点 down", "sinfo -R；处理后 scontrol update NodeName=节点 State=RESUME"),
    "PartitionNodeLimit": ("it asks for more nodes than its partition has or allows, or they are down or drained", "sinfo -R; sinfo -o '%R %D %l'",
                           "所要节点数超过分区的限制，或节点处于 down、drain", "sinfo -R；sinfo -o '%R %D %l'"),
    "PartitionTimeLimit": ("its time limit is above the partition's", "scontrol update JobId=ID TimeLimit=...; sinfo -o '%R %l'", "时限超过分区上限", "scontrol update JobId=ID TimeLimit=...；sinfo -o '%R %l'"),
    "PartitionDown": ("its partition is closed", "scontrol show partition; ask the operator", "分区已关闭", "scontrol show partition；请联系管理员"),
    "PartitionInactive": ("its partition starts no jobs", "scontrol show partition; ask the operator", "分区不启动作业", "scontrol show partition；请联系管理员"),
    "PartitionConfig": ("it does not keep to what its partition allows", "scontrol show partition", "不符合分区的规定", "scontrol show partition"),
    "AccountNotAllowed": ("its account may not use that partition", "scontrol show partition (AllowAccounts)", "账户不能使用该分区", "scontrol show partition（AllowAccounts）"),
    "AccountingPolicy": ("a limit of its account or QOS", "sacctmgr show assoc user=$USER; sacctmgr show qos", "账户或 QOS 的限额", "sacctmgr show assoc user=$USER；sacctmgr show qos"),
    "AssociationJobLimit": ("its account runs as many jobs as it may", *_ASSOC[:1], "账户的作业数已到上限", *_ASSOC[1:]),
    "AssociationResourceLimit": ("its account has reached a limit", *_ASSOC[:1], "账户的某项限额已满", *_ASSOC[1:]),
    "AssociationTimeLimit": ("its account has used up its time", *_ASSOC[:1], "账户的时间配额已用完", *_ASSOC[1:]),
    "QOSJobLimit": ("its QOS runs as many jobs as it may", *_QOS[:1], "QOS 的作业数已到上限", *_QOS[1:]),
    "QOSResourceLimit": ("its QOS has reached a limit", *_QOS[:1], "QOS 的某项限额已满", *_QOS[1:]),
    "QOSTimeLimit": ("its QOS has used up its time", *_QOS[:1], "QOS 的时间配额已用完", *_QOS[1:]),
    "QOSUsageThreshold": ("its account has used more than its QOS lets it", "wait until the usage has decayed: sshare -U", "账户用量超过 QOS 的阈值", "等用量衰减：sshare -U"),
    "QOSNotAllowed": ("its QOS is not allowed for its account or partition", "sacctmgr show assoc user=$USER format=account,qos", "账户或分区不允许该 QOS", "sacctmgr show assoc user=$USER format=account,qos"),
    "InvalidAccount": ("its account does not exist, or is not its owner's", "sacctmgr show assoc user=$USER", "账户不存在，或不属于提交者", "sacctmgr show assoc user=$USER"),
    "InvalidQOS": ("its QOS does not exist, or is not its owner's", "sacctmgr show assoc user=$USER format=account,qos", "QOS 不存在，或提交者不能使用", "sacctmgr show assoc user=$USER format=account,qos"),
    "BadConstraints": ("nothing here can ever run it as it was asked for", "sinfo -N -o '%N %c %m %G %f' shows what there is; submit it again", "按其要求，这里没有任何节点能运行它", "sinfo -N -o '%N %c %m %G %f' 可看现有资源；修改后重新提交"),
    "Constraints": ("no node that fits it is free now", "wait, or ask for less", "目前没有空闲且符合要求的节点", "等待，或降低要求"),
    "MaxMemPerLimit": ("it asks for more memory per CPU or node than is allowed", "ask for less, or for more CPUs: scontrol show config | grep MaxMem",
                       "每 CPU 或每节点的内存超过上限", "少要内存，或多要 CPU：scontrol show config | grep MaxMem"),
    "Licenses": ("it waits for a licence", "scontrol show license", "它在等许可证", "scontrol show license"),
    "Reservation": ("its reservation has not begun", "scontrol show reservation", "它的预留还没开始", "scontrol show reservation"),
    "ReservationDeleted": ("its reservation is gone", "scontrol update JobId=ID ReservationName=", "它的预留已被删除", "scontrol update JobId=ID ReservationName="),
    "Prolog": ("its prolog still runs on the node", "wait; one that hangs: slurmd.log, PrologEpilogTimeout", "节点上的 prolog 还在运行", "等待；若卡住：看 slurmd.log 与 PrologEpilogTimeout"),
    "Cleaning": ("what its last run left is being cleaned up", "wait; processes that cannot be killed sleep in the driver: dmesg on the node", "上次运行的残留正在清理",
                 "等待；杀不掉的进程可能卡在驱动里：看该节点 dmesg"),
    "DeadLine": ("it cannot end before its deadline", "submit it again with a later one", "它无法在截止时间前结束", "推迟截止时间后重新提交"),
    "SchedDefer": ("Slurm starts nothing at once here (SchedulerParameters=defer)", "submit it as a batch job", "这里不立即启动作业（SchedulerParameters=defer）", "改用批处理提交"),
    "DeferBatch": ("a batch job of its array or set is deferred", "wait", "同组的批处理作业被推迟", "等待"),
    "FedJobLock": ("the clusters of the federation have not agreed on where it runs", "scontrol show federation", "联邦中的集群尚未商定由谁运行", "scontrol show federation"),
    "FrontEndDown": ("no front-end node is there to start it", "ask the operator", "没有可用的前端节点", "请联系管理员"),
    "BurstBufferOperation": ("its burst buffer failed", "scontrol show burst", "突发缓冲操作失败", "scontrol show burst"),
    "BurstBufferResources": ("the burst buffer has no room for it", "scontrol show burst", "突发缓冲空间不足", "scontrol show burst"),
    "BurstBufferStageIn": ("its files are being brought into the burst buffer", "wait", "正在把文件载入突发缓冲", "等待"),
    "ReservationInvalid": ("its reservation cannot be used", "scontrol show reservation", "它的预留不可用", "scontrol show reservation"),
    "MaxPoweredUpNodes": ("as many nodes are powered up as may be", "wait for one to be free: scontrol show config | grep max_powered_nodes", "已开机的节点数到达上限",
                          "等其中有空闲：scontrol show config | grep max_powered_nodes"),
    "MpiPortsBusy": ("the ports reserved for MPI are taken", "wait; scontrol show config | grep MpiParams", "为 MPI 保留的端口已用完", "等待；scontrol show config | grep MpiParams"),
    "NvidiaImexChannels": ("NVIDIA's IMEX channels are all in use", "wait; the operator raises imex_channel_count in SwitchParameters", "NVIDIA IMEX 通道已用完",
                           "等待；管理员可提高 SwitchParameters 的 imex_channel_count"),
    "InactiveLimit": ("it was idle for longer than InactiveLimit", "scontrol show config | grep InactiveLimit", "空闲时间超过 InactiveLimit", "scontrol show config | grep InactiveLimit"),
    # how it ended
    "NonZeroExitCode": ("it ended with an error of its own", "ongpu logs ID", "程序自身出错结束", "ongpu logs ID"),
    "TimeLimit": ("it reached its time limit", "a longer limit, or a checkpoint signal (--checkpoint) and go on from there", "到达时限", "加长时限，或声明检查点信号（--checkpoint）后续跑"),
    "OutOfMemory": ("it used more host memory than it asked for, and the kernel killed it", "ask for more: --host-memory", "主机内存超过申请量，被内核杀死", "申请更多：--host-memory"),
    "SystemFailure": ("Slurm, a file system or the network failed", "slurmctld.log; submit it again", "Slurm、文件系统或网络故障", "看 slurmctld.log；重新提交"),
    "RaisedSignal": ("a signal ended it", "ongpu logs ID", "被信号终止", "ongpu logs ID"),
    "RaisedSignal:53(Real-time_signal_19)": ("its output file or working folder could not be opened on the node", "a folder that the node sees and you may write to",
                                             "节点上打不开输出文件或工作目录", "改用节点可见且可写的目录"),
}  # fmt: skip

_LIMIT = lazy(
    r"(AssocGrp|AssocMax|QOSGrp|QOSMax|QOSMin|Max)(BB|Billing|Cpu|CPU|Energy|GRES|Jobs?|License|Memory|Mem|Node|SubmitJobs?|Unknown|WallDuration|Wall)"
    r"(RunMinutes|RunMins|Minutes)?(NotSatisfied)?(?:Per(Job|Node|User|Account))?(?:Limit)?"
)
_WHAT = {
    "BB": ("burst buffer", "突发缓冲"), "Billing": ("billing units", "计费单位"), "Cpu": ("CPUs", "CPU"), "CPU": ("CPUs", "CPU"), "Energy": ("energy", "能耗"),
    "GRES": ("GPUs", "GPU"), "Job": ("jobs at once", "同时运行的作业数"), "Jobs": ("jobs at once", "同时运行的作业数"), "License": ("licences", "许可证"),
    "Mem": ("memory", "内存"), "Memory": ("memory", "内存"), "Node": ("nodes", "节点"), "SubmitJob": ("jobs queued and running", "排队与运行的作业总数"),
    "SubmitJobs": ("jobs queued and running", "排队与运行的作业总数"), "Unknown": ("some resource", "某种资源"),
    "Wall": ("time", "时长"), "WallDuration": ("time", "时长"),
}  # fmt: skip
_PER = {
    "Job": ("a job", "单个作业"),
    "Node": ("a node of a job", "作业的单个节点"),
    "User": ("a user", "单个用户"),
    "Account": ("an account", "单个账户"),
}


def words(reason: str) -> tuple[str, str, str, str] | None:
    """(English, what to do, Chinese, what to do) of a reason as squeue names it, with or without what stands behind it; None: not known."""
    name = reason.strip().strip("()").partition(",")[0].strip()
    if name in WORDS:
        return WORDS[name]
    for phrase, instead in PHRASES:
        if phrase in reason:
            return WORDS[instead]
    return _limit(name) or WORDS.get(name.partition(":")[0].partition(" ")[0])


def _limit(name: str) -> tuple[str, str, str, str] | None:
    match = _LIMIT.fullmatch(name)
    if not match:
        return None
    family, what, minutes, _, per = match.groups()
    english, chinese = _WHAT[what]
    if minutes:
        english, chinese = (
            (f"minutes of {english}", f"{chinese}的分钟数")
            if minutes == "Minutes"
            else (f"minutes of {english} of what runs", f"运行中{chinese}的分钟数")
        )
    assoc = family.startswith("Assoc")
    ours, ours_zh = ("account", "账户") if assoc else ("QOS", "QOS")
    do, do_zh = _ASSOC if assoc else _QOS
    if family == "QOSMin":
        return (
            f"it asks for fewer {english} than its QOS demands",
            f"ask for more, or another QOS: {do}",
            f"所要{chinese}少于 QOS 的下限",
            f"多要一些，或换 QOS：{do_zh}",
        )
    if family.endswith("Grp"):
        return (
            f"its {ours} holds as much as it may in all: {english}", f"wait for jobs of the {ours} to end: {do}",
            f"{ours_zh}的总量已到上限：{chinese}", f"等该{ours_zh}的作业结束：{do_zh}",
        )  # fmt: skip
    whom, whom_zh = _PER.get(per or ("User" if what in ("Job", "Jobs", "SubmitJob", "SubmitJobs") else "Job"), _PER["Job"])
    if per in ("User", "Account") or what in ("Job", "Jobs", "SubmitJob", "SubmitJobs"):
        return (
            f"{whom} may have no more under its {ours}: {english}", f"wait for jobs of that owner to end: {do}",
            f"{whom_zh}在该{ours_zh}下已到上限：{chinese}", f"等自己的作业结束：{do_zh}",
        )  # fmt: skip
    return (
        f"{whom} may not ask for so much under its {ours}: {english}", f"ask for less: {do}",
        f"{whom_zh}的申请超过该{ours_zh}的上限：{chinese}", f"降低要求：{do_zh}",
    )  # fmt: skip


def spaced(reason: str) -> str:
    """ "Job Held User": a name that has no words here, made readable."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason[:120])
