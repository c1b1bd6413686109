"""The words of the pages, in both languages."""

import time

from ongpu.watch.web.queue.words import QUEUE

_WORDS = {
    # the frame
    "now": ("Now", "当前"), "history": ("History", "历史"), "incidents": ("Incidents", "事件"), "work": ("Use and cost", "用量与费用"),
    "fleet": ("Fleet", "集群"), "pages": ("Pages", "页面"), "skip": ("Skip to the content", "跳到正文"),
    "other_language": ("中文", "English"), "theme": ("Theme", "主题"), "auto": ("System", "跟随系统"), "light": ("Light", "浅色"),
    "dark": ("Dark", "深色"), "log_in": ("Log in", "登录"), "log_out": ("Log out", "退出登录"),
    "open_count": ("{count} open", "{count} 个未关闭"), "simulated": ("simulated", "模拟"),
    # log in
    "token": ("Token", "令牌"), "token_how": ("`{command}` on this machine prints it.", "在本机运行 `{command}` 可查看令牌。"),
    "token_wrong": ("That is not the token.", "令牌不正确。"),
    "token_wait": ("Too many wrong tokens: wait {seconds} s.", "错误次数过多：请等待 {seconds} 秒。"),
    "token_none": ("This server has no token yet.", "本服务器还没有令牌。"),
    "token_why": (
        "Reading is open on this machine; acknowledging and silencing need the token.",
        "本机可直接查看；确认与静默操作需要令牌。",
    ),
    # banners
    "no_store": ("No data: {why}", "没有数据：{why}"), "no_now": ("The agent has not told anything yet.", "监控代理尚未提供任何数据。"),
    "nvml_down": ("NVML does not answer: {reason}", "NVML 没有应答：{reason}"),
    "nvml_hint": ("`ongpu` (the doctor) says what to do about it.", "运行 `ongpu`（诊断）可得到处理方法。"),
    "not_answering": ("{count} of {all} GPUs do not answer", "{all} 块 GPU 中有 {count} 块没有应答"),
    "silent": (
        "The agent is silent: its last word is {age} old. What stands below is what it said then. Is `ongpu watch` running?",
        "监控代理没有更新：最近一次数据在 {age}前。以下内容是当时的情况。请检查 `ongpu watch` 是否在运行。",
    ),
    # now
    "gpus_ok": ("GPUs that answer", "有应答的 GPU"), "mean_busy": ("Mean utilisation", "平均利用率"),
    "memory_used": ("Memory in use", "已用显存"), "power_now": ("Power", "功耗"), "open_incidents": ("Open incidents", "未关闭的事件"),
    "driver": ("driver {version}", "驱动 {version}"), "util": ("Utilisation", "利用率"), "mem_used": ("Memory", "显存"),
    "temp": ("Temperature", "温度"), "power": ("Power", "功耗"), "clock": ("SM clock", "SM 频率"), "sm_clock": ("SM clock", "SM 频率"),
    "mem_clock": ("Memory clock", "显存频率"), "mem_util": ("Memory traffic", "显存读写"), "fan": ("Fan", "风扇"),
    "pcie_tx": ("PCIe sent", "PCIe 发送"), "pcie_rx": ("PCIe received", "PCIe 接收"), "reasons": ("Clock reasons", "降频原因"),
    "energy": ("Energy", "能耗"), "ecc": ("ECC errors", "ECC 错误"), "replays": ("PCIe replays", "PCIe 重传"),
    "processes": ("Processes", "进程"), "held_down": ("clocks held down: {why}", "频率受限：{why}"),
    "not_held": ("not held down", "未受限"), "of_limit": ("of {limit}", "上限 {limit}"), "over_limit": ("at its limit", "已达上限"),
    "not_told": ("not told", "未提供"), "not_told_why": ("not told: {what}", "未提供：{what}"),
    "because": ("{what} ({why})", "{what}（{why}）"), "since": ("since {when}", "自 {when} 起"),
    "last_seen": ("last answer {when}", "最近应答 {when}"), "verdict": ("Verdict", "结论"),
    "xids": ("Xid since the agent started: {codes}", "代理启动以来的 Xid：{codes}"),
    "ecc_seen": ("{count} uncorrectable memory errors", "{count} 个不可纠正的显存错误"),
    "pcie_link": ("PCIe gen {gen} x{width}", "PCIe 第 {gen} 代 x{width}"), "ten_minutes": ("last 10 minutes", "最近 10 分钟"),
    "more": ("and {count} more", "另有 {count} 个"), "no_process": ("no process", "没有进程"),
    "invisible": ("not visible from here", "此处不可见"), "no_gpus": ("The driver knows no GPU.", "驱动没有找到 GPU。"),
    "no_verdict": ("no verdict", "暂无结论"), "margin_left": ("{degrees} °C left to its limit", "距上限还有 {degrees} °C"),
    "free": ("free: no process on it", "空闲：没有进程"), "busy_unjudged": ("no verdict: too little is known", "没有结论：所知太少"),
    # history
    "range": ("Span", "时间范围"), "1h": ("1 h", "1 小时"), "6h": ("6 h", "6 小时"), "24h": ("24 h", "24 小时"), "7d": ("7 d", "7 天"),
    "30d": ("30 d", "30 天"), "metrics": ("Metrics", "指标"), "gpus": ("GPUs", "GPU"), "all_gpus": ("all GPUs", "全部 GPU"),
    "no_history": ("nothing was recorded in this span", "该时段没有记录"), "in_span": ("Incidents in this span", "该时段内的事件"),
    "none_in_span": ("None.", "没有。"),
    "gaps": ("Gaps are times without an answer; dashed lines and shades are incidents.", "空白表示没有应答的时段；虚线和底色表示事件。"),
    "figures": ("The figures", "数据"), "mean": ("mean", "平均"), "max": ("highest", "最高"), "latest": ("latest", "最新"),
    "told_share": ("told", "有数据"), "pick_metric": ("Choose a metric.", "请选择指标。"),
    # incidents
    "open": ("Open", "未关闭"), "closed": ("Closed", "已关闭"), "none_open": ("No open incident.", "没有未关闭的事件。"),
    "none_closed": ("No closed incident is on record.", "没有已关闭的事件记录。"), "fault": ("Fault", "故障"), "where": ("Where", "位置"),
    "opened": ("Opened", "开始"), "closed_at": ("Closed", "结束"), "lasted": ("Lasted", "持续"), "still": ("still so", "仍在持续"),
    "event": ("event", "一次性"), "condition": ("condition", "持续状态"), "machine": ("the machine", "整机"),
    "flapping": ("comes and goes", "时有时无"), "why": ("Why", "原因"), "grounds": ("Grounds", "依据"),
    "remedy": ("What to do", "处理方法"), "commands": ("Commands", "命令"), "sources": ("Sources", "参考"), "copy": ("Copy", "复制"),
    "copied": ("Copied", "已复制"), "risk_safe": ("safe", "安全"), "risk_disruptive": ("disruptive", "会中断业务"),
    "risk_destructive": ("destructive", "有破坏性"), "acknowledge": ("Acknowledge", "确认"),
    "acknowledged": ("acknowledged {when}", "已于 {when} 确认"), "silence": ("Silence", "静默"),
    "silence_for": ("Silence {slug} for", "静默 {slug}"), "silences": ("Silences", "静默规则"), "until": ("until {when}", "至 {when}"),
    "lift": ("Lift", "解除"), "everywhere": ("on all GPUs", "所有 GPU"), "silenced": ("silenced", "已静默"), "done": ("Done", "完成"),
    "not_written": ("Not written: {why}", "未写入：{why}"),
    "need_token": ("Log in with the token to acknowledge or silence.", "使用令牌登录后可确认或静默。"),
    "no_incident": ("There is no such incident.", "没有这个事件。"), "history_of": ("Its history", "查看历史"),
    "back": ("All incidents", "全部事件"), "error": ("error", "错误"), "warning": ("warning", "警告"), "note": ("note", "提示"),
    "events": ("What happened", "发生的事"), "no_events": ("Nothing is on record.", "没有记录。"),
    # use and cost
    "by": ("By", "按"), "user": ("user", "用户"), "job": ("job", "作业"), "command": ("command", "命令"), "gpu": ("GPU", "GPU"),
    "gpu_hours": ("GPU hours", "GPU 小时"), "busy_share": ("Busy", "忙碌占比"), "idle_hours": ("Held but idle", "占而不用"),
    "idle_cost": ("Cost of idle", "闲置费用"), "energy_kwh": ("Energy kWh", "能耗 kWh"), "cost": ("Cost", "费用"),
    "idle_big": ("GPU hours held but idle", "占用但闲置的 GPU 小时"), "idle_what": ("What the idle hours cost", "闲置时间的费用"),
    "of_all": ("{share} of all GPU hours held", "占全部占用时间的 {share}"), "no_price": ("no price is configured", "未配置价格"),
    "csv": ("CSV", "CSV"), "no_work": ("Nobody has held a GPU in this span, as far as is known.", "就目前所知，该时段没有人占用 GPU。"),
    "live": ("On the GPUs now", "当前进程"), "efficiency": ("Efficiency by job", "各作业效率"), "hours": ("hours", "小时"),
    "busy_hours": ("Busy", "忙碌"), "waiting_hours": ("Waiting", "等待"), "unknown_hours": ("not told", "未知"),
    "nobody": ("nobody", "无人占用"), "unknown_who": ("not told which", "未知"), "no_job": ("no job", "无作业"),
    "host_mem": ("Host memory", "内存"), "cpu": ("CPU cores", "CPU 核"), "pid": ("PID", "PID"), "memory": ("GPU memory", "显存"),
    "sm": ("SM", "SM"), "total": ("All", "合计"),
    "table_cut": ("The first {count} rows; the CSV has all.", "仅显示前 {count} 行；完整数据见 CSV。"),
    "work_note": (
        "Busy: a kernel ran. Waiting: the GPU stood still between kernels. Held but idle: a process held it, and next to nothing ran.",
        "忙碌：有内核在运行。等待：内核之间 GPU 空转。占而不用：进程占着 GPU，却几乎没有任何运行。",
    ),
    # fleet
    "no_fleet": (
        "No Prometheus is configured: `prometheus` under [web] in the configuration names its address.",
        "未配置 Prometheus：请在配置的 [web] 中用 `prometheus` 指定其地址。",
    ),
    "back_to_pages": ("Go on without", "不登录继续"), "note_label": ("Note (optional)", "备注（可选）"),
    "fleet_failed": ("Prometheus gave no answer: {why}", "Prometheus 没有应答：{why}"), "node": ("Node", "节点"),
    "present": ("GPUs", "GPU"), "expected": ("of {count}", "应有 {count}"), "hottest": ("Hottest", "最高温度"),
    "no_answer": ("no answer", "无应答"), "nodes": ("Nodes", "节点"), "missing": ("Missing GPUs", "缺失的 GPU"),
    "asking": ("Asking Prometheus …", "正在询问 Prometheus …"), "idle_7d": ("Idle hours, 7 d", "7 天闲置小时"),
    "pattern": ("Pattern", "共性问题"), "healthy": ("healthy", "正常"),
    # lengths of time
    "s": ("{count} s", "{count} 秒"), "min": ("{count} min", "{count} 分钟"), "h": ("{count} h", "{count} 小时"),
    "d": ("{count} d", "{count} 天"),
} | QUEUE  # fmt: skip


def word(name: str, lang: str, **values: object) -> str:
    """A phrase, filled. Raises KeyError where there is none of that name."""
    return _WORDS[name][lang == "zh"].format(**values)


def names() -> dict[str, tuple[str, str]]:
    """All phrases: name -> (English, Chinese)."""
    return dict(_WORDS)


def span(seconds: float, lang: str) -> str:
    """A length of time: 45 s, 12 min, 5 h, 3 d."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 5400), ("h", 3600, 172_800)):
        if seconds < most:
            return word(unit, lang, count=max(round(seconds / size), 0))
    return word("d", lang, count=round(seconds / 86400))


def clock(t: float | None, now: float) -> str:
    """A moment in this machine's time: 14:03:21 where it is of today, else with its date; "-" where it is not known."""
    if t is None:
        return "-"
    try:
        then, today = time.localtime(t), time.localtime(now)
    except (OverflowError, ValueError, OSError):
        return "-"
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


def minute(t: float, now: float) -> str:
    """A moment that is only about known: 14:03 where it is of today, else "12-31 14:03"."""
    try:
        then, today = time.localtime(t), time.localtime(now)
    except (OverflowError, ValueError, OSError):
        return "-"
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%m-%d %H:%M", then)
