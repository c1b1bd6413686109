"""`ongpu dryrun`: a training script, run as if on a named GPU; no GPU is needed or touched."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from ongpu.engine import all_rules, all_sources, diagnose
from ongpu.facts.dryrun import DryRun
from ongpu.facts.program import Program
from ongpu.fronts.answer import EXIT, add_options, add_python, coloured, columns, complain, language, say
from ongpu.hosts import dryrun, interpreter
from ongpu.knowledge import cards
from ongpu.knowledge.gpu_memory import context_mib
from ongpu.lazy import replace
from ongpu.model import Evidence, Report, Severity, Source, Verdict
from ongpu.sources import python_source
from ongpu.sources.python.project import Project

STEPS, BATCHES, LIMIT = 4, 64, 120.0  # growth shows from the second step on: two gains need four steps
EPILOG_EN = """examples:
  ongpu dryrun --gpu "A100 40GB" train.py --epochs 1
  ongpu dryrun --gpu-memory 24GiB --find-batch-size train.py
  ongpu dryrun --launch 4 -m mypackage.train

Options of ongpu stand before the script; all that follows it is the script's
own. What the script prints goes to standard error, the answer to standard
output. Needs PyTorch 2.4 or newer in the script's interpreter (a CPU build
will do)."""
EPILOG_ZH = """示例：
  ongpu dryrun --gpu "A100 40GB" train.py --epochs 1
  ongpu dryrun --gpu-memory 24GiB --find-batch-size train.py
  ongpu dryrun --launch 4 -m mypackage.train

ongpu 的选项写在脚本之前；脚本之后的都是脚本自己的参数。
脚本的输出写到标准错误，答案写到标准输出。
脚本所用的解释器里需要 PyTorch 2.4 或更新版本（CPU 版即可）。"""


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = say(EPILOG_EN, EPILOG_ZH)
    parser.add_argument("--gpu", metavar="NAME", help=say('the card to pretend: "A100 40GB", "RTX 4090" (default: A100 40GB)', '假想的显卡："A100 40GB"、"RTX 4090"（默认 A100 40GB）'))
    parser.add_argument("--gpu-memory", metavar="SIZE", help=say("memory of the card, as CUDA reports it: 24GiB", "显卡显存（CUDA 报告的值）：24GiB"))
    parser.add_argument("--steps", type=_count, default=STEPS, metavar="N", help=say(f"optimizer steps to follow (default: {STEPS})", f"观察多少个优化步（默认 {STEPS}）"))
    parser.add_argument("--batches", type=_count, default=BATCHES, metavar="N", help=say(f"at most so many batches of a loader (default: {BATCHES})", f"每个加载器最多取多少批（默认 {BATCHES}）"))
    parser.add_argument("--find-batch-size", action="store_true", help=say("find the largest batch size that fits", "找出放得下的最大 batch"))
    parser.add_argument("--savings", action="store_true", help=say("compute what checkpointing, bf16, 8-bit states ... would save", "计算激活检查点、bf16、8 位状态等能省多少显存"))
    parser.add_argument("--launch", type=_count, default=0, metavar="N", help=say("pretend the N ranks of a torchrun job, each with its own card", "模拟 torchrun 的 N 个 rank，每个一张卡"))
    parser.add_argument("--sandbox", action="store_true", help=say("refuse the script's writes and its use of the network", "拒绝脚本写文件和访问网络"))
    parser.add_argument("--time-limit", type=float, default=LIMIT, metavar="S", help=say(f"seconds (default: {LIMIT:.0f})", f"秒数（默认 {LIMIT:.0f}）"))
    add_python(parser)
    add_options(parser)
    parser.add_argument("-m", dest="module", action="store_true", help=say("SCRIPT is a module's name, as with python -m", "SCRIPT 是模块名，同 python -m"))
    parser.add_argument("script", metavar="SCRIPT", help=say("the training script, or with -m a module", "训练脚本；加 -m 则为模块名"))
    more = parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS...", help=say("the script's own arguments", "脚本自己的参数"))
    more.required = False  # argparse names it among those that are missing
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    number = int(text) if text.strip().isdecimal() else 0
    if not 1 <= number <= 100_000:
        raise argparse.ArgumentTypeError(say(f"{text}: a whole number from 1 on", f"{text}：应为从 1 起的整数"))
    return number


def run(options: argparse.Namespace) -> int:
    """Run the script on the pretended card, ask the engine, tell."""
    try:
        card = _card(options)
    except cards.NoSuchCard as error:
        choices = ", ".join(f'"{choice}"' for choice in error.choices)
        if choices:
            return complain(f"--gpu {error.name}: which memory? {choices}", f"--gpu {error.name}：是哪种显存？{choices}")
        near = ", ".join(f'"{name}"' for name in cards.near(error.name))
        return complain(
            f"--gpu {error.name}: no such card is known; near: {near} (nvidia-smi -L tells a card's name; --gpu-memory 24GiB needs none)",
            f"--gpu {error.name}：没有这张卡的资料；相近：{near}（nvidia-smi -L 会给出型号；--gpu-memory 24GiB 不必写型号）",
        )
    if card is None:
        return complain(f"--gpu-memory {options.gpu_memory}: not a size, such as 24GiB", f"--gpu-memory {options.gpu_memory}：不是大小，例如 24GiB")
    if not options.module and not Path(options.script).is_file():
        return complain(f"{options.script}: no such script", f"{options.script}：没有这个脚本")
    python = interpreter.choose(os.environ, options.python)
    if python is None or Path(python).is_dir():
        return complain(f"no Python interpreter: {options.python or 'PATH'}", f"找不到 Python 解释器：{options.python or 'PATH'}")
    try:
        version = dryrun.torch_version(python)
    except dryrun.NoTorch as error:
        return _refuse(error)
    command = [*(["-m"] if options.module else []), options.script, *options.arguments]
    evidence = dryrun.run(python, command, _spec(options, card, version), max(1.0, options.time_limit))
    files = dryrun.program(evidence)
    return _tell(_with_source(diagnose(evidence, options.script, sources=_sources(files)), files), options)


def _sources(files: Sequence[Evidence]) -> tuple[Source, ...]:
    """The engine's sources, of which that of programs follows imports among these files."""
    texts = {item.origin: item.text for item in files}
    reading = python_source.reading(Project.of(texts))
    return tuple(reading if source.kind == reading.kind else source for source in all_sources())


