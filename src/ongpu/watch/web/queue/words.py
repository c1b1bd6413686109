"""The words of the queue's pages, in both languages; `web/words.py` holds those of all pages."""

QUEUE = {
    "queue": ("Queue", "队列"), "no_queue": ("No queue: {why}", "没有队列：{why}"), "engine": ("engine {which}", "引擎 {which}"),
    "queue_hint": (
        "The page shows the queue of the user who runs `ongpu watch web`; `ongpu submit` begins one.",
        "本页显示运行 `ongpu watch web` 的用户的队列；`ongpu submit` 会建立队列。",
    ),
    # tiles
    "gpus_in_use": ("GPUs in use", "在用的 GPU"), "drained_count": ("{count} out of service", "{count} 块停用"),
    "running": ("Running", "运行中"), "waiting": ("Waiting", "等待中"), "held_count": ("{count} held", "{count} 个挂起"),
    "failed": ("Failed", "失败"), "hours_in": ("GPU hours, {span}", "GPU 小时（{span}）"),
    "done_count": ("{count} done", "{count} 个完成"),
    # GPUs
    "card_ok": ("in service", "可用"), "card_suspect": ("suspect", "可疑"), "card_drained": ("out of service", "停用"),
    "card_testing": ("being tested", "检测中"), "on_it": ("On it", "占用者"), "state": ("State", "状态"), "model": ("Model", "型号"),
    "foreign": ("not through the queue: {who}", "未经队列：{who}"), "leased": ("leased by {who}", "由 {who} 租用"),
    "nobody_on_it": ("free", "空闲"), "no_cards": ("The queue knows no GPU.", "队列没有已知的 GPU。"),
    "used_memory": ("Memory used", "已用显存"),
    # Gantt chart
    "day": ("{month} {day}", "{month}{day}日"), "gantt": ("What ran where", "运行时间图"),
    "many_runs": ("{count} short runs, {bad} failed", "{count} 次短运行，{bad} 次失败"),
    "more_gpus": ("and {count} more GPUs", "另有 {count} 块 GPU"), "legend_other": ("others, or several", "其他用户或多次"),
    "legend_bad": ("ended badly", "异常结束"), "legend_fault": ("fault, or out of service", "故障或停用"),
    "legend_now": ("now", "当前时刻"), "out_of_service": ("out of service", "停用"),
    "cut_runs": ("Only the last {count} runs are shown.", "仅显示最近 {count} 次运行。"),
    "no_runs": ("Nothing ran on a GPU in this span.", "该时段没有作业在 GPU 上运行。"), "as_table": ("The runs as a table", "以表格显示"),
    "still_running": ("runs", "运行中"), "empty_queue": ("The queue is empty.", "队列是空的。"),
    # jobs
    "id": ("Job", "作业"), "name": ("Name", "名称"), "on_gpus": ("On", "位置"), "begun": ("Began", "开始"), "ran_for": ("Ran", "已运行"),
    "time_left": ("Left", "剩余"), "asks_for": ("Asks for", "要求"), "waits_for": ("Waits", "已等待"), "because_of": ("Because", "原因"),
    "expected_at": ("Expected", "预计开始"), "nr": ("No.", "序"), "ended_at": ("Ended", "结束"), "ended_how": ("How", "方式"),
    "diagnosis": ("Diagnosis", "诊断"), "project": ("project", "项目"), "none_running": ("Nothing runs.", "没有运行中的作业。"),
    "none_waiting": ("Nothing waits.", "没有等待中的作业。"), "none_ended": ("Nothing has ended yet.", "还没有结束的作业。"),
    "last_ended": ("The last that ended", "最近结束"),
    "and_more": ("and {count} more: `ongpu jobs` lists all", "另有 {count} 个：`ongpu jobs` 可列出全部"),
    "unknown_when": ("not known", "未知"), "no_limit": ("no limit", "无时限"), "over_time": ("over its limit", "已超时限"),
    "exit_code": ("exit code {code}", "退出码 {code}"), "attempt_of": ("run {count}", "第 {count} 次运行"),
    "no_gpu_needed": ("no GPU", "不用 GPU"), "busy_peak": ("Busy, peak", "忙碌、峰值"),
    # endings
    "end_ok": ("done", "完成"), "end_gpu_fault": ("GPU fault", "GPU 故障"), "end_out_of_memory": ("GPU memory ran out", "显存不足"),
    "end_host_memory": ("host memory ran out", "内存不足"), "end_program": ("the program's own fault", "程序自身出错"),
    "end_signal": ("killed by a signal", "被信号终止"), "end_stopped": ("stopped", "已停止"), "end_timeout": ("time limit", "超出时限"),
    "end_idle": ("idle too long", "闲置过久"), "end_preempted": ("gave way", "让出"),
    "end_vanished": ("ended, nobody knows how", "结束情况不明"), "end_reboot": ("the machine rebooted", "机器重启"),
    "end_not_started": ("could not start", "未能启动"),
    # who used what
    "used_by": ("Who used what", "用量"), "jobs_waiting": ("Waiting", "等待"), "gpus_now": ("GPUs now", "当前 GPU"),
    "runs": ("Runs", "运行次数"), "share_of": ("Share", "占比"), "no_project": ("no project", "无项目"),
    "no_use": ("Nobody used a GPU in this span.", "该时段没有人使用 GPU。"),
    # one job, and what may be done
    "no_job_of_id": ("There is no such job.", "没有这个作业。"), "all_jobs": ("The queue", "返回队列"), "submitted": ("Submitted", "提交"),
    "output": ("The end of its output", "输出末尾"), "no_output": ("It has written nothing.", "没有输出。"),
    "output_token": ("Log in with the token to see its command and output.", "使用令牌登录后可查看其命令和输出。"),
    "why_so": ("Why", "原因"), "folder": ("Folder", "目录"), "cancel": ("Cancel", "取消"), "hold": ("Hold", "挂起"),
    "release": ("Release", "恢复"), "submit": ("Submit a job", "提交作业"), "command_line": ("Command", "命令"),
    "project_label": ("Project", "项目"), "gpu_count": ("GPUs", "GPU 数"), "memory_gib": ("GPU memory, GiB", "显存（GiB）"),
    "limit_hours": ("Time limit, hours", "时限（小时）"), "put": ("Submit", "提交"),
    "submitted_as": ("Submitted as job {id}", "已提交，作业号 {id}"), "no_command": ("Write a command.", "请填写命令。"),
    "queue_token": ("Log in with the token to submit and cancel.", "使用令牌登录后可提交和取消作业。"),
    "bad_command": ("The command cannot be read: {why}", "无法解析命令：{why}"), "refused": ("Not done: {why}", "未执行：{why}"),
    "runs_as": ("It runs as {user}, the user of this server.", "以本服务器的用户 {user} 的身份运行。"),
    "gpu_time": ("GPU hours", "GPU 小时"), "energy_used": ("Energy", "能耗"),
}  # fmt: skip
