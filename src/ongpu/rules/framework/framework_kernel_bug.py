"""A bug of the framework or library: the same code works in another version."""

import re
from collections.abc import Iterator

from ongpu.facts.framework import Packages, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.program import Event, Program
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_HARD = ("internal-assert", "llvm-bug")
_SOFT = ("regression-told", "wrong-result")


# (symptom, package, releases with the bug, release that fixed it): each confirmed in the project's own issue
# fmt: off
_KNOWN = (
    ("cudnn-frontend", "torch", ("2.5.0",), "2.5.1"),  # https://github.com/pytorch/pytorch/releases/tag/v2.5.1
)
# fmt: on


def check(
    symptoms: Symptoms | None, torch: Torch | None, flow: TensorFlow | None, packages: Packages | None, gpus: Gpus | None, program: Program | None
) -> Iterator[Finding]:
    public = re.sub(r"(?:a|b|rc)\d{1,2}$|\.dev\d{1,8}$", "", torch.version.partition("+")[0]) if torch and torch.version else None
    if symptoms is None:
        return
    labels = _expanded_labels(program) if program and public == "1.10.0" and symptoms.has("assert-label") else None
    if labels and torch:  # https://github.com/pytorch/pytorch/issues/71550: labels of stride 0 are read beyond their end
        yield Finding(
            variant="known", certainty=Certainty.LIKELY, values={"version": "torch 1.10.0", "fixed": "1.10.1"},
            fixes=(Fix("upgrade-package", {"packages": "torch==1.10.1"}),), refs=(labels.ref(), *torch.about("version"), *symptoms.cite("assert-label", most=1)),
        )
        return
    for name, package, releases, fixed in _KNOWN:
        if symptoms.has(name) and public in releases and torch:
            yield Finding(
                variant="known",
                certainty=Certainty.CERTAIN,
                values={"version": f"{package} {public}", "fixed": fixed},
                fixes=(Fix("upgrade-package", {"packages": f"{package}=={fixed}"}),),
                refs=(*symptoms.cite(name), *torch.about("version")),
            )
            return
    crash = symptoms.has("illegal-instruction", "operation-unsupported")
    nightly = symptoms.has("nightly-build") or bool(torch and torch.version and re.search(r"\.dev20|a0\+git", torch.version))
    if (crash and nightly and symptoms.has("some-work", "regression-told")) or (symptoms.has("illegal-instruction") and nightly):
        yield Finding(
            variant="nightly",
            certainty=Certainty.LIKELY,
            values={
                "told": (symptoms.value("what", "illegal-instruction") or "CUDA error"),
                "version": (torch.version if torch else None) or symptoms.value("what", "nightly-build") or "?",
            },
            refs=symptoms.cite("illegal-instruction", "operation-unsupported", "nightly-build", "some-work", "regression-told", most=2),
        )
        return
    if not symptoms.has(*_HARD, "regression-told", "wrong-result", "illegal-instruction"):
        return
    told = (
        symptoms.value("what", "regression-told")
        or symptoms.value("what", "llvm-bug")
        or symptoms.value("where", "internal-assert")
    )
    version = (f"torch {torch.version}" if torch and torch.version else None) or (
        f"TensorFlow {flow.version}" if flow and flow.version else None
    )
    library = next(
        (
            f"{p.name} {p.version}"
            for n in ("triton", "xformers", "flash-attn", "vllm", "bitsandbytes", "mamba-ssm", "onnxruntime-gpu", "jax")
            if packages and (p := packages.get(n)) and p.version
        ),
        None,
    )
    hard_words = symptoms.has("illegal-instruction")
    told = told or symptoms.value("what", "illegal-instruction")
    version = version or symptoms.value("what", "program-version-told")
    regression, hard, wrong = symptoms.has("regression-told"), symptoms.has(*_HARD), symptoms.has("wrong-result")
    if not (hard or (hard_words and (regression or version)) or (regression and (version or library)) or (wrong and regression)):
        return
    yield Finding(
        certainty=Certainty.LIKELY
        if (hard and (regression or not symptoms.has("torch-undefined-symbol", "device-assert")))
        or (regression and (wrong or hard_words or crash))
        else Certainty.POSSIBLE,
        values={"told": (told or "?").strip()[:120], "version": version or library or "?"},
        fixes=(Fix("upgrade-package", {"packages": "torch"}),) if torch else (),
        refs=(
            *symptoms.cite(*_HARD, *_SOFT, "illegal-instruction", most=3), *(symptoms.cite("program-version-told", most=2) if not (torch and torch.version) else ()),
            *(torch.about("version") if torch else ()),
            *(flow.refs[:1] if flow else ()),
        ),
    )


def _expanded_labels(program: Program) -> Event | None:
    """A loss over class labels that were repeated by expand(), without a copy."""
    losses = [c for script in program.scripts for c in script.calls("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss", "forward")]
    expands = [c for script in program.scripts for c in script.calls(".expand", ".expand_as", "torch.broadcast_to")]
    return next((loss for loss in losses if any(len(loss.args) > 1 and expand.value is loss.args[1] for expand in expands)), None)


RULE = Rule(
    slug="framework-kernel-bug",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("device-side-assert",),
    see=("https://github.com/pytorch/pytorch/issues", "https://github.com/triton-lang/triton/issues"),
    en=Text(
        title="A bug of the framework itself is likely ({version}): {told}",
        why="An internal assertion, a compiler crash, or code that works in another version and fails in this one points to the framework, not to the machine or the program.",
        fix="Update to the newest release (or go back to the last one that worked) and try again; search the project's issues for the asserted file and line; meanwhile avoid the operation (another dtype, shape or backend; torch.compile off).",
    ),
    zh=Text(
        title="很可能是框架自身的缺陷（{version}）：{told}",
        why="内部断言、编译器崩溃，或同样的代码在别的版本正常、在这个版本失败，都指向框架本身，而不是机器或程序。",
        fix="升级到最新版（或退回最后正常的版本）再试；用断言所在的文件和行号在项目的 issue 中搜索；在此之前先绕开该操作（换 dtype、形状或后端；关闭 torch.compile）。",
    ),
    variants={
        "nightly": (
            Text(
                title="A nightly or development build{version: (*)} fails where others work ({told})",
                why="Nightly builds change every day, and packages that are compiled against them (torchao, torchvision, triton) must be of the same day. That other versions, or other models, pass points to the build and not to the card or the driver.",
                fix="Go back to the last nightly that worked or on to a newer nightly or release, with all companion packages of the same date; search the project's issues for the message, and report it with both versions.",
            ),
            Text(
                title="nightly（开发版）构建{version:（*）}出错，而其他版本正常（{told}）",
                why="nightly 构建每天都在变，针对它编译的包（torchao、torchvision、triton）必须是同一天的。其他版本或其他模型能通过，说明问题在构建，而不在显卡或驱动。",
                fix="退回最后一个正常的 nightly，或换用更新的 nightly 或正式版，配套包取同一日期；在项目 issue 中搜索该报错，并附上两个版本号反馈。",
            ),
        ),
        "known": (
            Text(
                title="{version} has a known bug here, fixed in {fixed}",
                why="The failing line belongs to a bug of exactly this release; the machine and the program are in order.",
                fix="Install {fixed} (or newer).",
            ),
            Text(
                title="{version} 在这里有已知缺陷，{fixed} 已修复",
                why="报错的这一行正是该版本的缺陷所致，机器和程序都没有问题。",
                fix="安装 {fixed}（或更新版本）。",
            ),
        ),
    },
)
