"""Why a job starts, gives way or waits, in both languages: what `ongpu jobs --why` says."""

from collections.abc import Mapping

from ongpu.lazy import dataclass, field

WORDS: Mapping[str, tuple[str, str]] = {
    "free": ("{gpus} free and healthy GPUs fit it", "有 {gpus} 块空闲且健康的 GPU 符合要求"),
    "no-gpu": ("it needs no GPU", "不需要 GPU"),
    "takes-place": (
        "it has used less GPU time than {victims}, which saved its state and gave way",
        "它用过的 GPU 时间比 {victims} 少，后者保存状态后让出",
    ),
    "overdue": ("it has waited {waited}: overdue jobs come first", "已等待 {waited}：超过期限的作业优先"),
    "gives-way": ("{job} has used less GPU time, and comes first", "{job} 用过的 GPU 时间更少，优先运行"),
    "gives-way-overdue": ("{job} has waited beyond its patience, and comes first", "{job} 等待已超过期限，优先运行"),
    "on-fault": ("a GPU that it runs on has an open fault: {fault}", "它所在的 GPU 有未解除的故障：{fault}"),
    "impossible": (
        "it asks for {gpus} GPUs of {memory} MiB; only {fitting} here are healthy and large enough",
        "它要 {gpus} 块 {memory} MiB 的 GPU；这里健康且显存足够的只有 {fitting} 块",
    ),
    "behind": (
        "the fitting GPUs are held by jobs that come before it: {fitting} of {gpus} are free",
        "符合要求的 GPU 被排在前面的作业占用：需要 {gpus} 块，空闲 {fitting} 块",
    ),
    "headroom": (
        "it cannot be interrupted, and such jobs hold their share already ({held} of {allowed} GPUs); with a checkpoint signal or a time "
        "limit of at most {short} it could start sooner",
        "它无法中断，而这类作业已占满份额（{held} / {allowed} 块 GPU）；声明检查点信号，或不超过 {short} 的时限，就能更早开始",
    ),
    "reserved": ("GPUs are kept for {job}, which has waited longest", "GPU 已为等待最久的 {job} 预留"),
    "in-turn": ("{job} came first, and does not fit yet", "{job} 在前，且暂时放不下"),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its name in WORDS and what fills it."""

    name: str
    values: Mapping[str, object] = field(default_factory=dict)

    def text(self, lang: str) -> str:
        """The sentence in "en" or "zh"."""
        return WORDS[self.name][lang == "zh"].format_map(self.values)
