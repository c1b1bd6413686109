"""`ongpu lint` as a user runs it: whole processes over small projects."""

import json
from pathlib import Path

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
