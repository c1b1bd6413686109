"""`ongpu gate`: the doctor's answer for schedulers: place a job here, or not."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ongpu.fronts.answer import add_format, add_language, complain, language, say
from ongpu.fronts.run_words import aside

if TYPE_CHECKING:
    from ongpu.queue.gate import Decision, Policy

PLACE, REFUSED, FAILED = 0, 1, 3
PATIENCE = 10.0  # seconds for a driver that does not answer; one that does is asked in tenths of a second
CONFIG = "/etc/ongpu/gate.toml"
HOOKS = Path(__file__).parent.parent / "queue" / "hooks"
# What is printed for whom: (name, file, English, Chinese).
INSTALL: Mapping[str, tuple[tuple[str, str, str, str], ...]] = {
    "slurm": (
        ("config", "slurm.conf", "lines of slurm.conf", "slurm.conf 中的几行"),
        ("healthcheck", "slurm-healthcheck.sh", "drains the node while the gate refuses; takes back only its own drains", "gate 拒绝期间 drain 节点；只撤销自己的 drain"),
        ("prolog", "slurm-prolog.sh", "refuses a job whose own GPUs are not fit; the job is queued again", "作业分到的 GPU 不可用时拒绝启动，作业重新排队"),
    ),
    "kubernetes": (
        ("npd", "node-problem-detector.json", "a custom plugin of node-problem-detector: the node's condition GPUProblem", "node-problem-detector 自定义插件：节点状态 GPUProblem"),
        ("rbac", "kubernetes-rbac.yaml", "what the report may do on nodes, and those who submit in their namespace", "report 对节点的权限，以及提交者在其命名空间的权限"),
        ("report", "kubernetes-report.yaml", "a DaemonSet: the gate's answer as condition and taint of its node", "DaemonSet：把 gate 的结论写成节点的状态与污点"),
        ("readiness", "readiness.yaml", "a readiness probe of the pod that owns the GPUs", "持有 GPU 的 Pod 的就绪探针"),
    ),
    "ray": (("start", "ray-start.sh", "in place of `ray start`: offers Ray only the GPUs that are fit", "代替 `ray start`：只把可用的 GPU 交给 Ray"),),
    "torchrun": (("torchrun", "torchrun.sh", "starts torchrun only where the node's GPUs are fit", "仅在本节点 GPU 可用时启动 torchrun"),),
}  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--gpus", metavar="GPU,...", help=say(
        "only these, by index or UUID; all, none (default: SLURM_JOB_GPUS, else CUDA_VISIBLE_DEVICES, else all)",
        "只看这些 GPU（编号或 UUID）；all、none（默认 SLURM_JOB_GPUS，其次 CUDA_VISIBLE_DEVICES，否则全部）"))  # fmt: skip
    parser.add_argument("--strict", action="store_true", help=say("refuse also where it cannot be told", "无法判断时也拒绝"))
    parser.add_argument("--override", action="append", default=[], metavar="SLUG", help=say("never refuse for this", "不因它而拒绝"))
    parser.add_argument("--refuse", action="append", default=[], metavar="SLUG", help=say(
        "refuse for this too, whatever its layer and severity", "也因它而拒绝，不论层次与严重程度"))  # fmt: skip
    parser.add_argument("--patience", type=float, metavar="SECONDS", help=say(
        f"wait so long for a driver that does not answer (default: {PATIENCE:g})", f"驱动不应答时最多等待的秒数（默认 {PATIENCE:g}）"))  # fmt: skip
    parser.add_argument("--config", metavar="FILE", help=say(f"strict, refuse, override, patience (TOML; default: {CONFIG})", f"strict、refuse、override、patience（TOML，默认 {CONFIG}）"))
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # another file system: tests
    add_format(parser, ("text", "json"))
    add_language(parser)
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(dest="action", metavar="install|tell", title=say("to put it into a scheduler", "接入调度系统"))
    shown = say("print what to put where", "输出要放置的内容与位置")
    install = actions.add_parser("install", help=shown, description=shown)
    install.add_argument("target", choices=sorted(INSTALL), help=say("slurm, kubernetes, ray or torchrun", "slurm、kubernetes、ray 或 torchrun"))
    parts = sorted(part[0] for rows in INSTALL.values() for part in rows)
    install.add_argument("--only", choices=parts, metavar="PART", help=say(f"one file, bare: {', '.join(parts)}", f"只输出一个文件：{'、'.join(parts)}"))
    install.add_argument("--lang", choices=("en", "zh"), default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    _add_tell(actions)


def _add_tell(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = say("tell the scheduler what the gate says of this node; without --apply it only checks", "把 gate 对本节点的结论告诉调度系统；没有 --apply 时只检查")
    tell = actions.add_parser("tell", help=text, description=text)
    tell.add_argument("target", choices=("kubernetes",), help=say("kubernetes: the node's condition GPUProblem and the taint ongpu/gpu-unfit", "kubernetes：节点状态 GPUProblem 与污点 ongpu/gpu-unfit"))
    tell.add_argument("--node", metavar="NAME", help=say("its name there (default: NODE_NAME, else the host's name)", "节点名（默认 NODE_NAME，否则为主机名）"))
    tell.add_argument("--apply", action="store_true", help=say("do it", "执行"))
    tell.add_argument("--effect", choices=("NoSchedule", "NoExecute"), default="NoSchedule", help=say("NoExecute also ends the jobs that run there", "NoExecute 还会终止其上的作业"))
    tell.add_argument("--context", default="", metavar="NAME", help=say("of the kubeconfig", "kubeconfig 的上下文"))
    for name, kind in (("--gpus", str), ("--patience", float), ("--lang", str)):  # after `tell` as well as before it
        tell.add_argument(name, type=kind, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Ask, judge, decide. 0: place; 1: do not, with a line for each reason; 2: bad usage; 3: we failed."""
    if options.action == "install":
        return _install(options)
    from ongpu.queue.gate import BadName, asked, decide
    from ongpu.queue.machine import NOTHING, ask

    try:
        policy, patience = _policy(options)
        want = asked(os.environ, options.gpus)
    except BadName as error:
        return complain(f"--gpus: {error}: neither an index nor a UUID", f"--gpus：{error}：既不是编号也不是 UUID")
    except _Bad as error:
        return complain(error.english, error.chinese)
    try:
        report = ask(options.root, policy, patience) if want.names != () else NOTHING
        decision = decide(report, want, policy)
    except Exception as error:  # 1 would refuse jobs for a fault of ours
        words = f"{type(error).__name__}: {str(error)[:200]}"
        complain(f"the gate itself failed: {words}", f"gate 自身出错：{words}")
        return FAILED
    if options.action == "tell":
        return _tell(options, decision)
    lang = options.lang or language()
    if options.format == "json":
        from ongpu.report.as_json import finding_dict

        def told(one: Any) -> dict[str, Any]:
            return {"slug": one.slug, "text": one.text(lang), "finding": finding_dict(one.finding, report, lang) if one.finding else None}

        answer = {
            "schema": 1, "place": decision.place, "gpus": want.names, "asked_by": want.by, "reasons": [told(one) for one in decision.reasons],
            "overridden": [told(one) for one in decision.overridden], "unknown": [one.text(lang) for one in decision.unknown],
        }  # fmt: skip
        _out(json.dumps(answer, ensure_ascii=False, indent=1, default=str))
    else:
        _out("\n".join(f"{reason.slug}: {reason.text(lang)}" for reason in decision.reasons))
        with aside():
            _aside(decision, lang)
    return PLACE if decision.place else REFUSED


