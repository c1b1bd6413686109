"""A program's workers, or itself, stand in the kernel waiting for storage, while its GPU has too little to do."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import of
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "disk"):
        yield Finding(
            subject=one.gpu.label, certainty=one.sure, severity=Severity.NOTE if one.sure is Certainty.POSSIBLE and not one.kind else None,
            variant=one.kind, values=one.figures, refs=one.refs, fixes=(Fix("look-at-disk"), Fix("profile-process", {"pid": one.figures["pid"]})),
        )  # fmt: skip


RULE = Rule(
    slug="gpu-waits-for-disk",
    layer=Layer.SYSTEM,
    severity=Severity.WARNING,
    check=check,
    settle=("iostat -x 1 5", "cat /proc/pressure/io"),
    see=("https://docs.kernel.org/filesystems/proc.html", "https://docs.kernel.org/accounting/psi.html"),
    en=Text(
        title="GPU {gpu} is busy only {use} % of the time: {program} waits for storage{workers: (its * workers)}",
        why="In {share} % of the looks the readers stood in the kernel (state D) with the processor idle{rate:; * MB/s come from storage}{iowait:; * cores wait for storage}. The disk is slower than the GPU: many small files or random reads are, even on a fast one.",
        fix="Copy the data to local NVMe or RAM before the run ($SLURM_TMPDIR, /dev/shm); pack small files into large sequential ones (WebDataset, TFRecord, Parquet, LMDB); more workers with prefetch_factor, so that more reads are under way at once. iostat -x 1 shows whether the disk itself is full (%util, r_await).",
    ),
    zh=Text(
        title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 在等存储{workers:（它的 * 个 worker）}",
        why="{share} % 的观察中，读取者停在内核里（D 状态），CPU 却空闲{rate:；从存储读入 * MB/s}{iowait:；有 * 个核在等存储}。磁盘比 GPU 慢：大量小文件或随机读取时，快盘也会如此。",
        fix="运行前把数据复制到本地 NVMe 或内存（$SLURM_TMPDIR、/dev/shm）；把小文件打包成大的顺序文件（WebDataset、TFRecord、Parquet、LMDB）；增加 worker 和 prefetch_factor，让更多读取同时进行。iostat -x 1 可看出磁盘本身是否已满（%util、r_await）。",
    ),
    variants={
        "stuck": (
            Text(
                title="{program} stands in the kernel and reads nothing; GPU {gpu} has nothing to do ({use} % busy)",
                why="State D in {share} % of the looks, without any reading: a storage that does not answer (an NFS server that is gone, a dying disk), or a call into the GPU driver that does not return. Such a process cannot even be killed until the call ends.",
                fix="Look at where it stands: sudo cat /proc/{pid}/stack and dmesg (\"blocked for more than 120 seconds\", \"nfs: server not responding\"). A mount that hangs: bring its server back, or umount -f; the driver: see dmesg for Xid and reset the GPU.",
            ),
            Text(
                title="{program} 停在内核里、什么也没读；GPU {gpu} 无事可做（{use} % 在忙）",
                why="{share} % 的观察中处于 D 状态，却没有任何读取：存储没有响应（NFS 服务器失联、磁盘将坏），或对 GPU 驱动的调用没有返回。调用结束前，这样的进程连杀都杀不掉。",
                fix="看它停在哪里：sudo cat /proc/{pid}/stack 和 dmesg（“blocked for more than 120 seconds”、“nfs: server not responding”）。挂载卡住：恢复服务器或 umount -f；驱动卡住：在 dmesg 里看 Xid，并重置 GPU。",
            ),
        ),
    },
)
