"""`ongpu pick`: the build that this GPU, this driver and this Python can run, as the exact install command."""

import argparse
import json
import re
from dataclasses import asdict
from datetime import date

from ongpu.engine import all_sources, diagnose
from ongpu.facts.driver import Kernel
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages
from ongpu.fronts.answer import add_format, add_language, columns, complain, language, say
from ongpu.fronts.examined import no_python
from ongpu.hosts.interpreter import machine
from ongpu.hosts.live import gather
from ongpu.knowledge import cuda as cuda_table
from ongpu.knowledge import torch as torch_table
from ongpu.knowledge.builds import FRAMEWORKS, Candidate, Choice, Here, newest, pick
from ongpu.knowledge.driver_choice import DriverChoice, pick_driver
from ongpu.knowledge.driver_sources import driver_source
from ongpu.knowledge.gpus import compute_capability
from ongpu.knowledge.tensorflow import has_code_for
from ongpu.lazy import replace
from ongpu.model import Report
from ongpu.report import choice
from ongpu.report.layout import wrap
from ongpu.report.words import bracketed

PROBLEMS = {
    "card": ("it has no code for compute capability {need}", "没有为计算能力 {need} 编译的代码"),
    "cudnn": ("the cuDNN that it brings has no code for this card: {need}", "自带的 cuDNN 没有这张卡的代码：{need}"),
    "jetson": ("on a Jetson ({need}) the wheel is NVIDIA's own for its JetPack", "Jetson（{need}）要用 NVIDIA 为其 JetPack 提供的 wheel"),
    "driver": ("it needs driver {need} or newer", "需要驱动 {need} 或更新"),
    "python": ("it has wheels for Python {need} only", "只有 Python {need} 的 wheel"),
    "platform": ("it has no CUDA build for this system", "没有适用于本系统的 CUDA 构建"),
    "cpu": ("it is a CPU-only build", "是仅 CPU 的构建"),
    "unknown": ("our tables do not say which GPUs it has code for", "我们的表里没有它支持哪些 GPU 的记录"),
}  # fmt: skip


# Where nothing is chosen: what there is instead.
INSTEAD = {
    "jetson": ("NVIDIA's wheels for Jetson: https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform/index.html", "NVIDIA 的 Jetson wheel：https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform/index.html"),
    "blackwell": ("NVIDIA's container holds a TensorFlow for these cards: https://docs.nvidia.com/deeplearning/frameworks/tensorflow-release-notes/ (the wheels of PyPI fail there with CUDA_ERROR_INVALID_PTX: tensorflow#89272)", "NVIDIA 的容器里有支持这些卡的 TensorFlow：https://docs.nvidia.com/deeplearning/frameworks/tensorflow-release-notes/（PyPI 的 wheel 在这些卡上报 CUDA_ERROR_INVALID_PTX：tensorflow#89272）"),
    "macos": ("macOS has no CUDA; Apple's GPUs are reached through Metal (PyTorch: the mps device)", "macOS 没有 CUDA；Apple 的 GPU 通过 Metal 使用（PyTorch 的 mps 设备）"),
}  # fmt: skip
LIBRARIES = {
    "path": ("the CUDA libraries ({wants}) are in these wheels; before the program starts:", "CUDA 库（{wants}）在这些 wheel 里；启动程序之前："),
    "toolkit": ("it brings no CUDA libraries: {wants} must be installed and on the library path", "不自带 CUDA 库：需另装 {wants}，并在库搜索路径上"),
}  # fmt: skip
ON_THE_PATH = "$ export LD_LIBRARY_PATH=$(python -c \"import glob, nvidia; print(':'.join(glob.glob(nvidia.__path__[0] + '/*/lib')))\")"
PRELOAD = ("before the first session: import onnxruntime; onnxruntime.preload_dlls() loads the libraries of these wheels", "创建第一个会话之前：import onnxruntime; onnxruntime.preload_dlls() 会加载这些 wheel 里的库")

