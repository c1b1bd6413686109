"""The words of the reports themselves, in both languages. The words of a finding stand in its rule."""

from ongpu.model import Certainty, Layer, Risk, Severity

_WORDS = {
    "seen": ("seen", "证据"),
    "fix": ("fix", "修复"),
    "why": ("Why", "原因"),
    "grounds": ("Evidence", "证据"),
    "remedy": ("Fix", "修复"),
    "sources": ("Sources", "来源"),
    "undo": ("undo", "撤销"),
    "could_not_tell": ("could not tell: {what}", "无法判断：{what}"),
    "settle": ("to settle it, run:", "要确定，请运行："),
    "not_read": ("not read: {source}: {because}", "未能读取：{source}：{because}"),
    "crashed": ("the rule {slug} crashed (a bug of ongpu, please report it): {because}", "规则 {slug} 崩溃（ongpu 的缺陷，请反馈）：{because}"),
    "hidden": (
        "{count} consequence(s) of the above are hidden; --all shows them",
        "另有 {count} 条上述问题的连带后果未显示；用 --all 查看",
    ),
    "more": ("... and {count} more like it: {subjects}", "……同类还有 {count} 处：{subjects}"),
    "clear": ("Nothing wrong was found.", "未发现问题。"),
    "clear_detail": ("{count} rules were asked, and all that could judge were satisfied.", "共检查 {count} 条规则，凡能判断的均正常。"),
    "unknown": ("Could not tell.", "无法判断。"),
    "unknown_detail": (
        "Nothing in the evidence shows a known cause, and nothing shows that all is well.",
        "现有证据既没有显示已知原因，也不足以说明一切正常。",
    ),
    "ask_for": ("Most useful to give next:", "接下来最有用的信息："),
    "hint_all": ("the findings of --all and --format json carry more detail", "--all 与 --format json 给出更多细节"),
    "not_on_gpu": ("not checked on a real GPU by us", "我们未在真实 GPU 上验证"),
    "title": ("ongpu report", "ongpu 报告"),
    "chain": ("chain", "链路"),
    "examined": ("examined", "检查对象"),
}  # fmt: skip
_LAYERS = {
    Layer.HARDWARE: ("hardware", "硬件"), Layer.DRIVER: ("driver", "驱动"), Layer.LIBRARIES: ("libraries", "CUDA 库"),
    Layer.FRAMEWORK: ("framework", "框架"), Layer.ENVIRONMENT: ("environment", "环境变量"), Layer.CONTAINER: ("container", "容器"),
    Layer.CODE: ("code", "代码"), Layer.SYSTEM: ("system", "系统"),
}  # fmt: skip
_SEVERITIES = {Severity.ERROR: ("error", "错误"), Severity.WARNING: ("warning", "警告"), Severity.NOTE: ("note", "说明")}
_CERTAINTIES = {Certainty.CERTAIN: ("certain", "确定"), Certainty.LIKELY: ("likely", "很可能"), Certainty.POSSIBLE: ("possible", "有可能")}
_RISKS = {Risk.SAFE: ("safe", "安全"), Risk.DISRUPTIVE: ("disruptive", "会中断服务"), Risk.DESTRUCTIVE: ("destructive", "会删除内容")}


def word(name: str, lang: str, **values: object) -> str:
    """A phrase of the report, filled."""
    return _WORDS[name][lang == "zh"].format(**values)


def layer(value: Layer, lang: str) -> str:
    """A layer's name."""
    return _LAYERS[value][lang == "zh"]


def severity(value: Severity, lang: str) -> str:
    """A severity's name."""
    return _SEVERITIES[value][lang == "zh"]


def certainty(value: Certainty, lang: str) -> str:
    """A certainty's name."""
    return _CERTAINTIES[value][lang == "zh"]


def risk(value: Risk, lang: str) -> str:
    """A risk's name."""
    return _RISKS[value][lang == "zh"]
