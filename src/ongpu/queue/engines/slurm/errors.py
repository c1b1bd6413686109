# ruff: noqa: E501 - the words stand in one piece
"""What Slurm's programs say when they refuse, and what to do about it, in both languages.

The messages are those of Slurm's src/common/slurm_errno.c and of its client commands, 22.05 to 25.05; matched case aside.
"""

import re
from collections.abc import Sequence

from ongpu.lazy import lazy

# (a part of the message, English, Chinese, Slurm itself is not there). The first that is found counts.
TABLE: Sequence[tuple[str, str, str, bool]] = (
    ("munge.socket", "munge is not running on this machine, so Slurm cannot tell who you are: systemctl start munge",
     "本机的 munge 没有运行，Slurm 无法确认你的身份：systemctl start munge", True),
    ("munge encode failed", "munge is not running on this machine, so Slurm cannot tell who you are: systemctl start munge",
     "本机的 munge 没有运行，Slurm 无法确认你的身份：systemctl start munge", True),
    ("invalid authentication credential", "munge's key or clock here is not that of the controller: the same /etc/munge/munge.key (mode 0400, owner munge) "
     "on all machines, clocks in step (timedatectl), then systemctl restart munge",
     "本机 munge 的密钥或时钟与控制节点不一致：所有机器使用同一份 /etc/munge/munge.key（权限 0400，属主 munge）、时钟同步（timedatectl），然后 systemctl restart munge", True),
    ("protocol authentication error", "munge's key or clock here is not that of the controller: the same /etc/munge/munge.key (mode 0400, owner munge) "
     "on all machines, clocks in step (timedatectl), then systemctl restart munge",
     "本机 munge 的密钥或时钟与控制节点不一致：所有机器使用同一份 /etc/munge/munge.key（权限 0400，属主 munge）、时钟同步（timedatectl），然后 systemctl restart munge", True),
    ("munge decode failed", "munge's key or clock here is not that of the controller: the same /etc/munge/munge.key (mode 0400, owner munge) "
     "on all machines, clocks in step (timedatectl), then systemctl restart munge",
     "本机 munge 的密钥或时钟与控制节点不一致：所有机器使用同一份 /etc/munge/munge.key（权限 0400，属主 munge）、时钟同步（timedatectl），然后 systemctl restart munge", True),
    ("establish a configuration source", "no slurm.conf here (/etc/slurm/slurm.conf or $SLURM_CONF): copy the cluster's, or for one machine: "
     "ongpu queue setup slurm --single-node",
     "这里没有 slurm.conf（/etc/slurm/slurm.conf 或 $SLURM_CONF）：复制集群的那份；单机可用：ongpu queue setup slurm --single-node", True),
    ("could not open slurm.conf", "no slurm.conf here (/etc/slurm/slurm.conf or $SLURM_CONF): copy the cluster's, or for one machine: "
     "ongpu queue setup slurm --single-node",
     "这里没有 slurm.conf（/etc/slurm/slurm.conf 或 $SLURM_CONF）：复制集群的那份；单机可用：ongpu queue setup slurm --single-node", True),
    ("talking to the database: connection refused", "Slurm's database does not answer: systemctl status slurmdbd on its machine",
     "Slurm 数据库没有应答：在其所在机器上执行 systemctl status slurmdbd", False),
    ("unable to contact slurm controller", "Slurm's controller does not answer: on its machine: systemctl status slurmctld, and the end of its "
     "SlurmctldLogFile; from here: scontrol ping", "Slurm 控制进程没有应答：在其所在机器上执行 systemctl status slurmctld，并看 SlurmctldLogFile 末尾；从这里：scontrol ping", True),
    ("connection refused", "Slurm's controller does not answer: on its machine: systemctl status slurmctld, and the end of its "
     "SlurmctldLogFile; from here: scontrol ping", "Slurm 控制进程没有应答：在其所在机器上执行 systemctl status slurmctld，并看 SlurmctldLogFile 末尾；从这里：scontrol ping", True),
    ("timed out on send/recv", "Slurm's controller is overloaded or unreachable: scontrol ping; sdiag; a firewall on SlurmctldPort (6817)?",
     "Slurm 控制进程过载或无法连通：scontrol ping；sdiag；SlurmctldPort（6817）是否被防火墙拦住？", True),
    ("incompatible versions of client and server", "Slurm here and on the controller are of different versions: install the controller's",
     "本机与控制节点的 Slurm 版本不兼容：请安装与控制节点相同的版本", True),
    ("zero bytes were transmitted", "the controller hung up: another version of Slurm there, or munge's key differs: sinfo --version on both; "
     "munge -n | ssh CONTROLLER unmunge", "控制节点断开了连接：Slurm 版本不同，或 munge 密钥不一致：两边执行 sinfo --version；munge -n | ssh 控制节点 unmunge", True),
    ("invalid partition", "no such partition: sinfo -o '%R %l %G' lists them; [slurm] partition in queue.toml names ours",
     "没有这个分区：sinfo -o '%R %l %G' 可列出；queue.toml 的 [slurm] partition 指定我们使用的分区", False),
    ("account or account/partition", "not your account, or not for that partition: sacctmgr show assoc user=$USER format=account,partition,qos",
     "账户不是你的，或不能用于该分区：sacctmgr show assoc user=$USER format=account,partition,qos", False),
    ("invalid account", "no such account for you: sacctmgr show assoc user=$USER format=account,partition,qos",
     "你没有这个账户：sacctmgr show assoc user=$USER format=account,partition,qos", False),
    ("invalid qos", "no such QOS, or not yours: sacctmgr show assoc user=$USER format=account,qos",
     "没有这个 QOS，或你不能使用：sacctmgr show assoc user=$USER format=account,qos", False),
    ("job submit limit", "a limit of your account or QOS refuses it (jobs at once, GPUs, time): ask for less, wait for jobs of yours to end, or see "
     "sacctmgr show assoc user=$USER and sacctmgr show qos",
     "你的账户或 QOS 的限额拒绝了它（作业数、GPU 数、时长）：少要一些、等自己的作业结束，或查看 sacctmgr show assoc user=$USER 与 sacctmgr show qos", False),
    ("invalid generic resource", "no such GPUs here: the type or gres is not in slurm.conf: sinfo -o '%N %G' lists them",
     "这里没有这种 GPU：slurm.conf 里没有该类型或 gres：sinfo -o '%N %G' 可列出", False),
    ("memory specification can not be satisfied", "no node has so much memory: sinfo -N -o '%N %m %G' lists them (MB)",
     "没有节点有这么多内存：sinfo -N -o '%N %m %G' 可列出（MB）", False),
    ("memory required by task", "no node has so much memory: sinfo -N -o '%N %m %G' lists them (MB)",
     "没有节点有这么多内存：sinfo -N -o '%N %m %G' 可列出（MB）", False),
    ("cpu count per node", "no node has so many CPUs: sinfo -N -o '%N %c %G' lists them", "没有节点有这么多 CPU：sinfo -N -o '%N %c %G' 可列出", False),
    ("requested node configuration is not available", "no node can ever run it: more GPUs, CPUs or memory than any has: sinfo -N -o '%N %c %m %G'",
     "没有节点能运行它：所要的 GPU、CPU 或内存超过任何节点：sinfo -N -o '%N %c %m %G'", False),
    ("requested time limit is invalid", "its time limit is missing, or above the partition's: sinfo -o '%R %l'", "缺少时限，或超过分区上限：sinfo -o '%R %l'", False),
    ("exceeds some limit", "its time limit is missing, or above the partition's: sinfo -o '%R %l'", "缺少时限，或超过分区上限：sinfo -o '%R %l'", False),
    ("requested partition configuration not available", "it asks for more CPUs, GPUs, memory or time than its partition has or allows: sinfo -o '%R %c %m %G %l'",
     "所要的 CPU、GPU、内存或时长超过分区所有或允许的：sinfo -o '%R %c %m %G %l'", False),
    ("partition not available", "the partition is closed (down, drain or inactive): scontrol show partition", "分区已关闭（down、drain 或 inactive）：scontrol show partition", False),
    ("required node not available", "the nodes that it needs are down, drained or reserved: sinfo -R says why", "所需节点处于 down、drain 或被预留：sinfo -R 可看原因", False),
    ("requested reservation is invalid", "no such reservation: scontrol show reservation", "没有这个预留：scontrol show reservation", False),
    ("access denied to requested reservation", "the reservation is not for you: scontrol show reservation", "该预留不对你开放：scontrol show reservation", False),
    ("invalid wckey", "no such workload key for you: sacctmgr show wckey user=$USER; the project is sent as one where TrackWCKey=yes",
     "你没有这个 wckey：sacctmgr show wckey user=$USER；TrackWCKey=yes 时项目名会作为 wckey 提交", False),
    ("job dependency problem", "a job that it waits for is not known, or waits for it in turn", "它所依赖的作业不存在，或互相依赖", False),
    ("invalid job array specification", "the array is too large: indices below MaxArraySize (scontrol show config | grep MaxArraySize)",
     "数组过大：编号须小于 MaxArraySize（scontrol show config | grep MaxArraySize）", False),
    ("slurm temporarily unable to accept job", "Slurm has as many jobs as it takes (MaxJobCount): try again when some have ended",
     "Slurm 的作业数已达上限（MaxJobCount）：等一些作业结束后再试", False),
    ("resource temporarily unavailable", "Slurm has as many jobs as it takes (MaxJobCount): try again when some have ended",
     "Slurm 的作业数已达上限（MaxJobCount）：等一些作业结束后再试", False),
    ("parameter too long", "a name, path or comment is longer than Slurm takes (1024 bytes)", "名称、路径或备注超过 Slurm 允许的长度（1024 字节）", False),
    ("not permitted to use this partition", "you may not use that partition: scontrol show partition shows AllowGroups and AllowAccounts",
     "你不能使用该分区：scontrol show partition 可看 AllowGroups 与 AllowAccounts", False),
    ("access/permission denied", "Slurm lets only its owner or an operator do that", "Slurm 只允许作业所有者或管理员这样做", False),
    ("invalid user id", "Slurm lets only its owner or an operator do that", "Slurm 只允许作业所有者或管理员这样做", False),
    ("invalid job id", "no such job, or Slurm has forgotten it (MinJobAge after its end)", "没有这个作业，或结束后已被 Slurm 遗忘（MinJobAge）", False),
    ("already completing or completed", "it has ended already", "它已经结束", False),
    ("accounting storage is disabled", "Slurm keeps no accounts here (AccountingStorageType=accounting_storage/none): it forgets jobs MinJobAge after "
     "their end; ongpu keeps those that it submitted",
     "这里的 Slurm 不保存记录（AccountingStorageType=accounting_storage/none）：作业结束 MinJobAge 后即被遗忘；ongpu 只保留自己提交的", False),
    ("slurmdbd", "Slurm's database does not answer: systemctl status slurmdbd on its machine", "Slurm 数据库没有应答：在其所在机器上执行 systemctl status slurmdbd", False),
)  # fmt: skip
_PREFIX = lazy(
    r"(?:sbatch|squeue|scontrol|scancel|sacct|sinfo)(?:: (?:error|fatal|Warning))?: |slurm_[a-z_]{1,40} error: |(?:Batch job submission failed|Job submit/allocate failed): "
)
_NAMED = lazy(r"invalid (?:partition|qos|account)[a-z ]{0,20} specified: ([\w.,@-]{1,80})", re.IGNORECASE)


def told(text: str) -> tuple[str, str, bool]:
    """(English, Chinese, Slurm itself is not there) of what a program printed; words that are not known are passed on, the last line alone."""
    low = text.lower()
    for needle, english, chinese, down in TABLE:
        if needle in low:
            named = _NAMED.search(text)
            return (f"{named[1]}: {english}", f"{named[1]}：{chinese}", down) if named else (english, chinese, down)
    lines = [_PREFIX.sub("", line).strip() for line in text.splitlines() if line.strip() and not line.startswith('Try "')]
    last = lines[-1][:300] if lines else ""
    return (f"Slurm says: {last}", f"Slurm 提示：{last}", False) if last else ("", "", False)
