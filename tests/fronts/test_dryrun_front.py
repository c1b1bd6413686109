"""`ongpu dryrun` as a user runs it, with an interpreter that only pretends to have PyTorch."""

import json
import sys
from pathlib import Path

import pytest
from fronts_run import ongpu
from parts.dryruns import answer, error, full

from ongpu.report.layout import width_of

# A python that writes a prepared answer in place of running the child; everything else it leaves to the real one.
PYTHON = """#!{python}
import json, os, sys
if len(sys.argv) > 2 and sys.argv[2].endswith("spec.json"):
    spec = json.load(open(sys.argv[2]))
    told = json.load(open({answer!r}))
    told["asked"] = [spec["card"], spec["mode"], spec["launch"], spec["steps"], spec["sandbox"], sys.argv[3:]]
    json.dump(told, open(spec["answer"], "w"))
    open({asked!r}, "w").write(json.dumps(told["asked"]))
    print("the script speaks")
elif sys.argv[1] == "-c":
    print({version!r})
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    path = tmp_path / "python"
    answered, asked = str(tmp_path / "answer.json"), str(tmp_path / "asked.json")
    path.write_text(PYTHON.format(python=sys.executable, answer=answered, asked=asked, version="2.13.0"))
    path.chmod(0o755)
    (tmp_path / "answer.json").write_text(json.dumps(answer()))
    (tmp_path / "train.py").write_text("pass\n")
    return path


def test_a_healthy_run(python: Path) -> None:
    done = ongpu("dryrun", "--python", str(python), str(python.parent / "train.py"))
    assert done.returncode == 0, done.stderr
    assert "it ran, and was stopped after enough steps" in done.stdout
    assert "Nothing wrong was found" in done.stdout
    assert "the script speaks" in done.stderr
    assert "the script speaks" not in done.stdout


def test_the_order_reaches_the_child(python: Path) -> None:
    script = str(python.parent / "train.py")
    options = ("--gpu", "RTX 4090", "--launch", "2", "--steps", "5", "--sandbox", "--find-batch-size", "--python", str(python))
    ongpu("dryrun", *options, script, "--lr", "1", "-m")
    card, mode, launch, steps, sandbox, command = json.loads((python.parent / "asked.json").read_text())
    assert (card["name"], card["total"], card["capability"]) == ("NVIDIA GeForce RTX 4090 24 GB", 24207 << 20, [8, 9])
    assert card["context"] == 500 << 20
    assert (mode, launch, steps, sandbox) == ("find-batch-size", 2, 5, True)
    assert command == [script, "--lr", "1", "-m"]


def test_a_module(python: Path) -> None:
    ongpu("dryrun", "--python", str(python), "-m", "pkg.train", "--epochs", "2")
    assert json.loads((python.parent / "asked.json").read_text())[-1] == ["-m", "pkg.train", "--epochs", "2"]


@pytest.mark.parametrize(("lang", "words"), [("en", "IT FAILS"), ("zh", "会失败")])
def test_a_fault_in_both_languages(python: Path, lang: str, words: str) -> None:
    (python.parent / "answer.json").write_text(json.dumps(answer(**full("forward", activation=20 << 30))))
    done = ongpu("dryrun", "--python", str(python), "--lang", lang, str(python.parent / "train.py"))
    assert done.returncode == 1
    assert words in done.stdout
    assert "oom-batch-too-large" in done.stdout


def test_json_and_markdown(python: Path) -> None:
    script = str(python.parent / "train.py")
    told = json.loads(ongpu("dryrun", "--format", "json", "--python", str(python), script).stdout)
    assert told["verdict"] == "clear"
    assert told["facts"]["DryRun"]["steps"] == 3
    assert "| peak |" in ongpu("dryrun", "--format", "markdown", "--python", str(python), script).stdout


def test_what_could_not_be_followed_is_no_all_clear(python: Path) -> None:
    (python.parent / "answer.json").write_text(json.dumps(answer(outcome="crashed", error=error("internal", "boom"))))
    done = ongpu("dryrun", "--python", str(python), str(python.parent / "train.py"))
    assert done.returncode == 3
    assert "Nothing wrong was found" not in done.stdout
    assert "the dry run itself failed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpu", "A100"), '"A100 40GB", "A100 80GB"'),
        (("--gpu", "MI300X"), "no such card is known"),
        (("--gpu", "RTX 4095"), '"GeForce RTX 4090"'),
        (("--gpu-memory", "much"), "not a size"),
    ],
)
def test_a_wrong_card(python: Path, arguments: tuple[str, ...], words: str) -> None:
    done = ongpu("dryrun", *arguments, "--python", str(python), str(python.parent / "train.py"))
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--steps", "x"), "x: a whole number from 1 on"), (("--steps", "0"), "from 1 on"), ((), "required: SCRIPT\n")],
)
def test_wrong_usage(arguments: tuple[str, ...], words: str) -> None:
    done = ongpu("dryrun", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "_count" not in done.stderr


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_help_fits_the_terminal(lang: str) -> None:
    told = ongpu("dryrun", "--help", "--lang", lang).stdout
    assert max(map(width_of, told.splitlines())) <= 80


VALIDATES = """
import torch
from torch import nn


