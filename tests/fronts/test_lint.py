"""`ongpu lint` as a user runs it: whole processes over small projects."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fronts_run import ongpu

FAULTY = """\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available else "cpu"  # which
model = nn.Linear(10, 2).to(device)
x = torch.randn(4, 10)
x.to(device)  # moved?
"""
HEALTHY = FAULTY.replace("is_available", "is_available()").replace("x.to", "x = x.to")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(FAULTY, "utf-8")
    (tmp_path / "fine.py").write_text(HEALTHY, "utf-8")
    (tmp_path / "words.txt").write_text("import torch", "utf-8")
    return tmp_path


def test_text_tells_place_line_and_remedy(project: Path) -> None:
    done = ongpu("lint", str(project))
    assert done.returncode == 1
    assert f"{project}/train.py:4  error: availability-check-not-called" in done.stdout
    assert '4 | device = "cuda" if torch.cuda.is_available else "cpu"' in done.stdout
    assert "2 files: 2 errors" in done.stdout
    assert "fine.py" not in done.stdout


def test_healthy_is_clear(project: Path) -> None:
    done = ongpu("lint", str(project / "fine.py"))
    assert (done.returncode, done.stdout) == (0, "1 file: nothing wrong was found\n")


def test_json_is_the_schema_of_all_answers(project: Path) -> None:
    answer = json.loads(ongpu("lint", "--format", "json", str(project)).stdout)
    assert answer["verdict"] == "found"
    assert [f["slug"] for f in answer["findings"]] == ["availability-check-not-called", "to-result-discarded"]
    assert answer["findings"][1]["refs"][0] == {"source": f"{project}/train.py", "line": 7, "quote": "x.to(device)  # moved?"}


def test_sarif_names_rule_place_and_repair(project: Path) -> None:
    log = json.loads(ongpu("lint", "--format", "sarif", str(project)).stdout)
    run = log["runs"][0]
    assert log["version"] == "2.1.0"
    assert [r["ruleId"] for r in run["results"]] == ["availability-check-not-called", "to-result-discarded"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        change = result["fixes"][0]["artifactChanges"][0]
        assert change["artifactLocation"]["uri"].endswith("train.py")
        assert change["replacements"][0]["deletedRegion"]["startLine"] == result["locations"][0]["physicalLocation"]["region"]["startLine"]


def test_github_annotations_are_one_line_each(project: Path) -> None:
    lines = ongpu("lint", "--format", "github", str(project)).stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("::error file=") and ",line=" in line for line in lines)


def test_diff_writes_nothing_and_fix_keeps_comments_and_is_idempotent(project: Path) -> None:
    diff = ongpu("lint", "--diff", str(project)).stdout
    assert '+device = "cuda" if torch.cuda.is_available() else "cpu"  # which' in diff
    assert (project / "train.py").read_text("utf-8") == FAULTY
    done = ongpu("lint", "--fix", str(project))
    assert done.returncode == 0
    assert (project / "train.py").read_text("utf-8") == HEALTHY
    assert "repaired" in done.stderr
    assert ongpu("lint", "--fix", str(project)).stderr == ""


def test_a_comment_answers_for_a_line(project: Path) -> None:
    text = FAULTY.replace("  # which", "  # ongpu: ignore[availability-check-not-called] a stub").replace(
        "x.to", "# ongpu: ignore[sync-in-hot-loop]\nx.to"
    )
    (project / "train.py").write_text(text, "utf-8")
    answer = json.loads(ongpu("lint", "--format", "json", str(project)).stdout)
    assert [f["slug"] for f in answer["findings"]] == ["to-result-discarded"]  # that comment names another rule
    (project / "train.py").write_text(text.replace("[sync-in-hot-loop]", ""), "utf-8")
    assert ongpu("lint", str(project)).returncode == 0


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ('ignore = ["to-result-discarded"]', ["availability-check-not-called"]),
        ('select = ["to-result-discarded"]', ["to-result-discarded"]),
        ('exclude = ["train.py"]', []),
        ('per-file-ignores = {"train.py" = ["to-result-discarded"]}', ["availability-check-not-called"]),
    ],
)
def test_pyproject_chooses(project: Path, settings: str, left: list[str]) -> None:
    (project / "pyproject.toml").write_text(f"[tool.ongpu.lint]\n{settings}\n", "utf-8")
    answer = json.loads(ongpu("lint", "--format", "json", str(project)).stdout)
    assert [f["slug"] for f in answer["findings"]] == left


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('ignore = ["to-result-discard"]', "near: to-result-discarded"),
        ("colour = 1", "knows no colour"),
        ('select = "x"', "is a list"),
        ("select = [", "pyproject.toml"),
        ("per-file-ignores = 3", "is a table"),
    ],
)
def test_bad_settings_are_one_line(project: Path, settings: str, told: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.ongpu.lint]\n{settings}\n", "utf-8")
    done = ongpu("lint", str(project))
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_notebook_is_judged_and_repaired_by_cell(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# hello"], "metadata": {}},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch"], "outputs": [], "metadata": {}, "execution_count": None},
        {"cell_type": "code", "source": FAULTY.splitlines(keepends=True), "outputs": [], "metadata": {}, "execution_count": None},
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), "utf-8")
    done = ongpu("lint", str(path))
    assert f"{path}:cell 3:4  error: availability-check-not-called" in done.stdout
    assert ongpu("lint", "--fix", str(path)).returncode == 0
    assert "".join(json.loads(path.read_text("utf-8"))["cells"][2]["source"]) == HEALTHY


@pytest.mark.parametrize(
    "data", [b"\x00\x01torch\xff", b"import torch\ndef f(:\n", b"import torch\n" + b"(" * 5000, b"import torch\nx = " + b"-" * 20000 + b"1"]
)
def test_what_is_no_program_is_told_and_stops_nothing(project: Path, data: bytes) -> None:
    (project / "broken.py").write_bytes(data)
    done = ongpu("lint", str(project))
    assert done.returncode == 1
    assert f"{project}/broken.py" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert ongpu("lint", str(project / "broken.py")).returncode == 3


def test_other_files_of_the_project_are_followed(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n", "utf-8"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom model import Net\nnet = Net()\nnet.to('cuda')\nx = torch.ones(3)\nx.to('cuda')\nnet(x)\n", "utf-8"
    )
    answer = json.loads(ongpu("lint", "--format", "json", str(tmp_path)).stdout)
    assert [f["refs"][0]["line"] for f in answer["findings"] if f["slug"] == "to-result-discarded"] == [6]


def test_standard_input_and_bad_paths(tmp_path: Path) -> None:
    assert "stdin.py:4" in ongpu("lint", "-", text=FAULTY).stdout
    assert ongpu("lint", str(tmp_path / "gone")).returncode == 2
    assert ongpu("lint", str(tmp_path)).returncode == 2


TWO_FAULTS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(10, 10) for _ in range(3)]
        self.head = nn.Linear(10, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


device = torch.device("cuda")
model = Net().to(device)
for x, y in torch.utils.data.DataLoader([], batch_size=8):
    x = x.to(device)
    nn.CrossEntropyLoss()(model(x), y).backward()
"""


