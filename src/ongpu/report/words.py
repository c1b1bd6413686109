"""The words of the reports themselves, in both languages. The words of a finding stand in its rule."""

import re

from ongpu.knowledge import signs
from ongpu.lazy import lazy
from ongpu.model import Certainty, Layer, Ref, Risk, Severity

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
    "unread_1": ("1 source could not be read", "有 1 处未能读取"),
    "unread": ("{count} sources could not be read", "有 {count} 处未能读取"),
    "hidden_1": ("1 consequence of the above is hidden; --all shows it", "另有 1 条上述问题的连带后果未显示；用 --all 查看"),
    "hidden": ("{count} consequences of the above are hidden; --all shows them", "另有 {count} 条上述问题的连带后果未显示；用 --all 查看"),
    "harmless_1": ("1 harmless line is explained with --all", "另有 1 处无害的信息；用 --all 查看说明"),
    "harmless": ("{count} harmless lines are explained with --all", "另有 {count} 处无害的信息；用 --all 查看说明"),
    "more": ("... and {count} more like it: {subjects}", "……同类还有 {count} 处：{subjects}"),
    "clear": ("Nothing wrong was found.", "未发现问题。"),
    "clear_detail": ("All that could be judged is as it should be.", "凡能判断的均正常。"),
    "unknown": ("Could not tell.", "无法判断。"),
    "unknown_detail": (
        "Nothing in it tells of a GPU, a driver or a framework: neither a known cause nor that all is well. "
        "Give all that the failing program printed, or run ongpu doctor on the machine.",
        "其中没有涉及 GPU、驱动或框架的内容：既没有已知原因，也不足以说明一切正常。请提供出错程序的完整输出，或在该机器上运行 ongpu doctor。",
    ),
    "signs": (
        "It says that the GPU is not used, or that something failed, but not why:",
        "其中说明 GPU 没有被使用或某处失败，但没有说明原因：",
    ),
    "ask_for": ("Most useful to give next:", "接下来最有用的信息："),
    "hint_all": ("the findings of --all and --format json carry more detail", "--all 与 --format json 给出更多细节"),
    "not_on_gpu": ("not checked on a real GPU by us", "我们未在真实 GPU 上验证"),
    "title": ("ongpu report", "ongpu 报告"),
    "chain": ("chain", "链路"),
    "examined": ("examined", "检查对象"),
}  # fmt: skip
_BECAUSE = (
    ("nothing in it was recognised", "没有认出任何内容"), ("what the exception means", "这个异常的含义"), ("not found", "不存在"),
    ("whether it runs and fits", "能否运行、能否放下"), ("the dry run ended without an answer", "试运行没有给出答案就结束了"),
    ("denied", "没有权限"), ("no answer", "没有应答"), ("timed out after", "超时："), ("no Python interpreter was found on PATH", "PATH 中找不到 Python 解释器"),
    ("only PyTorch objects are looked at; this one is: ", "只检查 PyTorch 对象；这个属于："),
    ("whether this process sees a GPU; the model is on the CPU", "本进程能否看到 GPU；模型在 CPU 上"),
    ("whether the model will reach a GPU: it is on the CPU, and this process sees no GPU", "模型会不会到 GPU 上：它在 CPU，而本进程看不到 GPU"),
    ("not readable as text: ", "不是可读的文本："), ("larger than ", "大于 "), ("not a notebook that can be read", "不是可读的 notebook"),
    ("not a Python file", "不是 Python 文件"), ("a notebook without code", "没有可跟踪代码的 notebook"), ("Permission denied", "没有权限"),
    ("nested too deeply to follow", "嵌套太深，无法跟踪"), ("not Python source: ", "不是 Python 源代码："),
    ("not Python 3: invalid syntax", "不是 Python 3：语法错误"), ("not Python 3: ", "不是 Python 3："),
    ("its ongpu gave no answer that can be read", "其 ongpu 的应答无法读取"), ("Prometheus cannot scrape it", "Prometheus 抓取不到它"),
    ("Prometheus does not know it", "Prometheus 中没有它"),
)  # fmt: skip
_SILENT = lazy(r"whether (\d{1,9}) of (\d{1,9}) nodes are healthy, for they did not answer: ")  # rules/system/node_at_fault.py
_SAID = lazy(r" \(([^()]{1,300})\)")  # what a node, or ssh, said in place of an answer
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


