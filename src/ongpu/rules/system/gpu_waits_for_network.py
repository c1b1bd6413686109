"""A program sleeps while its data flows in by the network, and its GPU has too little to do."""

from collections.abc import Iterator

from ongpu.facts.trend import Trend
from ongpu.facts.waiting import of
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(trend: Trend) -> Iterator[Finding]:
    for one in of(trend, "network"):
        yield Finding(
            subject=one.gpu.label, certainty=one.sure, severity=Severity.NOTE if one.sure is Certainty.POSSIBLE else None,
            variant=one.kind, values=one.figures, refs=one.refs,
            fixes=(Fix("look-at-traffic"), Fix("profile-process", {"pid": one.figures["pid"]})),
        )  # fmt: skip


_FIX_EN = (
    "Fetch the data to local NVMe or RAM before the run, or keep a local cache of it; read large sequential shards (WebDataset, Parquet, MDS) with many "
    "requests under way at once (more workers, prefetch_factor, larger read-ahead); put the store in the same zone. nload or sar -n DEV shows whether the "
    "line is full; nfsiostat 1 shows the delay of NFS."
)
_FIX_ZH = (
    "运行前把数据取到本地 NVMe 或内存，或保留本地缓存；读取大的顺序分片（WebDataset、Parquet、MDS），并让许多请求同时进行（更多 worker、prefetch_factor、"
    "更大的预读）；把存储放在同一可用区。nload 或 sar -n DEV 可看线路是否已满；nfsiostat 1 可看 NFS 的延迟。"
)

RULE = Rule(
    slug="gpu-waits-for-network",
    layer=Layer.SYSTEM,
    severity=Severity.WARNING,
    check=check,
    settle=("sar -n DEV 1 5", "nfsiostat 1 5"),
    see=("https://docs.kernel.org/filesystems/proc.html", "https://man7.org/linux/man-pages/man5/proc_pid_io.5.html"),
    en=Text(
        title="GPU {gpu} is busy only {use} % of the time: {program} seems to wait for data from the network",
        why="No thread of it works more than {cpu} % of a core, little is read from a disk, and the machine receives {flow} MB/s{rate: (the program reads * MB/s)}. The figures of the network are the machine's: another program may be the one that receives.",
        fix=_FIX_EN,
    ),
    zh=Text(
        title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 看来在等网络上的数据",
        why="它没有线程占用超过 {cpu} % 的核，几乎不读磁盘，而机器正以 {flow} MB/s 接收数据{rate:（该程序读取 * MB/s）}。网络数字是整机的：接收者也可能是别的程序。",
        fix=_FIX_ZH,
    ),
    variants={
        "share": (
            Text(
                title="GPU {gpu} is busy only {use} % of the time: {program} waits for a file system behind the network{workers: (its * workers)}",
                why="In {share} % of the looks the readers stood in the kernel (state D){rate:; they read * MB/s} and the machine receives {flow} MB/s: what they read is not here (NFS, Lustre, Ceph, a cloud drive). Each open and each small read costs a round trip.",
                fix=_FIX_EN,
            ),
            Text(
                title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 在等网络文件系统{workers:（它的 * 个 worker）}",
                why="{share} % 的观察中，读取者停在内核里（D 状态）{rate:；读取 * MB/s}，同时机器接收 {flow} MB/s：数据不在本机（NFS、Lustre、Ceph、云盘）。每次打开、每次小读取都要一个网络往返。",
                fix=_FIX_ZH,
            ),
        ),
    },
)
