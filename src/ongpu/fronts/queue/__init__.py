"""`ongpu queue ACTION`: what an operator does with the queue; each action is in a file beside this one."""

import argparse
from importlib import import_module

from ongpu.fronts.answer import say

# action -> the file beside this one, and what it does; `add` of that file takes the action's parser
ACTIONS = {
    "status": ("status", "whether the queue works: its daemon, GPUs, reservations, configuration", "队列是否正常：守护进程、GPU、预留、配置"),
    "drain": ("cards", "take GPUs out of service: what runs goes on, nothing new starts", "停用 GPU：正在运行的继续，不再放新作业"),
    "test": ("cards", "test GPUs; one that passes is in service again", "检测 GPU；通过后恢复使用"),
    "return": ("cards", "put GPUs back into service without a test", "不检测而直接恢复 GPU"),
    "reserve": ("reserve", "keep GPUs for a time, a user or a project", "为某段时间、用户或项目预留 GPU"),
    "import": ("importing", "take over the jobs that wait in pueue, task-spooler or Slurm", "接管 pueue、task-spooler 或 Slurm 中等待的作业"),
    "setup": ("setup", "write or check the configuration of Slurm for one shared machine with GPUs", "为单台共享 GPU 机器生成或检查 Slurm 配置"),
    "history": ("history", "the runs that ended, as JSON lines", "已结束的各次运行（JSON Lines）"),
    "simulate": ("simulate", "replay a trace under several policies and compare what comes of it", "用多种策略重放一份作业记录并比较结果"),
    "daemon": ("daemon", "run the queue's daemon here, or stop it; what runs goes on", "在前台运行队列守护进程，或停止它；作业不受影响"),
}


def add(parser: argparse.ArgumentParser) -> None:
    """The actions, and the arguments of each."""
    actions = parser.add_subparsers(dest="action", required=True, metavar=say("ACTION", "操作"), title=say("actions", "操作"))
    for name, (file, english, chinese) in ACTIONS.items():
        told = say(f"{english[0].upper()}{english[1:]}.", f"{chinese}。")
        import_module(f"ongpu.fronts.queue.{file}").add(actions.add_parser(name, help=say(english, chinese), description=told))
