"""`ongpu explain`: the answer from what a person pasted or sent."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ongpu.engine import all_rules, all_sources, diagnose
from ongpu.fronts.answer import add_options, complain, language, say, show
from ongpu.fronts.progress import Progress
from ongpu.hosts import pasted
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence, Report, Rule, Verdict

_FILE = lazy(
    r"^(?:[/~]|\.{1,2}[/\\]|[A-Za-z]:[/\\])"
    r"|^\S+\.(?:log|txt|out|err|gz|tgz|zip|tar|xz|bz2|json|ya?ml|xml|csv|md|html?|py|ipynb|sh|toml|cfg|conf|dockerfile|nfo|png|jpe?g|pdf|pickle|pkl|sqlite|db|nsys-rep)$",
    re.IGNORECASE,
)
_GLOB = lazy(r"^\S*[*?\[]\S*$")


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "what",
        nargs="*",
        metavar="FILE|-|TERM",
        help=say("files judged together, - for standard input, or a term: 803, 'Xid 79'", "文件（一起判断）、- 表示标准输入，或一个术语：803、'Xid 79'"),
    )
    text = say("examine this interpreter or venv too, and judge it together with the text", "同时检查这个解释器或虚拟环境，并与文本一起判断")
    parser.add_argument("--python", metavar="PATH", help=text)
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain files, standard input or a term."""
    inputs = _joined(options.what) or ["-"]
    if len(inputs) == 1 and (rule := next((r for r in all_rules() if r.slug == inputs[0].strip()), None)):
        return _page(rule, options)
    if not options.what and sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        print(say("paste the text, then press Ctrl-D:", "粘贴文本，然后按 Ctrl-D："), file=sys.stderr)
    evidence: list[Evidence] = []
    troubles: list[tuple[str, str, str]] = []
    for what in inputs:
        try:
            evidence += _read(what)
        except FileNotFoundError:
            if _GLOB.match(what):
                return complain(f"{what}: no file matches", f"{what}：没有匹配的文件")
            return complain(f"{what}: no such file", f"{what}：没有这个文件")
        except pasted.Unreadable as error:
            troubles.append((what, error.english, error.chinese))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            troubles.append((what, reason, reason))
    for what, english, chinese in troubles:
        name = say("standard input", "标准输入") if what == "-" else what
        complain(f"{name}: {english}", f"{name}：{chinese}")
        evidence.append(Evidence("unread", "", name, None, say(english, chinese)))
    if troubles and not any(item.text for item in evidence):
        return 2
    if options.python:
        from ongpu.fronts.examined import no_python
        from ongpu.hosts import interpreter, live

        if wrong := no_python(options.python):
            return complain(*wrong)
        environment = [source for source in all_sources() if source.kind == "python-environment"]
        evidence += live.gather(interpreter.machine("/", options.python), environment)
    report = diagnose(evidence, " ".join(options.what) or "stdin")
    if any(item.kind == "term" for item in evidence):
        return _term(report, evidence, options)
    return show(report, options, links=False)


def _joined(what: Sequence[str]) -> list[str]:
    """The inputs; the words of a term that nobody quoted (`ongpu explain Xid 79`) are one."""
    if 1 < len(what) <= 4 and not any(w == "-" or " " in w or _FILE.match(w) or _GLOB.match(w) or Path(w).exists() for w in what):
        from ongpu.knowledge.terms import look_up

        if look_up(" ".join(what)):
            return [" ".join(what)]
    return list(what)


def _read(what: str) -> list[Evidence]:
    """The evidence of one input. OSError or ValueError where there is none."""
    if not what.strip():
        raise pasted.Unreadable("empty: nothing to read", "内容为空")
    with Progress() as progress:
        reader = pasted.Reader(say, progress.tick)
        if what == "-":
            return pasted.read_stdin(reader)
        path = Path(what).expanduser() if what.startswith("~") else Path(what)
        if _may_be_path(what) and path.exists():
            return pasted.read_file(path, reader)
    if _FILE.match(what) or _GLOB.match(what) or ("/" in what and " " not in what and _may_be_path(what) and path.parent.is_dir()):
        raise FileNotFoundError(what)
    argument = say("argument", "参数")
    if "\n" in what.strip() or len(what) > 60 or len(what.split()) > 5:
        return pasted.read_text(what, argument)
    from ongpu.knowledge import terms

    meanings = terms.look_up(what)
    if not meanings and len(what.split()) > 2:
        return pasted.read_text(what, argument)
    line = terms.printed(what, meanings)
    more = [] if not line else pasted.read_text(what if what.lower() in line.lower() and what != line and len(what) > 12 else line, argument)
    return [Evidence("term", what.strip(), argument), *more]


def _may_be_path(what: str) -> bool:
    return "\0" not in what and "\n" not in what and len(what) < 1024


def _page(rule: Rule, options: argparse.Namespace) -> int:
    """The page of a rule whose slug was asked for."""
    from ongpu.report import as_json, rule_page

    lang = options.lang or language()
    if options.format == "json":
        empty = as_json.to_dict(Report(subject=rule.slug, verdict=Verdict.CLEAR), lang)
        print(json.dumps({**empty, "page": rule_page.as_dict(rule, lang)}, ensure_ascii=False, indent=1))
    else:
        print(rule_page.markdown(rule, lang) if options.format == "markdown" else rule_page.text(rule, lang))
    return 0


def _term(report: Report, evidence: Sequence[Evidence], options: argparse.Namespace) -> int:
    """The answer to a term; where it is unknown, one line with names that look like it."""
    if report.verdict is Verdict.FOUND:
        return show(replace(report, unread=()), options, links=False)
    if report.findings:
        quiet = replace(report, unknown=(), unread=(), verdict=Verdict.CLEAR if options.format == "json" else Verdict.FOUND)
        show(quiet, options, links=False)
        return 0
    from ongpu.knowledge import terms

    asked = next(item.text for item in evidence if item.kind == "term")
    close = ", ".join(terms.near(asked, tuple(rule.slug for rule in all_rules())))
    code = 3
    if options.format == "json":
        code = show(replace(report, verdict=Verdict.UNKNOWN), options, links=False)
    complain(
        f"{asked}: no term, file or error line that is known" + (f"; near: {close}" if close else ""),
        f"{asked}：不是已知的术语、文件或报错" + (f"；相近：{close}" if close else ""),
    )
    return code