def test_what_could_not_be_read_is_told_in_every_format(project: Path) -> None:
    (project / "broken.py").write_text("import torch\ndef f(:\n", "utf-8")
    (project / "n.ipynb").write_text("{not json", "utf-8")
    unread = [str(project / name) for name in ("broken.py", "n.ipynb", "words.txt")]
    done = ongpu("lint", str(project / "fine.py"), *unread)
    assert done.returncode == 3
    told = done.stdout.replace("\n", " ")
    assert f"{unread[0]}: line 2: not Python 3: invalid syntax" in told
    assert f"{unread[1]}: not a notebook that can be read" in told
    assert f"{unread[2]}: not a Python file" in told
    assert done.stdout.endswith("1 file checked, 3 could not be read\n")
    assert max(map(len, done.stdout.splitlines())) <= max(80, *map(len, unread)) + 1
    assert "NotPython" not in done.stdout
    chinese = ongpu("lint", "--lang", "zh", *unread).stdout.replace("\n", "").replace(" ", "")
    for told in ("第 2 行：不是 Python 3：语法错误", "不是可读的 notebook", "不是 Python 文件", "检查了 0 个文件，另有 3 个未能读取"):
        assert told.replace(" ", "") in chinese
    github = ongpu("lint", "--format", "github", *unread)
    assert [line.partition(",title")[0] for line in github.stdout.splitlines()] == [
        f"::error file={unread[0]},line=2", f"::error file={unread[1]}", f"::error file={unread[2]}",
    ]  # fmt: skip
    run = json.loads(ongpu("lint", "--format", "sarif", *unread).stdout)["runs"][0]
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 3
    assert ongpu("lint", str(project)).returncode == 1  # a fault weighs more


def test_a_notebook_of_words_and_a_script_without_suffix_are_read(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "about torch"}]}), "utf-8")
    (tmp_path / "run").write_text("#!/usr/bin/env python3\n" + FAULTY, "utf-8")
    assert ongpu("lint", str(tmp_path / "n.ipynb")).returncode == 0
    assert "2 errors" in ongpu("lint", str(tmp_path / "run")).stdout


def test_a_fault_elsewhere_is_no_consequence(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TWO_FAULTS, "utf-8")
    answer = json.loads(ongpu("lint", "--format", "json", str(tmp_path)).stdout)
    assert {"module-not-registered", "input-not-moved"} <= {f["slug"] for f in answer["findings"]}


def test_a_consequence_that_goes_with_the_repair_is_counted_and_shown_with_all(tmp_path: Path) -> None:
    text = "import torch\nnet = torch.nn.Linear(3, 3).cuda()\nx = torch.ones(3, 3)\nx.cuda()\nnet(x)\n"
    (tmp_path / "train.py").write_text(text, "utf-8")
    short, full = ongpu("lint", str(tmp_path)).stdout, ongpu("lint", "--all", str(tmp_path)).stdout
    assert "1 consequence of the above is hidden; --all shows it" in short
    assert "input-not-moved" not in short
    assert "input-not-moved" in full
    assert "hidden" not in full


