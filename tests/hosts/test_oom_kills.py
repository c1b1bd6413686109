"""The kernel's counters of programs that it ended for want of memory."""

from pathlib import Path

import pytest

from ongpu.engine import diagnose
from ongpu.hosts import oom_kills
from ongpu.hosts.pasted import read_text

PLACES = {
    "v2": ("0::/user.slice/a b.scope\n", "sys/fs/cgroup/user.slice/a b.scope/memory.events", "low 0\nhigh 0\nmax 7\noom 1\noom_kill {}\n"),
    "v1": ("12:pids:/x\n9:memory:/job_7/s0\n0::/\n", "sys/fs/cgroup/memory/job_7/s0/memory.oom_control", "under_oom 0\noom_kill {}\n"),
    "both controllers": ("9:cpu,memory:/j\n0::/\n", "sys/fs/cgroup/memory/j/memory.oom_control", "oom_kill {}\n"),
    "machine": ("0::/\n", "proc/vmstat", "nr_free_pages 12\noom_kill {}\nswap_ra 0\n"),
}


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize("kind", PLACES)
def test_new_kills_are_what_the_rule_reads(tmp_path: Path, kind: str) -> None:
    groups, path, text = PLACES[kind]
    put(tmp_path, "proc/self/cgroup", groups)
    put(tmp_path, "sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n" if kind == "v1" else "")  # of the root: not ours
    put(tmp_path, path, text.format(2))
    before = oom_kills.count(str(tmp_path))
    assert list(before.values()) == [2]
    assert oom_kills.since(before, str(tmp_path)) == ""
    put(tmp_path, path, text.format(3))
    line = oom_kills.since(before, str(tmp_path))
    report = diagnose([*read_text("Killed", "exit status"), *read_text(line, "counters")], "x")
    found = next(f for f in report.findings if f.slug == "host-oom")
    assert found.variant == ("" if kind == "machine" else "limit")


def test_where_nothing_tells(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "garbage\n\0:::\n0::relative\n")
    assert oom_kills.count(str(tmp_path)) == {}
    assert oom_kills.since({}, str(tmp_path)) == ""
