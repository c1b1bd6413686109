"""What the live view says besides figures: its keys, its questions, in both languages."""

_WORDS = {
    "keys": (
        "? help  / user  s sort  t tree  g GPU  k end  Enter more  Space pause  q quit",
        "? 帮助  / 用户  s 排序  t 树  g 此卡  k 结束  回车 详情  空格 暂停  q 退出",
    ),
    "paused": ("PAUSED", "已暂停"), "starting": ("asking NVML ...", "正在询问 NVML……"), "by": ("by {by}", "按 {by}"),
    "user_is": ("user {user}", "用户 {user}"), "only_gpu": ("GPU {index} only", "仅 GPU {index}"), "ask_user": ("user name or number; empty: all", "用户名或编号；留空为全部"),
    "util": ("util", "利用率"), "memory": ("memory", "显存"), "power": ("power", "功耗"), "of_gpu": ("GPU {index}", "GPU {index}"),
    "last": ("last {span}", "最近 {span}"), "none": ("no process", "没有进程"), "none_of": ("no process of {user}", "{user} 没有进程"),
    "why": ("why", "原因"), "fix": ("fix", "修复"), "seen": ("seen", "证据"), "workers": ("below it", "其子进程"),
    "help": (
        """  Tab       from the GPUs to the processes and back
  Up Down   move; PageUp PageDown Home End
  Enter     all that is known of what the cursor is on
  s         next order: GPU memory, CPU, SM, user, pid
  o         next order of the GPUs: index, util, mem, temp, power
  /         only one user's processes (empty: all)
  g         only the processes of the chosen GPU
  t         tree: with the processes below them
  k         end a process: TERM or KILL, asked twice
  Space     pause: the picture stands still
  l         English, Chinese
  d         dark, light
  q         quit

  x  a fault    !  works badly    ?  not known    -  not told
  CPU 100%: one whole core. 66/87: degrees, and where the card slows.
  Last column of a GPU: the verdict; "?" behind it: only possible.
  Esc: back""",
        """  Tab       在 GPU 与进程之间切换
  上 下     移动；PageUp PageDown Home End
  回车      光标所在对象的全部信息
  s         进程排序：显存、CPU、SM、用户、pid
  o         GPU 排序：编号、利用率、显存、温度、功耗
  /         只看某个用户的进程（留空为全部）
  g         只看所选 GPU 的进程
  t         树：显示其子进程
  k         结束进程：TERM 或 KILL，询问两次
  空格      暂停：画面静止
  l         英文、中文
  d         深色、浅色
  q         退出

  x  故障    !  运行不佳    ?  未知    -  未给出
  CPU 100% 为一整个核。66/87：当前温度与该卡降频的温度。
  GPU 最后一列是结论；后面带“?”表示只是可能。
  Esc：返回""",
    ),
    "end": ("End process {pid} of {user}?", "结束 {user} 的进程 {pid}？"),
    "end_keys": ("t  TERM: it may save and clean up\n9  KILL: at once, nothing is saved\nEsc  leave it", "t  TERM：进程可以保存并清理\n9  KILL：立即结束，不保存\nEsc  不结束"),
    "sure": ("Send {signal} to this process?", "向这个进程发送 {signal}？"), "sure_keys": ("y  yes, end it\nEsc  leave it", "y  是，结束它\nEsc  不结束"),
    "started": ("started {time}", "启动于 {time}"), "sent": ("{signal} was sent to {pid}", "已向 {pid} 发送 {signal}"),
    "gone": ("{pid} has ended already", "{pid} 已经结束"), "other": ("{pid} is another process by now: nothing was sent", "{pid} 现在是另一个进程：没有发送信号"),
    "denied": ("{pid} belongs to {user}: only they or root may end it", "{pid} 属于 {user}：只有本人或 root 能结束它"),
    "unsupported": ("this system cannot end a process safely", "此系统无法安全地结束进程"),
    "simulated": ("a simulated process: nothing was sent", "这是模拟的进程：没有发送信号"),
    "not_seen": ("{pid} is not visible from here: end it where it runs", "此处看不到 {pid}：请在它运行的地方结束它"),
    "choose": ("choose a process first (Tab)", "请先选择一个进程（Tab）"),
    "busiest": ("busiest thread", "最忙线程"),
    "small": ("the window is too small", "窗口太小"),
}  # fmt: skip


def say(name: str, lang: str, **values: object) -> str:
    """A phrase, filled."""
    return _WORDS[name][lang == "zh"].format(**values)