def _out(text: str) -> None:
    """On standard output, as far as it can be written: the exit code is the answer, and a reader that went away changes no verdict."""
    try:
        print(text, end="\n" if text else "", flush=True)
    except OSError:
        with contextlib.suppress(OSError):  # what waits to be written is dropped
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(options: argparse.Namespace, decision: "Decision") -> int:
    """Kubernetes is told; 0 where it was, whatever the gate said."""
    import platform

    from ongpu.queue.engines import EngineError
    from ongpu.queue.engines.kubernetes.api import Api
    from ongpu.queue.engines.kubernetes.report import tell, wish

    node = options.node or os.environ.get("NODE_NAME") or platform.node().lower()
    try:
        for line in tell(Api(options.context), node, wish(decision), options.effect, options.apply):
            print(say(*line))
    except EngineError as error:
        complain(error.english, error.chinese)
        return error.code
    return PLACE


def _aside(decision: "Decision", lang: str) -> None:
    """For people: what was passed over."""
    for one in decision.overridden:
        print(say(f"ongpu: overridden: {one.slug}: {one.text(lang)}", f"ongpu：已忽略：{one.slug}：{one.text(lang)}"), file=sys.stderr)
    if decision.place and decision.unknown:
        more = say("placed, though something cannot be told (refused with --strict)", "允许放置，但有些情况无法判断（--strict 则拒绝）")
        print(f"ongpu: {more}{say(': ', '：')}{decision.unknown[0].text(lang)}", file=sys.stderr)


