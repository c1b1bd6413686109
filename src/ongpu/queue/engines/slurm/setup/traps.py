"""The traps of a Slurm configuration for GPUs: what each is called, how bad it is, and its words in both languages.

Measured on Slurm 22.05.8 (shared research, scheduling-peers.md section 7) or stated by the manual pages slurm.conf(5), gres.conf(5),
cgroup.conf(5) and https://slurm.schedmd.com/prolog_epilog.html.
"""
# ruff: noqa: E501 - the words stand in one piece

from collections.abc import Mapping

from ongpu.lazy import dataclass, field

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True, slots=True)
class Trap:
    """English and Chinese: what is so, and what comes of it; with the same placeholders."""

    severity: str
    en: str
    why: str
    zh: str
    why_zh: str


@dataclass(frozen=True, slots=True)
class Found:
    """A trap that was found. place: "slurm.conf:12". mend: the line to write, or the command; "": said in the words."""

    slug: str
    place: str
    values: Mapping[str, object] = field(default_factory=dict)
    mend: str = ""

    @property
    def trap(self) -> Trap:
        """Its words."""
        return TRAPS[self.slug]

    def text(self, lang: str) -> tuple[str, str]:
        """(what is so, what comes of it)."""
        trap = self.trap
        title, why = (trap.zh, trap.why_zh) if lang == "zh" else (trap.en, trap.why)
        return title.format_map(self.values), why.format_map(self.values)