KINDS = {
    "production": ("production", "生产分支"), "new feature": ("new feature", "新功能分支"), "long term": ("long term", "长期支持"),
    "legacy": ("legacy", "旧版"),
}  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    framework = parser.add_argument("framework", metavar="FRAMEWORK", help=", ".join((*FRAMEWORKS, "driver")))
    framework.completer = lambda prefix, **more: [name for name in (*FRAMEWORKS, "driver") if name.startswith(prefix)]  # type: ignore[attr-defined]  # argcomplete's own way
    parser.add_argument("version", nargs="?", metavar="==VERSION", help=say("only this version: ==2.4.1", "只要这个版本：==2.4.1"))
    parser.add_argument("--gpu", action="append", metavar="NAME", help=say("a named card instead of this machine's: 'RTX 5090' or a capability: 12.0", "指定显卡（代替本机）：'RTX 5090'，或计算能力：12.0"))
    parser.add_argument("--driver", metavar="VERSION", help=say("driver version or branch: 570", "驱动版本或分支：570"))
    parser.add_argument("--python", metavar="VERSION|PATH", help=say("Python version (3.12), or an interpreter or venv (default: the active venv or conda environment, then python on PATH)", "Python 版本（3.12），或解释器、虚拟环境路径（默认：已激活的环境，其次是 PATH 上的 python）"))
    parser.add_argument("--platform", choices=torch_table.PLATFORMS, metavar="SYSTEM", help=say("system (default: this one): ", "系统（默认本机）：") + ", ".join(torch_table.PLATFORMS))
    parser.add_argument("--cuda", metavar="VERSION", help=say("pick driver: the CUDA that it must run", "pick driver：需要支持的 CUDA"))
    parser.add_argument("--distribution", metavar="NAME", help=say("pick driver: debian, ubuntu ...", "pick driver：debian、ubuntu 等"))
    add_format(parser)
    add_language(parser)
    parser.add_argument("--all", action="store_true", help=say("show every build that was rejected", "显示所有被排除的构建"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Find out what is here, choose, tell."""
    wants_path = options.python and not re.fullmatch(r"\d(\.\d+){0,2}", options.python)
    if wrong := _wrong(options) or (no_python(options.python) if wants_path else None):
        return complain(*wrong)
    named = bool(options.gpu)
    report = None if named and options.driver and options.python and not wants_path else _examine(options, wants_path)
    try:
        here = _here(options, report, wants_path)
        if options.framework == "driver":
            return _tell_driver(options, here, report)
        options.framework, _, attached = options.framework.partition("==")
        version = (options.version or "").lstrip("=") or attached or None
        made = pick(options.framework, here, version)
        if version and not (made.chosen or made.rejected):
            known = newest(options.framework)
            return complain(f"{options.framework} {version}: no such release is in our tables (the newest: {known})", f"{options.framework} {version}：我们的表里没有这个版本（最新：{known}）")
    except ValueError as error:
        return complain(str(error), str(error))
    return _tell(options, here, made, report)


def _wrong(options: argparse.Namespace) -> tuple[str, str] | None:
    """What is not a version among the arguments, in both languages."""
    driver, version, cuda = options.driver, options.version, options.cuda
    if driver and not re.fullmatch(r"\d{3}(\.\d{1,4}){0,3}", driver):
        told = (" (that is a CUDA version)", "（这是 CUDA 版本）") if re.fullmatch(r"\d{1,2}(\.\d{1,2}){1,2}", driver) else ("", "")
        return f"--driver {driver}: not a driver version{told[0]}: give a branch or a version, as 570 or 570.86.10", f"--driver {driver}：不是驱动版本{told[1]}：请给出分支或版本，如 570 或 570.86.10"
    if version and not re.fullmatch(r"(==)?\d[\w.+!-]*", version):
        return f"{version}: one exact version, as ==2.4.1; without one the newest that runs here is picked", f"{version}：请给出一个确切的版本，如 ==2.4.1；不给则选能在这里运行的最新版"
    if cuda and not re.fullmatch(r"\d{1,2}(\.\d{1,2}){0,2}", cuda):
        return f"--cuda {cuda}: not a CUDA version; as 12.4", f"--cuda {cuda}：不是 CUDA 版本；如 12.4"
    return None


def _examine(options: argparse.Namespace, wants_path: bool) -> Report:
    return diagnose(gather(machine("/", options.python if wants_path else None), all_sources()), "machine")


def _here(options: argparse.Namespace, report: Report | None, wants_path: bool) -> Here:
    """What is told on the command line, else what this machine shows (nothing of this machine's GPU and driver for a named card)."""
    own = choice.platform(report) if report else "linux_x86_64"
    platform = options.platform or own
    found = choice.here(report) if report and platform == own else Here()  # nothing of this machine for another system
    if options.gpu:
        capabilities = tuple(_capability(name) for name in options.gpu)
        version = options.driver
    else:
        capabilities, version = found.capabilities, options.driver or found.driver
    told = None if wants_path else options.python
    return Here(capabilities, version, told or found.python, platform)


def _capability(name: str) -> str:
    if re.fullmatch(r"\d{1,2}\.\d", name):
        return name
    found = compute_capability(name)
    if found is None:
        raise ValueError(say(f"--gpu {name}: unknown card; give its compute capability, as 8.6", f"--gpu {name}：未知显卡；请给出计算能力，如 8.6"))
    return found


def _reason(candidate: Candidate) -> str:
    return say(*(text.format(need=candidate.need) for text in PROBLEMS[candidate.problem]))


def _about(here: Here) -> str:
    unknown = say("not known", "未知")
    cards = say(", ", "、").join(here.capabilities) or unknown
    if here.platform.startswith("macos"):
        return f"Python {here.python or unknown}{say(', ', '，')}{here.platform}"
    return say(
        f"compute capability {cards}, driver {here.driver or unknown}, Python {here.python or unknown}, {here.platform}",
        f"计算能力 {cards}，驱动{_spaced(here.driver)}，Python {here.python or unknown}，{here.platform}",
    )


def _spaced(text: str | None) -> str:
    return f" {text}" if text else "未知"


def _installed(options: argparse.Namespace, report: Report | None, here: Here) -> list[str]:
    """What the user has, and why it does not run here."""
    packages = report.fact(Packages) if report and not options.gpu else None
    have = packages.version("torch") if packages and options.framework.startswith(("torch", "pytorch")) else None
    if not have:
        return []
    public, build = have.partition("+")[0], torch_table.build_of(have) or torch_table.default_build(have, here.platform) or "?"
    same = next((c for c in pick("torch", here, public).rejected if c.build == build), None)
    if build == "cpu":
        return [f"torch {have}: " + say(*PROBLEMS["cpu"])]
    return [f"torch {have}: {_reason(same)}"] if same else [f"torch {have}: " + say("runs here", "可以在这里运行")]


def _tell(options: argparse.Namespace, here: Here, made: Choice, report: Report | None) -> int:
    have = _installed(options, report, here)
    if options.format == "json":
        answer = {"schema": 1, "for": asdict(here), "chosen": asdict(made.chosen) if made.chosen else None}
        answer |= {"rejected": [asdict(c) | {"reason": _reason(c)} for c in made.rejected], "also": [asdict(c) for c in made.also]}
        answer["notes"] = _libraries(made.chosen) if made.chosen else _instead(made, here, options.framework)
        print(json.dumps(answer | {"installed": have}, ensure_ascii=False, indent=1))
        return 0 if made.chosen else 1
    mark, code = ("- ", "`") if options.format == "markdown" else ("  ", "")
    if made.chosen:
        print(f"{code}{made.chosen.install}{code}" + ("\n" if code else ""))
        lines = [say("not certain: ", "不确定：") + _reason(made.chosen)] if made.chosen.problem == "unknown" else []
        lines += _libraries(made.chosen)
    else:
        print(say(f"No build of {options.framework} runs here.", f"{options.framework} 没有能在这里运行的构建。"))
        lines = _instead(made, here, options.framework)
    lines.append(say("for: ", "适用：") + _about(here))
    lines += [say("you have: ", "已安装：") + line for line in have]
    if not (here.capabilities and here.driver) and not here.platform.startswith("macos"):
        lines.append(say("what is not known was not judged: name it with --gpu and --driver", "未知项未参与判断：请用 --gpu 和 --driver 指定"))
    like = [one for one in made.rejected[1:] if made.chosen and one.build == made.chosen.build]  # why no newer one of the same build
    rejected = made.rejected if options.all else (*made.rejected[:1], *like, *(one for one in made.rejected[1:] if one not in like))[:6]
    if rejected:
        lines.append(say("not:", "不选："))
    for line in lines:
        _print(mark, line)
    brought = _brought(made)
    for one in rejected:
        plain = say(" (what plain `pip install` brings)", "（直接 pip install 得到的就是它）") if one is brought else ""
        _print(f"  {mark}", f"{one.package} {one.version} ({one.build}){plain}: {_reason(one)}")
    return 0 if made.chosen else 1


def _print(mark: str, text: str) -> None:
    """A line of the answer, broken where the terminal ends; a command in it stays whole."""
    for i, line in enumerate([text] if text.startswith("$ ") else wrap(text, columns() - len(mark))):
        print((" " * len(mark) if i else mark) + line)


def _libraries(chosen: Candidate) -> list[str]:
    """Where the CUDA libraries come from, where pip alone does not make them be found."""
    if chosen.libraries:
        line = say(*(text.format(wants=chosen.wants) for text in LIBRARIES[chosen.libraries]))
        return [line, ON_THE_PATH] if chosen.libraries == "path" else [line]
    return [say(*PRELOAD)] if chosen.package == "onnxruntime-gpu" else []


def _instead(made: Choice, here: Here, framework: str) -> list[str]:
    """What there is for this machine where no build is."""
    problems = {one.problem for one in made.rejected}
    if here.platform.startswith("macos"):
        return [say(*INSTEAD["macos"])]
    if "jetson" in problems:
        return [say(*INSTEAD["jetson"])]
    if framework in ("tensorflow", "tf") and not all(map(has_code_for, here.capabilities)):
        return [say(*INSTEAD["blackwell"])]
    return []


def _brought(made: Choice) -> Candidate | None:
    """What `pip install torch` without an index brings: of the default builds the newest."""
    every = (*((made.chosen,) if made.chosen else ()), *made.rejected, *made.also)
    plain = [one for one in every if one.package == "torch" and "--index-url" not in one.install]
    return max(plain, key=lambda one: tuple(map(int, re.findall(r"\d{1,6}", one.version))), default=None)


def _tell_driver(options: argparse.Namespace, here: Here, report: Report | None) -> int:
    machine_ = report.fact(Machine) if report and (not options.platform or options.platform == choice.platform(report)) else None
    if here.platform.startswith("macos") and not options.distribution:
        print(say("No NVIDIA driver exists for this system: ", "本系统没有 NVIDIA 驱动：") + say(*INSTEAD["macos"]))
        return 1
    windows = "windows" if here.windows else None
    name = options.distribution or windows or ("wsl" if machine_ and machine_.wsl else (machine_.distribution or machine_.system) if machine_ else None)
    source = driver_source(name or "", machine_.distribution_version if machine_ and not options.distribution else None)
    offered = source.branches if source else ()
    made = pick_driver(here.capabilities, date.today().isoformat(), options.cuda, here.windows, offered)
    lines = _driver_lines(made, here, report, options)
    if made.branch and source:
        lines += _source_lines(made, source.on)
        command = source.command.format(
            branch=made.branch.number,
            open="-open" if made.modules == "open" else "",
            open_package="nvidia-open" if made.modules != "proprietary" else "cuda-drivers",
        )
        if source.branches and made.branch.number not in source.branches:
            old = ", ".join(source.branches)
            lines.append(say(f"{source.on} itself offers only {old}: take NVIDIA's CUDA repository for {made.branch.number}", f"{source.on} 自带的只有 {old}：{made.branch.number} 请用 NVIDIA 的 CUDA 软件源"))
        elif command:
            lines.append(f"$ {command}")
        if source.need:
            lines.append(say(f"needs: {source.need}", f"需要：{source.need_zh or source.need}"))
        if source.memory:
            lines.append(say("(where it comes from was not checked on that distribution)", "（来源未在该发行版上核实）"))
    if options.format == "json":
        branch = asdict(made.branch) if made.branch else None
        print(json.dumps({"schema": 1, "for": asdict(replace(here)), **asdict(made), "branch": branch, "text": lines}, ensure_ascii=False, indent=1))
    else:
        for i, line in enumerate(lines):
            _print("- " if options.format == "markdown" and i else "  " if i else "", line)
    return 0 if made.branch else 1


def _driver_lines(made: DriverChoice, here: Here, report: Report | None, options: argparse.Namespace) -> list[str]:
    if made.branch is None:
        why = say("no driver branch serves these cards together with that CUDA", "没有驱动分支能同时支持这些显卡和该 CUDA")
        oldest = [say(f"the cards and the CUDA need {made.oldest} or newer", f"显卡与该 CUDA 至少需要 {made.oldest}")] if made.oldest else []
        last = [say(f"the cards are supported up to {made.last}", f"显卡最高只支持到 {made.last}")] if made.last else []
        return [why, *oldest, *last]
    kind = say(*KINDS.get(made.branch.kind or "", (made.branch.kind or "", made.branch.kind or "")))
    end = say(f", supported until {made.branch.end_of_life}", f"，支持到 {made.branch.end_of_life}") if made.branch.end_of_life else ""
    lines = [say(f"driver branch {made.branch.number}", f"驱动分支 {made.branch.number}") + bracketed((kind + end).lstrip("，, "), options.lang or language()), say("for: ", "适用：") + _about(here)]
    lines.append(say(f"it runs programs up to CUDA {made.branch.cuda} and, within a major version, newer minors", f"可运行最高 CUDA {made.branch.cuda} 的程序；同一主版本内更新的次版本也可以"))
    if made.last:
        lines.append(say(f"newer branches than {made.last} no longer support these cards", f"比 {made.last} 更新的分支不再支持这些显卡"))
    if made.ended:
        lines.append(say("its own support has ended; there is no better for these cards", "它自身的支持已结束；这些显卡没有更好的选择"))
    words = {"open": ("open kernel modules are required", "必须使用开源内核模块"), "proprietary": ("only the proprietary kernel modules work", "只能用专有内核模块"), "either": ("open and proprietary kernel modules both work", "开源与专有内核模块都可以")}
    if here.capabilities:
        lines.append(say(*words[made.modules]))
    kernel = report.fact(Kernel) if report and not options.gpu else None
    if kernel and kernel.release:
        lines.append(say(f"whether it builds for kernel {kernel.release} is not in our tables: DKMS tells (dkms status)", f"能否为内核 {kernel.release} 编译不在我们的表里：请看 dkms status"))
    return lines


def _source_lines(made: DriverChoice, on: str) -> list[str]:
    newest = made.branch.newest_seen if made.branch else None
    known = cuda_table.cuda_of_driver(newest) if newest else None
    return [say(f"newest seen: {newest} ({on})", f"已知最新：{newest}（{on}）")] if newest and known else []
