"""`ongpu fleet`: the GPUs of many machines, by what Prometheus knows of them or by asking each over ssh."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.engine import diagnose
from ongpu.fronts.answer import EXIT, add_options, coloured, columns, complain, language, say
from ongpu.model import Evidence, Verdict

if TYPE_CHECKING:
    from ongpu.watch.fleet import Wanted

LIMIT = 20.0  # seconds for one machine or one question


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    hosts = say(
        "machines to ask over ssh: names as ssh knows them, gpu[01-16], NAME=8 where it should have 8 GPUs",
        "通过 ssh 询问的机器：ssh 认识的名称，可写 gpu[01-16]；名称=8 表示应有 8 块 GPU",
    )
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=hosts)
    file = say("file of machines: one a line, optionally the number of GPUs behind it", "机器列表文件：每行一台，后面可写应有的 GPU 数")
    parser.add_argument("--hosts-file", metavar="FILE", help=file)
    parser.add_argument("--prometheus", metavar="URL", help=say("ask this Prometheus server instead", "改为查询这个 Prometheus 服务器"))
    token = say("file with the bearer token of the Prometheus server", "存放 Prometheus 访问令牌（bearer token）的文件")
    parser.add_argument("--token-file", metavar="FILE", help=token)
    expect = say("GPUs that every machine should have (default: what most of them show)", "每台机器应有的 GPU 数（默认：多数机器的数量）")
    parser.add_argument("--expect", type=int, metavar="N", help=expect)
    limit = say(f"seconds for each machine or question (default: {LIMIT:g})", f"每台机器或每次查询的时限，秒（默认 {LIMIT:g}）")
    parser.add_argument("--timeout", type=float, default=LIMIT, metavar="SECONDS", help=limit)
    ssh = say("the ssh program with options of your own (default: ssh)", "ssh 程序及其选项（默认：ssh）")
    parser.add_argument("--ssh", default="ssh", metavar="COMMAND", help=ssh)
    demo = say("a simulated fleet of 100 nodes, 30 of which lost a GPU", "演示：模拟 100 个节点的机群，其中 30 个丢了 GPU")
    parser.add_argument("--demo", action="store_true", help=demo)
    add_options(parser, ("text", "json"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask, judge, tell."""
    lang = options.lang or language()
    if options.timeout <= 0 or (options.expect is not None and options.expect < 0):
        return complain("--timeout and --expect must be positive", "--timeout 与 --expect 必须为正数")
    asked = _demo(lang) if options.demo else _prometheus(options, lang) if options.prometheus else _ssh(options, lang)
    if isinstance(asked, int):
        return asked
    from ongpu.report import as_fleet, as_json

    report = diagnose([asked], say("the fleet", "机群"))
    if not as_fleet.fleet_of(report).nodes:
        return complain(
            f"{options.prometheus}: no machine with ongpu watch in the last day; does it scrape one (docs: watch)?",
            f"{options.prometheus}：最近一天没有运行 ongpu watch 的机器；请确认它在抓取（见文档 watch）",
        )
    if options.format == "json":
        print(as_json.render(report, lang, options.all))
    else:
        print(as_fleet.text(report, lang, options.all, width=columns(), colour=coloured(sys.stdout)))
    return EXIT[report.verdict]


def _title(lang: str) -> Callable[[str], str]:
    """slug -> a few words for the fault: those of its alert, else the slug."""
    from ongpu.watch.alerts import ALERTS

    def title(slug: str) -> str:
        told = ALERTS.get(slug)
        return (told.zh if lang == "zh" else told.en) if told else slug

    return title


def _demo(lang: str) -> Evidence:
    from ongpu.watch import fleet_demo

    return fleet_demo.fleet(_title(lang))


def _prometheus(options: argparse.Namespace, lang: str) -> Evidence | int:
    from ongpu.hosts.prometheus import Refused
    from ongpu.watch import fleet

    token = ""
    if options.token_file:
        try:
            token = Path(options.token_file).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            return complain(f"{options.token_file}: cannot be read: {why}", f"{options.token_file}：无法读取：{why}")
    try:
        wanted = _wanted(options) if options.hosts or options.hosts_file else []
        if isinstance(wanted, int):
            return wanted
        found = fleet.from_prometheus(options.prometheus, options.timeout, _title(lang), token, wanted)
        return _expecting(found, options.expect)
    except Refused as error:
        complain(f"{options.prometheus}: {error}", f"{options.prometheus}：{error}")
        return EXIT[Verdict.UNKNOWN]
    except ValueError:
        told = "not an http:// or https:// address"
        return complain(f"--prometheus {options.prometheus}: {told}", f"--prometheus {options.prometheus}：不是 http:// 或 https:// 地址")


def _ssh(options: argparse.Namespace, lang: str) -> Evidence | int:
    from ongpu.watch import fleet

    wanted = _wanted(options)
    if isinstance(wanted, int):
        return wanted
    if not wanted:
        return complain(
            "which machines? Name them (ongpu fleet gpu[01-16]), or give --hosts-file FILE or --prometheus URL",
            "要查询哪些机器？请写出名称（ongpu fleet gpu[01-16]），或用 --hosts-file 文件、--prometheus 地址",
        )
    try:
        ssh = shlex.split(options.ssh) or ["ssh"]
    except ValueError as error:
        return complain(f"--ssh: {error}", f"--ssh：{error}")
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r{done}/{len(wanted)}", end="\n" if done == len(wanted) else "", file=sys.stderr, flush=True)

    return _expecting(fleet.over_ssh(wanted, options.timeout, lang, ssh, tick), options.expect)


def _wanted(options: argparse.Namespace) -> "Sequence[Wanted] | int":
    from ongpu.watch import fleet

    words = list(options.hosts)
    if options.hosts_file:
        try:
            words += fleet.host_file(Path(options.hosts_file).read_text("utf-8"))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            return complain(f"{options.hosts_file}: cannot be read: {why}", f"{options.hosts_file}：无法读取：{why}")
    try:
        return fleet.hosts(words)
    except ValueError as error:
        return complain(f"{error}: not the name of a machine", f"{error}：不是机器名")


def _expecting(evidence: Evidence, count: int | None) -> Evidence:
    """The evidence, with that number of GPUs expected wherever nobody said another."""
    if count is None:
        return evidence
    import json

    from ongpu.watch.fleet import evidence as written

    rows = [json.loads(line) for line in evidence.text.splitlines()]
    return written(({**row, "expected": row.get("expected", count)} for row in rows), evidence.origin)
