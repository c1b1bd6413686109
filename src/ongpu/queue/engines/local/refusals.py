"""What is wrong with the queue's file or folder, in words."""

from pathlib import Path

from ongpu.queue.engines import EngineError

_WORDS = {
    "missing": ("no queue here yet; `ongpu submit` makes it", "这里还没有队列；运行 `ongpu submit` 后会生成"),
    "corrupt": (
        "the queue is damaged ({detail}); nothing was changed: keep a copy, move the folder aside, and submit again what is missing",
        "队列文件已损坏（{detail}）；未做任何改动：请留一份副本，把该文件夹移开，再重新提交缺少的作业",
    ),
    "foreign": ("this is not a queue of ongpu; it was left as it is", "这不是 ongpu 的队列文件；未做任何改动"),
    "newer": (
        "a newer ongpu wrote this queue (format {detail}); update ongpu",
        "该队列由更新版本的 ongpu 写入（格式 {detail}）；请升级 ongpu",
    ),
    "busy": (
        "another process has kept the queue for more than 5 s ({detail}); try again",
        "另一个进程占用队列超过 5 秒（{detail}）；请重试",
    ),
    "denied": ("not permitted to write the queue ({detail})", "没有写入队列的权限（{detail}）"),
    "full": ("no room left on the disk; nothing was changed ({detail})", "磁盘空间不足；未做任何改动（{detail}）"),
    "io": ("the disk does not take it; nothing was changed ({detail})", "磁盘读写失败；未做任何改动（{detail}）"),
    "owner": (
        "this folder belongs to another user ({detail}); set ONGPU_QUEUE to one of your own",
        "该文件夹属于其他用户（{detail}）；请将 ONGPU_QUEUE 设为自己的文件夹",
    ),
    "open": (
        "others may write this folder (mode {detail}): they could start jobs in your name; chmod go-w it",
        "其他用户可写该文件夹（权限 {detail}），能以你的名义启动作业；请执行 chmod go-w",
    ),
    "folder": ("this is not a folder", "这不是文件夹"),
    "elsewhere": (
        "this folder is on a network and holds the queue of {detail}: set ONGPU_QUEUE to a folder on a disk of this machine",
        "该文件夹位于网络文件系统，其中是 {detail} 的队列：请将 ONGPU_QUEUE 设为本机磁盘上的文件夹",
    ),
}


class BookError(EngineError):
    """What is wrong with the file. kind: missing, corrupt, foreign, newer, busy, denied, full, io, owner, open, folder, elsewhere."""

    def __init__(self, kind: str, path: Path, detail: str = "") -> None:
        english, chinese = (words.format(detail=" ".join(detail.split())[:200]) for words in _WORDS[kind])
        super().__init__(f"{path}: {english}", f"{path}：{chinese}")
        self.kind, self.path = kind, path
