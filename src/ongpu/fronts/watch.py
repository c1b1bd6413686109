"""`ongpu watch`: the agent that keeps an eye on the GPUs of this machine, and what is asked of it."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ongpu.fronts.answer import add_format, add_language, columns, complain, language, say

if TYPE_CHECKING:
    from ongpu.watch.config import Config

FRESH = 15.0  # seconds without a word of the agent after which it counts as silent: it writes each second
CLEAR, FOUND, UNKNOWN = 0, 1, 3  # exit codes, as of all commands
ACTIONS: Mapping[str, tuple[str, str]] = {
    "status": ("is the agent well, are the GPUs (exit code: 0 yes, 1 a fault, 3 cannot tell)", "监控和 GPU 是否正常（退出码：0 正常，1 有故障，3 无法判断）"),
    "incidents": ("what is wrong now; with a number: its whole diagnosis", "当前的故障；给出编号则显示完整诊断"),
    "silence": ("send nothing about a fault or a GPU for a while", "在一段时间内不发送某个故障或某块 GPU 的通知"),
    "config": ("print the effective configuration, with what each key means", "输出生效的配置及各项含义"),
    "rules": ("print the alert rules for Prometheus", "输出 Prometheus 告警规则"),
    "dashboard": ("print the dashboard for Grafana", "输出 Grafana 面板"),
    "token": ("make and print the token of the web dashboard", "生成并输出网页面板的令牌"),
    "web": ("serve the web dashboard and the HTTP API", "启动网页面板与 HTTP API"),
    "install": ("install the agent as a systemd service", "把监控安装为 systemd 服务"),
    "uninstall": ("remove that service", "移除该服务"),
}


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    _add_common(parser)
    parser.add_argument("--listen", metavar="ADDRESS", help=say(
        "address of /metrics (default: 127.0.0.1:19400; '' for none)", "/metrics 的地址（默认 127.0.0.1:19400；'' 表示不开）"))  # fmt: skip
    parser.add_argument("--dcgm-names", action="store_true", help=say("/metrics also under dcgm-exporter's names", "/metrics 同时使用 dcgm-exporter 的指标名"))
    parser.add_argument("--web", action="store_true", help=say("serve the web dashboard too, in a process of its own", "同时在独立进程中提供网页面板"))
    parser.add_argument("--quiet", action="store_true", help=say("print no incidents", "不在终端输出事件"))
    parser.add_argument("--test-notify", action="store_true", help=say("send a test message to every service, and end", "向每个通知渠道发送一条测试消息后退出"))
    parser.add_argument("--no-kernel-log", action="store_true", help=argparse.SUPPRESS)  # tests: another machine's log is in there
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(dest="action", metavar=say("ACTION", "操作"), title=say("actions (without one: run the agent)", "操作（不写则运行监控）"))
    for name, (english, chinese) in ACTIONS.items():
        action = actions.add_parser(name, help=say(english, chinese), description=say(f"{english[0].upper()}{english[1:]}.", f"{chinese}。"))
        _add_common(action, argparse.SUPPRESS)
        if more := _ARGUMENTS.get(name):
            more(action)


def _add_common(parser: argparse.ArgumentParser, default: Any = None) -> None:
    parser.add_argument("--config", metavar="FILE", default=default, help=say("configuration (TOML)", "配置文件（TOML）"))
    parser.add_argument("--store", metavar="FILE", default=default, help=say("the history, in place of the configured one", "历史文件，代替配置中的位置"))
    told = say("a simulated node that goes through the faults; its history is kept apart", "演示：模拟一个会依次出现各种故障的节点，历史单独存放")
    parser.add_argument("--demo", action="store_true", default=default or False, help=told)
    add_language(parser)
    if default is argparse.SUPPRESS:
        parser.set_defaults(lang=argparse.SUPPRESS)


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    add_format(parser, ("text", "json"))


def _incident_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("number", nargs="?", type=int, metavar="NUMBER", help=say("one incident, whole", "显示该编号的完整诊断"))
    parser.add_argument("--all", action="store_true", help=say("also those that are over", "也列出已恢复的"))
    add_format(parser, ("text", "json"))


def _silence_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="*", metavar="SLUG|GPU", help=say("a slug, a GPU (index or UUID), or both", "规则名、GPU（编号或 UUID），或两者"))
    parser.add_argument("--for", dest="span", default="2h", metavar="TIME", help=say("for how long: 30m, 2h, 7d (default: 2h)", "多久：30m、2h、7d（默认 2h）"))
    parser.add_argument("--why", default="", metavar="TEXT", help=say("a note for others", "备注"))
    parser.add_argument("--end", type=int, metavar="NUMBER", help=say("end a silence", "结束某条静默"))


def _rules_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tests", action="store_true", help=say("print promtool's unit tests of them instead", "改为输出 promtool 单元测试"))


def _install_arguments(parser: argparse.ArgumentParser) -> None:
    _uninstall_arguments(parser)
    parser.add_argument("--show", action="store_true", help=say("only print the unit, write nothing", "只输出服务单元，不写入"))


def _uninstall_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", action="store_true", help=say("for this user only, not for the whole machine", "只为当前用户安装，而非整机"))


def _web_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--listen", metavar="ADDRESS", default=argparse.SUPPRESS, help=say("its address (default: 127.0.0.1:19480)", "监听地址（默认 127.0.0.1:19480）"))
    parser.add_argument("--prometheus", metavar="URL", help=say("a Prometheus to ask for the page of all nodes", "供“所有节点”页面查询的 Prometheus"))
    parser.add_argument("--tls-cert", metavar="FILE", help=say("certificate (PEM), for https", "https 证书（PEM）"))
    parser.add_argument("--tls-key", metavar="FILE", help=say("its private key (PEM)", "证书的私钥（PEM）"))
    _token_arguments(parser)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)  # the agent that started it: it ends with that


def _token_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--token-file", metavar="FILE", help=say("where the token is kept (default: beside the history)", "令牌文件（默认在历史文件旁）"))


_ARGUMENTS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "status": _status_arguments, "incidents": _incident_arguments, "silence": _silence_arguments, "rules": _rules_arguments,
    "install": _install_arguments, "uninstall": _uninstall_arguments, "web": _web_arguments, "token": _token_arguments,
}  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """The agent, or an action."""
    from ongpu.store import StoreError
    from ongpu.watch import config

    try:
        told = config.read(Path(options.config) if options.config else None)
        return _DO[options.action or "agent"](options, told)
    except config.ConfigError as error:
        return complain(error.en, error.zh)
    except StoreError as error:
        complain(error.en, error.zh)
        return UNKNOWN
    except BrokenPipeError:  # the reader went away; cli.py knows
        raise
    except OSError as error:
        complain(f"{error.filename or ''}: {error.strerror or error}", f"{error.filename or ''}：{error.strerror or error}")
        return UNKNOWN


def _lang(options: argparse.Namespace) -> str:
    told = getattr(options, "lang", None)
    return told if told and told != argparse.SUPPRESS else language()


def _agent(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.watch.agent import Agent, Options

    if options.test_notify:
        return _test_notify(config)
    if options.listen:
        from ongpu.watch.config import address

        address(options.listen)
    more = Options(
        demo=options.demo, config=Path(options.config) if options.config else None, store=Path(options.store) if options.store else None,
        listen=options.listen, lang=_lang(options), quiet=options.quiet, dcgm_names=options.dcgm_names, kernel_log=None if options.no_kernel_log else "/dev/kmsg",
    )  # fmt: skip
    if options.web and find_spec("nicegui") is None:
        return complain("the dashboard needs: pip install 'ongpu[web]'", "网页面板需要：pip install 'ongpu[web]'")
    agent = Agent(more)
    if not options.web:
        return agent.run()
    from ongpu.watch.web.child import Child

    child = Child(["--store", str(agent.path), "--lang", _lang(options), *(("--config", options.config) if options.config else ())])
    try:
        return agent.run()
    finally:
        child.close()


def _test_notify(config: "Config") -> int:
    from ongpu.watch import notify

    if not config.get("notify", "urls"):
        return complain("no services: set notify.urls in the configuration", "没有通知渠道：请在配置中设置 notify.urls")
    answers = notify.test(config, notify.host_name(config))
    for number, (url, why) in enumerate(answers, 1):
        print(f"{number}  {url}  " + (say("sent", "已发送") if why is None else say(f"not sent: {why}", f"未发送：{why}")))
    return FOUND if any(why for _, why in answers) else CLEAR


def _path(options: argparse.Namespace, config: "Config") -> Path:
    from ongpu.watch.config import store_path

    if options.store:
        return Path(options.store)
    return store_path(config).with_name("demo.db") if options.demo else store_path(config)


def _status(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.report.top.words import word
    from ongpu.store import Store
    from ongpu.watch.messages import line, wrapped

    lang, path = _lang(options), _path(options, config)
    with Store(path, readonly=True) as store:
        text, incidents = store.now(), store.incidents(open_only=True)
    now = json.loads(text) if text else {}
    age = None if "written" not in now else max(time.time() - now["written"], 0.0)
    silent = age is None or age > FRESH
    bad = [one for one in incidents if one.get("label") in ("critical", "warning")]
    seen = [gpu.get("condition") for gpu in now.get("gpus", ())]
    # before an incident has held long enough to be one, a GPU that is silent, or missing, is no reason to say that all is well
    well = bool(now.get("up")) and set(seen) == {"ok"} and len(seen) >= (config.get("sample", "gpus") or 0)
    code = UNKNOWN if silent else FOUND if bad else CLEAR if well else UNKNOWN
    if options.format == "json":
        gpus = [{name: gpu.get(name) for name in ("index", "uuid", "name", "condition")} for gpu in now.get("gpus", ())]
        told = {"history": str(path), "age": age, "silent": silent, "up": now.get("up"), "reason": now.get("reason"), "gpus": gpus}
        print(json.dumps({**told, "incidents": incidents, "exit": code}, ensure_ascii=False, indent=1))
        return code
    print(say(f"history    {path}", f"历史  {path}"))
    if silent:
        ago = say("never", "从未") if age is None else say(f"{age:.0f} s ago", f"{age:.0f} 秒前")
        print(say(f"agent      SILENT; its last word: {ago}; is `ongpu watch` running?", f"监控  无响应；最近一次：{ago}；`ongpu watch` 在运行吗？"))
        return code
    print(say(f"agent      well, {age:.0f} s ago", f"监控  正常，{age:.0f} 秒前"))
    conditions = [str(gpu.get("condition")) for gpu in now.get("gpus", ())]
    counts = ", ".join(f"{conditions.count(name)} {word(name, lang)}" for name in dict.fromkeys(conditions)) or "0"
    if now.get("up"):
        print(say(f"GPUs       {counts}", f"GPU   {counts}"))
    else:
        print(say(f"GPUs       not reached: {now.get('reason')}", f"GPU   无法访问：{now.get('reason')}"))
    for problem in now.get("problems", ())[:9]:  # of the agent's own: a port that is taken, a service that took no message
        print(say(f"problem    {problem['en']}", f"问题  {problem['zh']}"))
    for incident in incidents:
        print(wrapped(line("opened", incident, lang), columns(), str(incident["slug"])))
    return code


def _incidents(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.store import Store
    from ongpu.watch.messages import line, message, wrapped

    lang = _lang(options)
    with Store(_path(options, config), readonly=True) as store:
        listed = store.incidents(open_only=not (options.all or options.number is not None), limit=100_000)
    if options.number is not None:
        listed = [one for one in listed if one["id"] == options.number]
        if not listed:
            return complain(f"no incident {options.number}", f"没有编号为 {options.number} 的事件")
    if options.format == "json":
        print(json.dumps(listed, ensure_ascii=False, indent=1))
    elif options.number is not None:
        if listed[0]["closed"] is not None:  # else it would read as if it were still so
            print(wrapped(line("closed", listed[0], lang), columns(), str(listed[0]["slug"])), end="\n\n")
        told = message("opened", listed, "ongpu", lang)
        print(wrapped(f"{told['title']}\n\n{told['body']}", columns()))
    elif not listed:
        print(say("nothing is wrong that the agent knows of", "监控未发现故障"))
    for one in listed if options.format == "text" and options.number is None else ():
        row = f"{one['id']:>5}  {line('opened' if one['closed'] is None else 'closed', one, lang)}"
        print(wrapped(row, columns(), str(one["slug"])))
    return FOUND if any(one["closed"] is None for one in listed) else CLEAR


def _silence(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.store import Store
    from ongpu.watch.config import duration

    now = time.time()
    with Store(_path(options, config), alone=False) as store:
        if options.end is not None:
            if options.end not in [one["id"] for one in store.silences(now)]:
                return complain(f"no silence {options.end} holds now", f"没有编号为 {options.end} 的有效静默")
            store.end_silence(options.end, now)
        elif options.what:
            span = duration(options.span)
            if not span:
                return complain(f"--for {options.span}: no time; write 30m, 2h, 7d", f"--for {options.span}：不是时间；请写 30m、2h、7d")
            body: dict[str, Any] = {"slug": None, "gpu_uuid": None, "by": "cli", "note": options.why}
            for word in options.what:
                problem = _what(word, body, {str(gpu.place): gpu.uuid for gpu in store.gpus()})
                if problem:
                    return problem
            store.add_silence(now + span, body)
        for one in store.silences(now):
            what = " ".join(filter(None, (one.get("slug"), one.get("gpu_uuid")))) or say("all", "全部")
            left = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["until"]))
            print(f"{one['id']:>5}  {what}  " + say(f"until {left}", f"至 {left}") + (f"  {one['note']}" if one.get("note") else ""))
    return CLEAR


def _what(word: str, body: dict[str, Any], gpus: Mapping[str, str]) -> int:
    """Puts a slug or a GPU into what is to be silenced; an exit code where it is neither."""
    import difflib

    from ongpu.engine import all_rules

    slugs = [rule.slug for rule in all_rules()]
    if word in slugs:
        body["slug"] = word
    elif word in gpus or word in gpus.values():
        body["gpu_uuid"] = gpus.get(word, word)
    else:
        near = ", ".join(difflib.get_close_matches(word, slugs, 2))
        more = say(f"did you mean: {near}?", f"是不是：{near}？") if near else say("see ongpu rules", "请看 ongpu rules")
        return complain(f"{word}: no slug, and no GPU that was seen here; {more}", f"{word}：不是规则名，也不是本机见过的 GPU；{more}")
    return 0


def _config(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.watch.config import shown

    print(shown(config, _lang(options)), end="")
    return CLEAR


def _rules(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.watch import promrules

    print(promrules.unit_tests(config.alerts) if options.tests else promrules.rule_file(config.alerts), end="")
    return CLEAR


def _dashboard(options: argparse.Namespace, config: "Config") -> int:
    print(import_module("ongpu.watch.grafana").dashboard(_lang(options)), end="")
    return CLEAR


def _token_file(options: argparse.Namespace, config: "Config") -> Path:
    told = options.token_file or config.get("web", "token_file")
    return Path(told) if told else _path(options, config).with_name("web.token")


def _token(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.watch.web import tokens

    path = _token_file(options, config)
    try:
        token = tokens.create(path)
    except tokens.BadToken as error:
        return complain(error.en, error.zh)
    print(token)
    print(say(f"kept in {path}", f"保存在 {path}"), file=sys.stderr)
    return CLEAR


def _web(options: argparse.Namespace, config: "Config") -> int:
    if find_spec("nicegui") is None:
        return complain("the dashboard needs: pip install 'ongpu[web]'", "网页面板需要：pip install 'ongpu[web]'")
    listen = options.listen if getattr(options, "listen", None) else config.get("web", "listen")
    web = import_module("ongpu.watch.web.serve")
    return int(web.serve(
        _path(options, config), listen, _token_file(options, config), config, options.prometheus, demo=options.demo,
        cert=options.tls_cert, key=options.tls_key, parent=options.parent, say=web.to_stderr(_lang(options)),
    ))  # fmt: skip


def _install(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.watch import service

    if options.demo or options.store:
        told = "a service keeps its history where history.path in --config says", "服务的历史位置由 --config 中的 history.path 决定"
        return complain(f"install: not with --demo or --store; {told[0]}", f"install：不能与 --demo、--store 同用；{told[1]}")
    path = service.place(options.user)
    named = str(config.path) if options.config and config.path else None
    text = service.unit(options.user, named)
    print(text, end="" if options.show else "\n")
    for needed in () if options.user else (sys.executable, *((named,) if named else ())):
        if barred := service.out_of_reach(needed):
            warned = f"the service runs as a user of its own, which may not use {barred}: it could not start. Others must be able to read"
            complain(f"{warned} {needed}: move it, or use --user", f"该服务以独立用户运行，无权使用 {barred}，将无法启动。{needed} 须对其他用户可读：请移到别处，或用 --user")
    if options.show:
        return CLEAR
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    _next(say(f"written: {path}", f"已写入：{path}"), service.next_steps(options.user, True))
    return CLEAR


def _uninstall(options: argparse.Namespace, config: "Config") -> int:
    from ongpu.watch import service

    path = service.place(options.user)
    if not path.exists():
        return complain(f"{path}: not installed", f"{path}：未安装")
    path.unlink()
    _next(say(f"removed: {path}; the history is kept", f"已删除：{path}；历史保留"), service.next_steps(options.user, False))
    return CLEAR


def _next(done: str, steps: Sequence[str]) -> None:
    print(done)
    print(say("now run:", "接下来运行："))
    for step in steps:
        print(f"  {step}")


_DO: Mapping[str, Callable[[argparse.Namespace, Any], int]] = {
    "agent": _agent, "status": _status, "incidents": _incidents, "silence": _silence, "config": _config, "rules": _rules,
    "dashboard": _dashboard, "token": _token, "web": _web, "install": _install, "uninstall": _uninstall,
}  # fmt: skip