class _Bad(ValueError):
    """Bad usage, in both languages."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


def _policy(options: argparse.Namespace) -> "tuple[Policy, float]":
    """What the administrator's file and the command line say together."""
    from ongpu.queue.gate import Policy

    told = _config(options)
    lists = {}
    for name in ("refuse", "override"):
        lists[name] = frozenset(_slugs([*told.get(name, ()), *getattr(options, name)], name))
    patience = options.patience if options.patience is not None else told.get("patience", PATIENCE)
    if not isinstance(patience, (int, float)) or not 0.1 <= patience <= 600:
        raise _Bad(f"patience {patience}: give seconds from 0.1 to 600", f"patience {patience}：请给出 0.1 到 600 秒")
    return Policy(bool(options.strict or told.get("strict")), lists["refuse"], lists["override"]), float(patience)


def _config(options: argparse.Namespace) -> dict[str, Any]:
    import tomllib

    path = Path(options.config) if options.config else Path(options.root, CONFIG.lstrip("/"))
    try:
        told = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if options.config:
            raise _Bad(f"{path}: no such file", f"{path}：没有这个文件") from None
        return {}
    except OSError as error:
        raise _Bad(f"{path}: {error.strerror}", f"{path}：{error.strerror}") from None
    except UnicodeDecodeError:
        raise _Bad(f"{path}: not a text in UTF-8", f"{path}：不是 UTF-8 文本") from None
    except ValueError as error:
        raise _Bad(f"{path}: {error}", f"{path}：{error}") from None
    kinds: dict[str, Any] = {"strict": bool, "refuse": list, "override": list, "patience": (int, float)}
    for name, value in told.items():
        if name not in kinds or not isinstance(value, kinds[name]) or (name == "patience" and isinstance(value, bool)):
            known = ", ".join(kinds)
            raise _Bad(f"{path}: {name}: not known, or of another kind (known: {known})", f"{path}：{name}：不认识，或类型不对（可用：{known}）")
    return told


def _slugs(told: list[Any], option: str) -> list[str]:
    from ongpu.queue.gate import slugs

    known = slugs() if told else ()
    for slug in told:
        if slug not in known:
            import difflib

            near = ", ".join(difflib.get_close_matches(str(slug), known, 2))
            more = (f"did you mean: {near}?", f"是不是：{near}？") if near else ("see ongpu rules", "请看 ongpu rules")
            raise _Bad(f"{option}: {slug}: no such slug; {more[0]}", f"{option}：{slug}：没有这个名称；{more[1]}")
    return told


def _install(options: argparse.Namespace) -> int:
    parts = INSTALL[options.target]
    if options.only:
        name = next((file for part, file, *_ in parts if part == options.only), None)
        if name is None:
            there = ", ".join(part[0] for part in parts)
            return complain(f"--only {options.only}: {options.target} has: {there}", f"--only {options.only}：{options.target} 只有：{there}")
        print((HOOKS / name).read_text("utf-8"), end="")
        return PLACE
    for part, name, english, chinese in parts:
        print(f"# ==== {part}: {say(english, chinese)}")
        print(f"#      ongpu gate install {options.target} --only {part} > FILE")
        print((HOOKS / name).read_text("utf-8"))
    print(say(
        "# `ongpu gate` must be found there: give its full path as ONGPU in the scripts, or put it into /usr/local/bin.",
        "# 上述位置必须能找到 `ongpu`：在脚本里用 ONGPU 写明完整路径，或把它放进 /usr/local/bin。"))  # fmt: skip
    return PLACE