TRAPS: Mapping[str, Trap] = {
    "no-configuration": Trap(ERROR, "there is no {file}", "Slurm does not start without it.", "没有 {file}", "缺少它 Slurm 无法启动。"),
    "not-readable-by-all": Trap(WARNING, "only some users may read {file} (mode {mode})", "sbatch, squeue and scontrol of the others end with an error: each of them reads it.",
        "{file} 只有部分用户可读（权限 {mode}）", "其他用户的 sbatch、squeue、scontrol 会报错：它们都要读取该文件。"),
    "obsolete-parameter": Trap(WARNING, "{name} is a parameter of older versions", "Newer versions refuse to start with it, or pass it over: {instead}.",
        "{name} 是旧版本的参数", "新版本会拒绝启动或忽略它：{instead}。"),
    "set-twice": Trap(WARNING, "{name} is set {times} times; only the last one counts", "What the other lines say is lost, though it looks as if it were set.",
        "{name} 设置了 {times} 次，只有最后一次有效", "其他行看似生效，其实被丢弃。"),
    "no-gres-types": Trap(ERROR, "GresTypes does not name gpu", "Slurm then knows no GPUs: --gres=gpu:1 is refused, and nobody keeps jobs off each other's.",
        "GresTypes 中没有 gpu", "Slurm 就不认识 GPU：--gres=gpu:1 被拒绝，也没有人隔开各作业的 GPU。"),
    "gres-count-differs": Trap(ERROR, "slurm.conf gives node {node} {conf} GPUs, {other} has {count}", "Fewer than configured: the node becomes INVAL (\"gres/gpu count reported lower than configured\") and runs nothing; more: those above the count are never given out, yet open to all jobs.",
        "slurm.conf 给节点 {node} 配了 {conf} 块 GPU，而 {other} 是 {count} 块", "少于配置：节点变为 INVAL（gres/gpu count reported lower than configured），不再运行作业；多于配置：多出的永不分配，却对所有作业开放。"),
    "gpu-left-open": Trap(ERROR, "GPU {index} ({device}) is in no line of gres.conf", "Only devices that gres.conf names are fenced: every job can open this one. That also holds for a GPU that was taken out because it is sick.",
        "GPU {index}（{device}）不在 gres.conf 的任何一行中", "只有 gres.conf 列出的设备会被隔离：任何作业都能打开它。因故障移出的 GPU 也是如此。"),
    "gres-device-missing": Trap(ERROR, "{device} of gres.conf is not there", "slurmd does not start (\"can't stat gres.conf file\"); after a boot the files appear when the driver is first used: let nvidia-persistenced start before slurmd.",
        "gres.conf 中的 {device} 不存在", "slurmd 无法启动（can't stat gres.conf file）；开机后这些文件在首次使用驱动时才出现：让 nvidia-persistenced 先于 slurmd 启动。"),
    "gres-without-file": Trap(ERROR, "a line of gres.conf names GPUs without File", "Slurm only counts them then: CUDA_VISIBLE_DEVICES is not set by device, and nothing is fenced.",
        "gres.conf 有一行 GPU 没写 File", "此时 Slurm 只计数：不会按设备设置 CUDA_VISIBLE_DEVICES，也不做任何隔离。"),
    "gres-type-differs": Trap(ERROR, "type {type} of node {node} is in slurm.conf only", "The node reports other types than configured and becomes INVAL; the same word must stand in Gres= and in Type=.",
        "节点 {node} 的类型 {type} 只出现在 slurm.conf 中", "节点上报的类型与配置不符，变为 INVAL；Gres= 与 Type= 必须用同一个词。"),
    "autodetect-unsupported": Trap(ERROR, "AutoDetect={what}, and this Slurm has no {plugin}", "It was built without that library (Debian's and Ubuntu's are): slurmd finds no GPU. Name the device files instead.",
        "AutoDetect={what}，但这个 Slurm 没有 {plugin}", "它编译时没有该库（Debian、Ubuntu 的包即如此）：slurmd 找不到 GPU。请改为写明设备文件。"),
    "mig-as-whole": Trap(WARNING, "GPU {index} is partitioned (MIG), and given out as one", "CUDA refuses to use a partitioned GPU as a whole: give its slices out by AutoDetect=nvml (a Slurm built with it), or turn MIG off.",
        "GPU {index} 开启了 MIG，却作为整卡分配", "CUDA 不能把已分区的 GPU 当整卡用：用 AutoDetect=nvml（需编译支持）分配切片，或关闭 MIG。"),
    "devices-not-constrained": Trap(ERROR, "GPUs are not fenced: {what}", "CUDA_VISIBLE_DEVICES is then only a wish: any job, and a program that sets it itself, can use any GPU, busy or not.",
        "GPU 没有隔离：{what}", "这时 CUDA_VISIBLE_DEVICES 只是建议：任何作业、任何自行设置它的程序都能使用任意 GPU。"),
    "processes-escape": Trap(WARNING, "ProctrackType={value}", "What a job leaves in the background escapes it and goes on holding GPU memory after the job's end.",
        "ProctrackType={value}", "作业留在后台的进程会逃逸，作业结束后仍占着显存。"),
    "memory-not-limited": Trap(WARNING, "memory is not limited: {what}", "One job can take all memory of the machine; the kernel then kills some process, of whoever.",
        "没有限制内存：{what}", "一个作业就能吃光整机内存，内核随后会杀掉任意进程。"),
    "memory-not-counted": Trap(WARNING, "memory is not shared out (SelectTypeParameters={value})", "Slurm places as many jobs as there are CPUs and GPUs, whatever memory they need.",
        "不按内存分配（SelectTypeParameters={value}）", "Slurm 只看 CPU 和 GPU 数放置作业，不管它们需要多少内存。"),
    "no-default-memory": Trap(ERROR, "no DefMemPerCPU, DefMemPerGPU or DefMemPerNode", "A job that names no memory is given all of the node's: one job at a time, whatever GPUs are free. Measured: 200 jobs of one GPU on 4 GPUs took 186 s in place of 30 s.",
        "没有 DefMemPerCPU、DefMemPerGPU 或 DefMemPerNode", "没写内存的作业会拿到整个节点的内存：不管空着几块 GPU，一次只能跑一个。实测 4 块 GPU 跑 200 个单卡作业，用了 186 秒而不是 30 秒。"),
    "whole-node-jobs": Trap(ERROR, "{what}: each job gets a whole node", "The other GPUs of the machine stand idle.", "{what}：每个作业独占整个节点", "机器上的其他 GPU 闲置。"),
    "select-without-gpus": Trap(WARNING, "SelectType=select/cons_res", "It knows nothing of --gpus, --gpus-per-task, DefCpuPerGPU or shards, and newer versions do not have it.",
        "SelectType=select/cons_res", "它不支持 --gpus、--gpus-per-task、DefCpuPerGPU 与 shard，新版本已没有它。"),
    "no-such-node": Trap(ERROR, "no NodeName is this machine ({host})", "slurmd ends with \"Unable to determine this slurmd's NodeName\".", "没有一行 NodeName 是本机（{host}）", "slurmd 会以 “Unable to determine this slurmd's NodeName” 退出。"),
    "cpus-differ": Trap(ERROR, "node {node}: {conf} CPUs configured, {count} there", "More than there are: the node is drained (\"Low socket*core*thread count\"); fewer: the others stand idle.",
        "节点 {node}：配置 {conf} 个 CPU，实有 {count} 个", "多于实有：节点被 drain（Low socket*core*thread count）；少于实有：其余闲置。"),
    "memory-too-large": Trap(ERROR, "node {node}: RealMemory={conf} MiB, and there are {count}", "The node is drained for \"Low RealMemory\".", "节点 {node}：RealMemory={conf} MiB，实有 {count} MiB", "节点会因 Low RealMemory 被 drain。"),
    "memory-to-the-last": Trap(WARNING, "node {node}: RealMemory={conf} MiB of {count}: nothing is left for the system", "The next kernel takes a few MiB more, and the node is drained for \"Low RealMemory\"; jobs that use what they are given leave the system none.",
        "节点 {node}：RealMemory={conf} MiB，共 {count} MiB：没有给系统留余量", "换内核后可用内存少几 MiB，节点就会因 Low RealMemory 被 drain；作业用满时系统也没有内存可用。"),
    "memory-not-told": Trap(ERROR, "node {node} has no RealMemory", "Slurm takes 1 MiB for it: every job that names memory is refused (\"Memory specification can not be satisfied\").",
        "节点 {node} 没写 RealMemory", "Slurm 按 1 MiB 计：所有写明内存的作业都被拒绝（Memory specification can not be satisfied）。"),
    "prolog-holds-jobs": Trap(ERROR, "a Prolog, and no nohold_on_prolog_fail in SchedulerParameters", "A job that the prolog refuses is requeued held (\"launch failed requeued held\") and waits until someone runs scontrol release.",
        "有 Prolog，但 SchedulerParameters 中没有 nohold_on_prolog_fail", "被 prolog 拒绝的作业会以挂起状态重新排队（launch failed requeued held），直到有人执行 scontrol release。"),
    "setup-holds-jobs": Trap(WARNING, "SchedulerParameters has requeue_setup_env_fail", "A user's slow login script holds the job and drains the whole node.", "SchedulerParameters 中有 requeue_setup_env_fail", "某个用户的登录脚本太慢，就会挂起作业并 drain 整个节点。"),
    "jobs-not-requeued": Trap(WARNING, "JobRequeue=0", "A job that the prolog or a dead node refuses is lost, unless it was submitted with --requeue.", "JobRequeue=0", "被 prolog 拒绝或因节点故障中断的作业会丢失，除非提交时写了 --requeue。"),
    "prolog-drains-node": Trap(WARNING, "Prolog={program} is not ongpu's", "A prolog that fails drains the whole node (\"Prolog error\"), all its GPUs for one, and nothing takes that back. ongpu's drains it first with its own mark, which the health check takes back when the GPU is well.",
        "Prolog={program} 不是 ongpu 的", "prolog 失败会 drain 整个节点（Prolog error），一块 GPU 有病所有 GPU 停用，且不会自动恢复。ongpu 的脚本先以自己的标记 drain，GPU 恢复后健康检查会撤销。"),
    "no-health-check": Trap(WARNING, "no HealthCheckProgram, or HealthCheckInterval=0 (the default)", "Jobs are given GPUs that fell off the bus or need a reset, one after the other, and each fails.",
        "没有 HealthCheckProgram，或 HealthCheckInterval=0（默认值）", "掉卡或需要重置的 GPU 会不断分给作业，逐个失败。"),
    "health-check-late": Trap(NOTE, "HealthCheckInterval={value} s", "A sick GPU is given out for so long.", "HealthCheckInterval={value} 秒", "有病的 GPU 在此期间仍会被分配。"),
    "script-missing": Trap(ERROR, "{name}={program} is not there, or may not be run", "A missing prolog fails every job and drains the node; a missing health check checks nothing.", "{name}={program} 不存在或不可执行", "缺少 prolog 会让每个作业失败并 drain 节点；缺少健康检查则什么也不查。"),
    "script-without-ongpu": Trap(ERROR, "{script} runs {program}, which is not there", "It then looks at no GPU, passes every job and says nothing: write the whole path as ONGPU= into it, or put ongpu into /usr/local/bin.",
        "{script} 要运行 {program}，但找不到它", "它就不检查任何 GPU，放行所有作业，且没有提示：在脚本中用 ONGPU= 写明完整路径，或把 ongpu 放进 /usr/local/bin。"),
    "script-of-a-user": Trap(ERROR, "{name} runs {program} as root, which others than root may change", "Whoever may write there is root on every node.", "{name} 以 root 运行 {program}，而非 root 用户可以修改它", "能写它的人就等于所有节点的 root。"),
    "script-reads-cuda": Trap(WARNING, "{program} reads CUDA_VISIBLE_DEVICES", "Where devices are fenced it is numbered from 0 within the job: 0 need not be GPU 0. SLURM_JOB_GPUS holds the physical indices.",
        "{program} 读取 CUDA_VISIBLE_DEVICES", "设备隔离后它在作业内从 0 重新编号：0 不一定是 GPU 0。SLURM_JOB_GPUS 才是物理编号。"),
    "stays-down": Trap(WARNING, "ReturnToService={value}", "After a reboot or a lost connection the node stays DOWN until someone runs scontrol update NodeName=... State=RESUME.", "ReturnToService={value}", "重启或断连后节点一直 DOWN，直到有人执行 scontrol update NodeName=... State=RESUME。"),
    "hardware-not-checked": Trap(WARNING, "SlurmdParameters has config_overrides", "Slurm believes slurm.conf instead of the machine: a GPU, memory or CPU that is lost goes unnoticed. It is meant for tests.",
        "SlurmdParameters 中有 config_overrides", "Slurm 只信 slurm.conf 而不看实际硬件：丢失的 GPU、内存、CPU 都不会被发现。它只用于测试。"),
    "slow-scheduler": Trap(NOTE, "SchedulerParameters: {what} by default", "Jobs wait for the scheduler on an idle machine. Measured: 200 short jobs on 4 GPUs in 186 s before, 30 s after these and a default memory.",
        "SchedulerParameters：默认 {what}", "机器空闲时作业仍在等调度器。实测 4 块 GPU 跑 200 个短作业：调整前 186 秒，连同默认内存一起调整后 30 秒。"),
    "no-time-limits": Trap(NOTE, "partition {node} has neither DefaultTime nor MaxTime", "Jobs without --time are taken to run for ever, so nothing can be fitted into gaps before them and no start can be foretold.",
        "分区 {node} 既没有 DefaultTime 也没有 MaxTime", "没写 --time 的作业按无限长处理，无法回填空档，也无法预计启动时间。"),
    "state-is-lost": Trap(ERROR, "{name}={value} does not outlive a reboot", "The queue is gone after it.", "{name}={value} 重启后不保留", "整个队列会丢失。"),
    "cgroup-version": Trap(ERROR, "CgroupPlugin={value}, and this machine has cgroup {have}", "slurmd does not start, or fences nothing.", "CgroupPlugin={value}，而本机是 cgroup {have}", "slurmd 无法启动，或不做任何隔离。"),
    "cgroup-too-new": Trap(ERROR, "Slurm {version} knows no cgroup v2, and this machine has nothing else", "No fence, no memory limit: it needs 22.05 or newer, or the kernel option systemd.unified_cgroup_hierarchy=0.",
        "Slurm {version} 不支持 cgroup v2，而本机只有 v2", "无法隔离设备、限制内存：需要 22.05 或更新版本，或内核参数 systemd.unified_cgroup_hierarchy=0。"),
    "cgroup-without-systemd": Trap(ERROR, "cgroup v2 without systemd, and no IgnoreSystemd=yes", "slurmd asks systemd for its place (\"cannot connect to dbus system daemon\") and does not start: in containers.",
        "cgroup v2 但没有 systemd，也没有 IgnoreSystemd=yes", "slurmd 要向 systemd 申请位置（cannot connect to dbus system daemon），无法启动：容器中常见。"),
    "gpus-not-counted": Trap(WARNING, "AccountingStorageTRES does not name gres/gpu", "No limit, reservation or account by GPU works (\"reservation tres=gres/gpu\" is refused).", "AccountingStorageTRES 中没有 gres/gpu", "按 GPU 的限额、预留、统计都不起作用（含 gres/gpu 的预留会被拒绝）。"),
    "count-needs-database": Trap(ERROR, "AccountingStorageTRES counts gres, and there is no slurmdbd", "slurmctld ends with \"slurmdbd is required to run with TRES gres/gpu\": take the line out, or set the database up.",
        "AccountingStorageTRES 要统计 gres，却没有 slurmdbd", "slurmctld 会以 “slurmdbd is required to run with TRES gres/gpu” 退出：去掉这一行，或先部署数据库。"),
    "nobody-remembers": Trap(NOTE, "no accounts and no jobcomp", "{age} s after its end (MinJobAge) nobody knows how a job ended, but ongpu of those that it submitted.", "既没有记账也没有 jobcomp", "作业结束 {age} 秒后（MinJobAge）就没有任何记录，ongpu 只记得自己提交的。"),
    "order-differs": Trap(WARNING, "GPU {index} has the device file {device}: their order is not that of the bus", "Slurm counts by gres.conf, NVML and ongpu gate by the bus: write the lines of gres.conf in the order of the bus, or the wrong GPU is checked.",
        "GPU {index} 的设备文件是 {device}：与总线顺序不一致", "Slurm 按 gres.conf 的顺序编号，NVML 与 ongpu gate 按总线编号：gres.conf 要按总线顺序写，否则检查的是另一块 GPU。"),
    "cuda-order": Trap(WARNING, "unlike GPUs ({models}), and no TaskProlog that sets CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA numbers the fastest first, Slurm and nvidia-smi by the bus: where devices are not fenced jobs land on each other's GPUs.",
        "GPU 型号不同（{models}），且没有设置 CUDA_DEVICE_ORDER=PCI_BUS_ID 的 TaskProlog", "CUDA 先编号最快的卡，Slurm 与 nvidia-smi 按总线编号：未隔离设备时作业会用到别人的 GPU。"),
    "limits-carried-over": Trap(NOTE, "the limits of the submitting shell go to the job (PropagateResourceLimits=ALL, the default)", "A small ulimit -l or -n of a login breaks NCCL, RDMA and data loaders in the job.",
        "提交者 shell 的资源限制会带入作业（PropagateResourceLimits=ALL，默认）", "登录会话较小的 ulimit -l 或 -n 会让作业中的 NCCL、RDMA、数据加载出错。"),
    "no-such-user": Trap(ERROR, "SlurmUser={value} is no user here", "slurmctld does not start.", "SlurmUser={value} 在本机不存在", "slurmctld 无法启动。"),
    "munge-key-open": Trap(ERROR, "{file} may be read by others (mode {mode})", "munged refuses to start; whoever reads the key is any user of the cluster.", "{file} 他人可读（权限 {mode}）", "munged 会拒绝启动；读到密钥的人可以冒充集群中任何用户。"),
    "running-differs": Trap(WARNING, "{name} is {file} in the file, and {running} in the Slurm that runs", "The file was changed and not read again: scontrol reconfigure, or for this one a restart of slurmctld and slurmd.",
        "{name} 在文件中是 {file}，运行中的 Slurm 是 {running}", "文件改了但没有重新读取：scontrol reconfigure；此项可能需要重启 slurmctld 与 slurmd。"),
    "running-gpus-differ": Trap(ERROR, "node {node} runs with {running} GPUs, slurm.conf says {conf}", "Gres cannot be changed by scontrol reconfigure alone: restart slurmctld and slurmd (jobs go on), then scontrol update NodeName={node} State=RESUME.",
        "节点 {node} 运行中是 {running} 块 GPU，slurm.conf 写的是 {conf} 块", "Gres 不能只用 scontrol reconfigure 修改：重启 slurmctld 与 slurmd（作业不受影响），再 scontrol update NodeName={node} State=RESUME。"),
    "node-closed": Trap(WARNING, "node {node} is {state}: {reason}", "Nothing starts there.", "节点 {node} 处于 {state}：{reason}", "该节点不启动任何作业。"),
}  # fmt: skip