def count(name: str, number: int, lang: str) -> str:
    """A phrase about so many things, in the right number."""
    return word(f"{name}_1" if number == 1 else name, lang, count=number)


def colon(lang: str) -> str:
    """What stands between a label and its text."""
    return "：" if lang == "zh" else ": "


def headline(weight: Severity, slug: str, sure: Certainty, lang: str) -> str:
    """ "error: slug (likely)"; a certain finding needs no such word."""
    told = "" if sure is Certainty.CERTAIN else bracketed(certainty(sure, lang), lang)
    return severity(weight, lang) + colon(lang) + slug + told


def bracketed(text: str, lang: str) -> str:
    """The text in the language's brackets, set off from what stands before."""
    return f"（{text}）" if lang == "zh" else f" ({text})"


def because(text: str, lang: str) -> str:
    """Why something was not read or not judged, as the engine and the hosts say it; what is not listed stays as it is."""
    if lang != "zh":
        return text
    if (before := re.match(r"line (\d{1,9}): ", text)) is not None:
        return f"第 {before[1]} 行：{because(text[before.end() :], lang)}"
    if (silent := _SILENT.match(text)) is not None:
        told = _SAID.sub(lambda said: f"（{because(said[1], lang)}）", text[silent.end() :])
        return f"{silent[2]} 个节点中的 {silent[1]} 个是否正常，因为它们没有应答：{told.replace('）, ', '）、').replace('、...', ' 等')}"
    for english, chinese in _BECAUSE:
        if text.startswith(english):
            return chinese + text[len(english) :]
    return signs.chinese(text) or text


_OBSERVED = (  # what ongpu itself saw and put into words
    (r"^(\d{1,6}) devices, no graphics card$", r"\1 个设备，其中没有显卡"),
    (r"^not found$", "没有"),
    (r"^on$", "开启"),
    (r"^off$", "关闭"),
    (r"^yes$", "是"),
    (r"^no$", "否"),
    (r"^nobody listens at (\S+)$", r"\1 没有程序在监听"),
    (r"^somebody listens at (\S+)$", r"\1 有程序在监听"),
    (r"^pid (\d+) \((.+)\) holds (\S+)$", r"进程 \1（\2）占用 \3"),
)


def observed(quote: str, lang: str) -> str:
    """A line of evidence; what ongpu itself saw and put into words, in the reader's language."""
    if lang != "zh":
        return quote
    for pattern, chinese in _OBSERVED:
        if re.search(pattern, quote):
            return re.sub(pattern, chinese, quote)
    return quote


def source(name: str, lang: str) -> str:
    """Where a line of evidence came from; what ongpu itself calls so, in the reader's language."""
    return "NVML（按 nvidia-smi 的说法）" if lang == "zh" and name == "NVML (as nvidia-smi says it)" else name


def risk(value: Risk, lang: str) -> str:
    """A risk's name."""
    return _RISKS[value][lang == "zh"]


def shown(ref: Ref, lang: str) -> str:
    """The line that a reference shows, in one piece. Where it has no words but the name: that a file is there, or that a list or file
    that was read holds nothing of the driver."""
    if ref.quote == ref.source and ref.source.startswith("/"):
        return "(it is there)" if lang == "en" else "（存在）"
    if ref.quote in (ref.source, f"cat {ref.source}"):
        return "(none of the driver's in it)" if lang == "en" else "（其中没有驱动的内容）"
    return observed(" ".join(ref.quote.split()), lang)


def quoted(ref: Ref, lang: str, between: str = "  ") -> str:
    """A line of evidence behind the place where it stands."""
    return f"{source(ref.source, lang)}{numbered(ref)}{between}{shown(ref, lang)}"


def numbered(ref: Ref) -> str:
    """The number of a reference's line as it follows the name, ":7"; "" where the evidence has no lines (a setting, a list)."""
    return f":{ref.line}" if ref.line else ""