def _with_source(report: Report, files: Sequence[Evidence]) -> Report:
    """The report, with what lint says of the functions of the script that the run did not reach."""
    run = report.fact(DryRun)
    missed = run.missed if run else ()
    if not missed or not files or report.verdict not in (Verdict.FOUND, Verdict.CLEAR):
        return report
    rules = [rule for rule in all_rules() if any(Program in (kind, *get_args(kind)) for kind in rule.check.__annotations__.values())]
    told = diagnose([files[0]], report.subject, rules, [source for source in _sources(files) if source.kind == "python"])
    found = tuple(
        finding
        for finding in told.findings
        if finding.weight > Severity.NOTE
        and finding.refs
        and any(part.file == finding.refs[0].source and part.line <= finding.refs[0].line <= part.end for part in missed)
    )
    return replace(report, findings=(*report.findings, *found), verdict=Verdict.FOUND) if found else report


def _card(options: argparse.Namespace) -> cards.Card | None:
    """The card asked for; None where --gpu-memory is no size. NoSuchCard where the name is none."""
    total = cards.memory(options.gpu_memory) if options.gpu_memory else None
    if options.gpu_memory and total is None:
        return None
    if options.gpu is None:
        return cards.of_memory(total) if total else cards.card(cards.DEFAULT)
    return cards.with_memory(options.gpu, total) if total else cards.card(options.gpu)


def _spec(options: argparse.Namespace, card: cards.Card, torch: str) -> dict[str, Any]:
    name = card.name if card.name.lower().startswith("nvidia") else f"NVIDIA {card.name}"
    told: dict[str, Any] = {"name": name, "total": card.total, "capability": list(card.capability), "context": context_mib(torch) << 20}
    if card.sms:
        told["sms"] = card.sms
    return {
        "mode": "find-batch-size" if options.find_batch_size else "run",
        "card": told,
        "devices": max(1, options.launch),
        "steps": options.steps,
        "batches": options.batches,
        "launch": options.launch,
        "sandbox": options.sandbox,
        "savings": options.savings,
    }


def _refuse(error: dryrun.NoTorch) -> int:
    if error.found is None:
        return complain(
            f"{error.python} has no PyTorch: name the script's interpreter with --python",
            f"{error.python} 里没有 PyTorch：请用 --python 指定脚本所用的解释器",
        )
    if not error.found:
        return complain(f"{error.python}: this interpreter does not run", f"{error.python}：这个解释器无法运行")
    return complain(
        f"{error.python} has PyTorch {error.found}: the dry run needs 2.4 or newer",
        f"{error.python} 里是 PyTorch {error.found}：试运行需要 2.4 或更新版本",
    )


def _tell(report: Report, options: argparse.Namespace) -> int:
    from ongpu.report import as_dryrun, as_json, as_markdown, as_text, dryrun_words, words
    from ongpu.report.layout import wrap

    lang = options.lang or language()
    run = report.fact(DryRun)
    report = replace(report, unknown=tuple(replace(o, because=dryrun_words.reason(o.because, lang)) for o in report.unknown))
    if options.format == "json":
        print(as_json.render(report, lang, options.all))
        return EXIT[report.verdict]
    calm = words.word("clear_detail", lang)
    so_far = dryrun_words.word("clear-so-far", lang) if run and run.missed else calm  # never the all-clear for what did not run
    if options.format == "markdown":
        told = [as_dryrun.markdown(run, lang, options.all)] if run else []
        print("\n".join([*told, as_markdown.render(report, lang, options.all).replace(calm, so_far)]))
        return EXIT[report.verdict]
    colour = coloured(sys.stdout)
    if run:
        print(as_dryrun.text(run, lang, options.all, width=columns(), colour=colour))
    width = columns()
    text = as_text.render(report, lang, options.all, width=width, colour=colour, links=False)
    print(text.replace("\n".join(wrap(calm, width)), "\n".join(wrap(so_far, width))))
    return EXIT[report.verdict]
