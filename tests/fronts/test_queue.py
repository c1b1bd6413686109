import json
from pathlib import Path

import pytest
from fronts_run import ongpu

from ongpu.report.layout import width_of


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    rows = [{"id": f"j{n}", "submitted": n * 60, "duration": 100 + 5000 * (n % 7 == 0), "gpus": 1 + n % 2} for n in range(80)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_policies_side_by_side(trace: Path) -> None:
    done = ongpu("queue", "simulate", str(trace), "--gpus", "4", "--lang", "en")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("80 jobs on 4 GPUs; 0% can checkpoint")
    assert [line.split()[0] for line in done.stdout.splitlines()[2:8]] == ["fifo", "easy", "sjf", "las", "srtf", "ours"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_fits_the_terminal(trace: Path, lang: str) -> None:
    done = ongpu("queue", "simulate", str(trace), "--lang", lang, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert max(map(width_of, done.stdout.splitlines())) <= 80
    assert ("个作业" in done.stdout) == (lang == "zh")
    assert all(done.stdout.count(f"\n{name}") >= 2 for name in ("fifo", "ours"))


def test_short_jobs_are_told_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "short.jsonl"
    rows = [{"id": f"j{n}", "submitted": n, "duration": 7, "gpus": 1, "project": "demo" if n else ""} for n in range(20)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    done = ongpu("queue", "simulate", str(path), "--gpus", "20", "--policy", "fifo", "--lang", "en")
    assert "7.0s" in done.stdout
    none = ongpu("queue", "simulate", str(path), "--cluster", "nope", "--lang", "en")
    assert (none.returncode, "it has: demo\n" in none.stderr) == (2, True)


def test_json_and_plot(trace: Path, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    asked = ("queue", "simulate", str(trace), "--policy", "ours", "--policy", "fifo", "--checkpointable", "0.5", "--seed", "3")
    done = ongpu(*asked, "--faults", "1", "--format", "json", "--plot", str(plot), "--gpus", "4")
    answer = json.loads(done.stdout)
    assert list(answer["policies"]) == ["ours", "fifo"]
    assert answer["jobs"] == 80
    assert 0.2 < answer["checkpointable"] < 0.8
    assert answer["policies"]["ours"]["on_fault"] == 0
    assert plot.read_text("utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--gpus", "0"), "--gpus"),
        (("--checkpointable", "2"), "--checkpointable"),
        (("--faults", "nan"), "--faults"),
        (("--policy", "best"), "--policy"),
        (("--cluster", "none"), "no jobs of none"),
    ],
)
def test_bad_usage(trace: Path, more: tuple[str, ...], words: str) -> None:
    done = ongpu("queue", "simulate", str(trace), *more, "--lang", "en")
    assert done.returncode == 2
    assert words in done.stderr


def test_a_file_that_is_no_trace(tmp_path: Path) -> None:
    assert ongpu("queue", "simulate", str(tmp_path / "none")).returncode == 2
    (tmp_path / "log").write_text("hello\n")
    assert "not a trace" in ongpu("queue", "simulate", str(tmp_path / "log"), "--lang", "en").stderr
