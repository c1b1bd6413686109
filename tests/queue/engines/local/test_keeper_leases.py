"""The leases of a run's GPUs, in the hands of its keeper and of its command."""

import os
import resource
import select
import sys
from pathlib import Path

import pytest
from keeping import BOOT, LIMIT, Kept, output, run_of, until

from ongpu.queue.engines.local import keeper, recovery, starter
from ongpu.queue.engines.local.keepers import Keeper
from ongpu.queue.engines.local.recovery import Fate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")


def test_the_leases_live_as_long_as_the_command(tmp_path: Path) -> None:
    read, write = os.pipe()
    kept = Kept(run_of(tmp_path, "sleep", "0.3"), [write])
    assert not os.get_inheritable(write)
    os.close(write)
    os.set_blocking(read, False)
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    kept.told()
    assert os.read(read, 1) == b"", "all who held it are gone"
    os.close(read)


def test_only_leases_reach_the_command(tmp_path: Path) -> None:
    read, write = os.pipe()
    run = run_of(tmp_path, "ls", "-l", "/proc/self/fd")
    Kept(run, [write]).told()
    told = [line.rpartition("-> ")[2] for line in output(run).splitlines() if "->" in line]
    wanted = ["/dev/null", *[str(run.folder / "output")] * 2, os.readlink(f"/proc/self/fd/{write}")]
    assert sorted(one for one in told if "/proc" not in one) == sorted(wanted)
    os.close(read)
    os.close(write)


def test_a_run_does_not_begin_without_all_of_its_leases(tmp_path: Path) -> None:
    read, write = os.pipe()
    one = Keeper()
    one.keep(run_of(tmp_path, "true"), [], BOOT)
    assert select.select([one.link], [], [], LIMIT)[0]
    assert one.told() == Fate(recovery.ENDED, code=0)
    before = resource.prlimit(one.pid, resource.RLIMIT_NOFILE)
    has = set(map(int, os.listdir(f"/proc/{one.pid}/fd")))
    third = sorted(set(range(before[0])) - has)[2]
    resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (third, before[1]))  # what is to be run, and one lease
    one.keep(run_of(tmp_path, "touch", "ran", attempt=2), [write] * 3, BOOT)
    assert select.select([one.link], [], [], LIMIT)[0]
    assert one.told() == Fate(recovery.NEVER)
    resource.prlimit(one.pid, resource.RLIMIT_NOFILE, before)
    one.keep(run_of(tmp_path, "true", attempt=3), [write] * 3, BOOT)
    assert select.select([one.link], [], [], LIMIT)[0]
    assert not (tmp_path / "ran").exists()
    assert one.told() == Fate(recovery.ENDED, code=0)
    os.close(write)
    os.set_blocking(read, False)
    assert os.read(read, 1) == b"", "none of them is kept"
    os.close(read)
    one.close()
    until(lambda: os.waitpid(one.pid, os.WNOHANG)[0])


def test_leases_of_a_run_whose_folder_is_gone_are_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it goes elsewhere
    read, write = os.pipe()
    assert keeper.keep(starter.message(run_of(tmp_path, "true"), BOOT), [write]) == keeper.NEVER
    os.set_blocking(read, False)
    assert os.read(read, 1) == b""
    os.close(read)


def test_a_full_disk_keeps_no_gpu_from_others(tmp_path: Path) -> None:
    run = run_of(tmp_path, "true")
    run.folder.mkdir(parents=True)
    os.symlink("/dev/full", run.folder / "exit")
    read, write = os.pipe()
    kept = Kept(run, [write])
    os.close(write)
    assert select.select([read], [], [], LIMIT)[0], "let go of, though the code is not written down"
    os.close(read)
    kept.end(kill=True)