def test_a_patch_without_final_newline_says_so(project: Path) -> None:
    (project / "train.py").write_text(FAULTY.rstrip("\n"), "utf-8")
    diff = ongpu("lint", "--diff", str(project)).stdout.splitlines()
    assert diff[-4:] == [
        "-x.to(device)  # moved?", "\\ No newline at end of file", "+x = x.to(device)  # moved?", "\\ No newline at end of file",
    ]  # fmt: skip


@pytest.mark.parametrize("style", [{}, {"indent": 2}, {"indent": 4}, {"separators": (",", ":")}])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_notebook_keeps_its_style_and_is_shown_by_cell(tmp_path: Path, style: dict[str, Any], end: str) -> None:
    cells = [{"cell_type": "markdown", "source": "é"}, {"cell_type": "code", "source": FAULTY}]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}, **style) + end, "utf-8")
    diff = ongpu("lint", "--diff", str(path)).stdout
    assert f"--- a/{path}:cell 2\n" in diff
    assert "\n-x.to(device)  # moved?\n+x = x.to(device)  # moved?\n" in diff
    ongpu("lint", "--fix", str(path))
    cells[1]["source"] = HEALTHY
    assert path.read_text("utf-8") == json.dumps({"cells": cells}, **style) + end


def test_standard_input_is_repaired_to_standard_output() -> None:
    done = ongpu("lint", "--fix", "-", text=FAULTY)
    assert (done.returncode, done.stdout) == (0, HEALTHY)
    assert "repaired: stdin.py:7 to-result-discarded\n" in done.stderr
    assert "1 file: nothing wrong was found" in done.stderr
    assert "+x = x.to(device)" in ongpu("lint", "--diff", "-", text=FAULTY).stdout
    broken = ongpu("lint", "--fix", "-", text="import torch\ndef f(:\n")
    assert (broken.returncode, broken.stdout) == (3, "import torch\ndef f(:\n")


def test_a_comment_answers_in_a_notebook_too(tmp_path: Path) -> None:
    text = FAULTY.replace("  # which", "  # ongpu: ignore").replace("# moved?", "# ongpu: ignore[to-result-discarded]")
    cells = [{"cell_type": "markdown", "source": []}, {"cell_type": "code", "source": text.splitlines(keepends=True)}]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    assert ongpu("lint", str(tmp_path)).stdout == "1 file: nothing wrong was found\n"


def test_comments_that_answer_for_nothing_are_told(tmp_path: Path) -> None:
    text = 'import torch  # ongpu: ignore[no-such]\n# ongpu: ignore[sync-in-hot-loop]\nx = "# ongpu: ignore[words]"\n'
    (tmp_path / "a.py").write_text(text, "utf-8")
    done = ongpu("lint", str(tmp_path))
    assert done.returncode == 0
    assert "ignore[no-such]: lint has no rule of this name" in done.stdout
    assert "sync-in-hot-loop" not in done.stdout
    assert "ignore[sync-in-hot-loop]" in ongpu("lint", "--all", str(tmp_path)).stdout
    assert "words" not in ongpu("lint", "--all", str(tmp_path)).stdout
    used = FAULTY.replace("  # which", "  # ongpu: ignore[availability-check-not-called]")
    assert "answers for nothing" not in ongpu("lint", "--all", "-", text=used).stdout
    for lang in ("en", "zh"):
        shown = ongpu("lint", "--help", "--lang", lang).stdout
        assert "# ongpu: ignore[" in shown
        assert "[tool.ongpu.lint]" in shown


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_sarif_rules_are_sentences(project: Path, lang: str) -> None:
    (project / "two.py").write_text(TWO_FAULTS, "utf-8")
    run = json.loads(ongpu("lint", "--format", "sarif", "--all", "--lang", lang, str(project)).stdout)["runs"][0]
    worst = ("note", "warning", "error")
    for rule in run["tool"]["driver"]["rules"]:
        told = " ".join(rule[part]["text"] for part in ("shortDescription", "fullDescription", "help"))
        assert not re.search(r"<[a-z_]{1,30}>", told)
        levels = [result["level"] for result in run["results"] if result["ruleId"] == rule["id"]]
        assert rule["defaultConfiguration"]["level"] == max(levels, key=worst.index)
    for result in run["results"]:
        assert ". " not in result["message"]["text"] or lang == "en"


def test_bad_options_show_the_usage_of_lint() -> None:
    done = ongpu("lint", "--foo")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ongpu lint ")
    assert done.stderr.endswith("ongpu lint: unrecognized arguments: --foo\nsee ongpu lint --help\n")
    assert "ongpu lint --help" in ongpu("lint", "--foo", "--lang", "zh").stderr