def validate(model, loader):
    total = 0
    for x, y in loader:
        total += nn.functional.mse_loss(model(x.cuda()), y.cuda())
    return total


model = nn.Linear(4, 4).cuda()
rows = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 4))
print(validate(model, torch.utils.data.DataLoader(rows, 8)))
"""


def missed(python: Path, text: str) -> None:
    script = python.parent / "train.py"
    script.write_text(text)
    part = {"file": str(script), "name": "validate", "line": 6, "end": 10}
    (python.parent / "answer.json").write_text(json.dumps(answer(unreached=[part], sources=[str(script)], script=str(script))))


@pytest.mark.parametrize(
    ("lang", "words", "calm"), [("en", "validate (line 6)", "All that could"), ("zh", "validate（第 6 行）", "凡能判断")]
)
def test_what_was_not_reached_is_told_and_gets_no_all_clear(python: Path, lang: str, words: str, calm: str) -> None:
    missed(python, VALIDATES.replace("total +=", "total = "))
    done = ongpu("dryrun", "--python", str(python), "--lang", lang, str(python.parent / "train.py"))
    assert done.returncode == 0, done.stdout
    assert words in done.stdout
    assert calm not in done.stdout


def test_of_what_was_not_reached_the_source_tells(python: Path) -> None:
    missed(python, VALIDATES)
    done = ongpu("dryrun", "--python", str(python), str(python.parent / "train.py"))
    assert done.returncode == 1
    assert "oom-graph-retained" in done.stdout


NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)
        self.scale = torch.ones(16)

    def forward(self, x):
        return self.fc(x * self.scale)
"""


def test_the_module_that_the_script_imports_names_the_tensor(python: Path) -> None:
    script, model = python.parent / "train.py", python.parent / "model.py"
    model.write_text(NET)
    script.write_text("import torch\nfrom model import Net\n\nnet = Net().cuda()\nprint(net(torch.randn(8, 16).cuda()))\n")
    place = {"file": str(model), "line": 12, "function": "forward", "text": "return self.fc(x * self.scale)"}
    message = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    files = {"script": str(script), "sources": [str(script), str(model)]}
    (python.parent / "answer.json").write_text(json.dumps(answer(outcome="error", error=error("device", message, place=place), **files)))
    done = ongpu("dryrun", "--python", str(python), str(script))
    assert done.returncode == 1
    assert "self.scale is a plain attribute" in done.stdout
    assert done.stdout.count("tensor-created-on-cpu") == 1


@pytest.mark.parametrize(("lang", "words"), [("en", "the script wants arguments: --data"), ("zh", "脚本需要参数：--data")])
def test_missing_arguments_of_the_script(python: Path, lang: str, words: str) -> None:
    lacks = error("arguments", "--data", "SystemExit")
    (python.parent / "answer.json").write_text(json.dumps(answer(outcome="error", error=lacks, steps=0)))
    done = ongpu("dryrun", "--python", str(python), "--lang", lang, str(python.parent / "train.py"))
    assert done.returncode == 3
    assert words in done.stdout
    assert "not-gpu-related" not in done.stdout


def test_a_script_that_is_not_there(python: Path) -> None:
    done = ongpu("dryrun", "--python", str(python), "nowhere.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such script" in done.stderr


@pytest.mark.parametrize(("version", "words"), [("2.3.1+cu121", "needs 2.4 or newer"), ("-", "has no PyTorch")])
def test_an_interpreter_that_cannot(python: Path, version: str, words: str) -> None:
    python.write_text(python.read_text().replace("'2.13.0'", repr(version)))
    done = ongpu("dryrun", "--python", str(python), str(python.parent / "train.py"))
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
