import json
import os
import subprocess
import sys
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


def test_the_configured_policy_is_shown_where_it_is_another(trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "queue.toml"
    config.write_text("[policy]\nname = 'fifo'\n")
    asked = ("queue", "simulate", str(trace), "--gpus", "2", "--format", "json")
    assert "config" not in json.loads(ongpu(*asked, ONGPU_QUEUE_CONFIG=str(config)).stdout)["policies"]
    same = json.loads(ongpu(*asked, "--policy", "config", "--policy", "fifo", ONGPU_QUEUE_CONFIG=str(config)).stdout)["policies"]
    assert same["config"] == same["fifo"]
    config.write_text("[policy]\npreempts = false\nheadroom = 1\n")
    told = json.loads(ongpu(*asked, "--checkpointable", "1", ONGPU_QUEUE_CONFIG=str(config)).stdout)["policies"]
    assert list(told)[-2:] == ["ours", "config"]
    assert (told["ours"]["preemptions"] > 0, told["config"]["preemptions"]) == (True, 0)
    config.write_text("[policy]\nheadroom = 7\n")
    wrong = ongpu(*asked, ONGPU_QUEUE_CONFIG=str(config))
    assert (wrong.returncode, "policy.headroom" in wrong.stderr) == (2, True)


def test_jobs_that_never_end_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(json.dumps({"id": n, "submitted": n, "duration": 1e8 if n else 60, "gpus": 1}) for n in range(3)))
    asked = ("queue", "simulate", str(path), "--gpus", "4", "--faults", "100", "--policy", "fifo")
    done = ongpu(*asked, "--lang", "en")
    assert "2 never ended" in " ".join(done.stdout.split())
    assert "2 个作业因 GPU 屡次故障" in ongpu(*asked, "--lang", "zh").stdout


def test_a_trace_of_any_name_can_be_drawn(trace: Path, tmp_path: Path) -> None:
    from xml.etree import ElementTree

    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff\x1b<b>.jsonl"))
    trace.rename(odd)
    done = ongpu("queue", "simulate", str(odd), "--gpus", "4", "--policy", "fifo", "--plot", str(tmp_path / "plot.svg"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "a??<b>.jsonl" in "".join(ElementTree.fromstring((tmp_path / "plot.svg").read_text("utf-8")).itertext())


def test_a_file_without_end_is_no_trace() -> None:
    for words in ("queue simulate /dev/zero", "queue simulate /dev/stdin --policy fifo"):
        with subprocess.Popen(["yes", ""], stdout=subprocess.PIPE) as endless:
            done = subprocess.run(
                [sys.executable, "-m", "ongpu", *words.split(), "--lang", "en"], stdin=endless.stdout, capture_output=True, text=True,
                timeout=120, check=False,
            )  # fmt: skip
            endless.kill()
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1


def test_a_file_that_is_no_trace(tmp_path: Path) -> None:
    assert ongpu("queue", "simulate", str(tmp_path / "none")).returncode == 2
    (tmp_path / "log").write_text("hello\n")
    assert "not a trace" in ongpu("queue", "simulate", str(tmp_path / "log"), "--lang", "en").stderr
