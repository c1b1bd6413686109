"""Leases: real processes that take, die and are killed; planted files; never two holders."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.hosts import leases
from ongpu.hosts.leases import Holder, Lease, Unusable, held, take

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks of open files are Linux's")
GPUS = [f"GPU-fa4e0000-0000-4000-8000-{n:012x}" for n in range(8)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "leases"


def taken(place: Path, *gpus: str, **about: object) -> Lease:
    found = take(place, gpus, about or leases.words(["python", "train.py"]))
    assert isinstance(found, Lease), found
    return found


def test_one_holder_and_all_can_see_who(place: Path) -> None:
    with taken(place, GPUS[0], GPUS[1]):
        other = take(place, [GPUS[1], GPUS[2]], {})
        assert isinstance(other, Holder)
        assert (other.gpu, other.pid, other.command, other.ended) == (GPUS[1], os.getpid(), "python train.py", False)
        assert sorted(held(place, GPUS)) == GPUS[:2], "none is kept of what failed"
    assert held(place, GPUS) == {}
    taken(place, *GPUS).close()


def test_a_lease_that_says_that_the_gpu_is_out_of_service_and_other_words_later(place: Path) -> None:
    with taken(place, GPUS[0], user="ann", drained="xid-79") as lease:
        assert (held(place, GPUS)[GPUS[0]].user, held(place, GPUS)[GPUS[0]].drained) == ("ann", "xid-79")
        lease.say({"user": "ann", "command": "ongpu queue test"})
        told = held(place, GPUS)[GPUS[0]]
        assert (told.drained, told.command) == (None, "ongpu queue test")
        lease.say({"drained": ["no", "text"]})
        assert held(place, GPUS)[GPUS[0]].drained is None


def test_parts_of_a_gpu_stand_beside_each_other_and_never_beside_the_whole(place: Path) -> None:
    gpu = GPUS[0]

    def part(slot: int, *beside: int) -> Lease | Holder:
        return take(place, [gpu, GPUS[1]], {"pid": os.getpid()}, {gpu: slot, GPUS[1]: slot}, {gpu: beside, GPUS[1]: beside})

    with taken(place, gpu):
        assert isinstance(part(1), Holder)
    first = part(1)
    assert isinstance(first, Lease)
    assert isinstance(take(place, [gpu], {}), Holder), "the whole"
    assert isinstance(part(1), Holder), "the same part"
    assert isinstance(part(2), Holder), "somebody else's part: another queue"
    second = part(2, 1)
    assert isinstance(second, Lease)
    last = part(63, 1, 2)
    assert isinstance(last, Lease)
    assert isinstance(part(5, 1, 2), Holder), "63 is not ours to stand beside"
    last.close()
    assert sorted(held(place, GPUS)) == GPUS[:2]
    first.close()
    assert isinstance(take(place, [gpu], {}), Holder), "part 2 is still there"
    second.close()
    taken(place, gpu).close()


def test_looking_disturbs_no_taker(place: Path) -> None:
    taken(place, *GPUS).close()
    looks = subprocess.Popen([sys.executable, "-c", LOOKER, str(place), *GPUS])
    try:
        for _ in range(300):
            taken(place, *GPUS).close()
        assert looks.poll() is None
    finally:
        looks.kill()
        looks.wait()


LOOKER = """
import sys; from pathlib import Path; from ongpu.hosts.leases import held
while True: held(Path(sys.argv[1]), sys.argv[2:])
"""


def test_a_child_keeps_the_lease_of_a_parent_that_was_killed(place: Path) -> None:
    program = (
        "import os, sys, subprocess, time; from pathlib import Path; from ongpu.hosts.leases import take, words\n"
        "lease = take(Path(sys.argv[1]), [sys.argv[2]], words(['job']))\n"
        "child = subprocess.Popen(['sleep', '60'], pass_fds=list(lease.files.values()))\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(place), GPUS[0]], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        (holder,) = held(place, GPUS).values()
        assert (holder.pid, holder.ended) == (parent.pid, True)
        assert isinstance(take(place, GPUS[:1], {}), Holder)
    finally:
        os.kill(child, signal.SIGKILL)
    end = time.monotonic() + 5
    while held(place, GPUS) and time.monotonic() < end:
        time.sleep(0.01)
    assert held(place, GPUS) == {}


def test_secrets_of_the_command_are_not_told(place: Path) -> None:
    with taken(place, GPUS[0], **leases.words(["train", "--api-key", "sk-123456789012345678901234"])):
        (holder,) = held(place, GPUS).values()
    assert "sk-1234" not in str(holder)


NAMES = st.sampled_from(["pid", "start", "user", "since", "command", "memory"])


class TestPlanted:
    """What a bad neighbour may have put where a lease is expected."""

    @pytest.mark.parametrize("plant", ["link", "dangling", "pipe", "folder", "hard link"])
    def test_what_is_no_plain_file_is_refused_at_once(self, place: Path, tmp_path: Path, plant: str) -> None:
        taken(place, GPUS[1]).close()
        file, victim = place / GPUS[0], tmp_path / "victim"
        victim.write_text("precious")
        if plant == "link":
            file.symlink_to(victim)
        elif plant == "dangling":
            file.symlink_to(tmp_path / "nowhere")
        elif plant == "pipe":
            os.mkfifo(file)
        elif plant == "folder":
            file.mkdir()
        else:
            os.link(victim, file)
        with pytest.raises(Unusable):
            take(place, GPUS, {})
        assert victim.read_text() == "precious"
        assert not (tmp_path / "nowhere").exists()
        taken(place, GPUS[1]).close()

    def test_a_folder_without_the_sticky_bit_is_refused(self, place: Path) -> None:
        place.mkdir()
        place.chmod(0o777)
        with pytest.raises(Unusable, match="1777"):
            take(place, GPUS, {})

    def test_a_folder_that_is_a_link_is_refused(self, place: Path, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        place.symlink_to(tmp_path / "real")
        with pytest.raises(Unusable):
            take(place, GPUS, {})

    @pytest.mark.parametrize("name", ["../x", "GPU-", "", "a/b", "GPU-../../etc"])
    def test_names_that_are_no_uuid(self, place: Path, name: str) -> None:
        with pytest.raises(Unusable):
            take(place, [name], {})

    @given(st.binary(max_size=200) | st.dictionaries(NAMES, st.none() | st.integers() | st.text(max_size=9) | st.lists(st.none())).map(
        lambda told: json.dumps(told).encode()
    ))  # fmt: skip
    def test_any_words_in_the_file_are_read(self, tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
        place = tmp_path_factory.getbasetemp() / "any"
        with taken(place, GPUS[0]) as lease:
            file = lease.files[GPUS[0]]
            os.pwrite(file, text, 0)
            os.ftruncate(file, len(text))
            (holder,) = held(place, GPUS[:1]).values()
        assert holder.gpu == GPUS[0]
        assert holder.command is None or holder.command.isprintable()

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to be two users")
    def test_users_share_files_that_the_other_made(self, tmp_path: Path) -> None:
        place = Path(f"/dev/shm/ongpu-test-{os.getpid()}")
        try:
            for first, second in ((1234, 2345), (0, 1234)):
                gpu = GPUS[first % 8]
                assert as_user(first, place, gpu) == "taken"
                assert as_user(second, place, gpu) == "taken"
            with taken(place, GPUS[0]):
                assert as_user(1234, place, GPUS[0]) == f"held by {os.getpid()}"
        finally:
            for file in place.iterdir():
                file.unlink()
            place.rmdir()


def as_user(uid: int, place: Path, gpu: str) -> str:
    """What that user is told."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if uid:
                os.setgid(uid)
                os.setuid(uid)
            found = take(place, [gpu], {})
            words = f"held by {found.pid}" if isinstance(found, Holder) else "taken"
        except BaseException as error:
            words = repr(error)
        os.write(into, words.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        return file.read().decode()


# --- many takers, killed at random. Each holder also takes another kernel lock (flock) on a file of the GPU and writes its number there:
# where a taker has the lease and finds that lock with one who lives on, there are two holders. (In which order the locks of one who
# is killed end is the kernel's affair: one who is dying is waited for.)

def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def clash(oracle: int) -> bool:
    """Whether somebody else who lives on holds it. Takes it."""
    waited, other = False, 0
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            fcntl.flock(oracle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            waited, other = True, int(os.pread(oracle, 20, 0) or b"0")
            time.sleep(0.0005)
            continue
        os.pwrite(oracle, b"%10d" % os.getpid(), 0)
        return waited and alive(other)
    return True


def taker(place: Path, marks: Path, seed: int) -> None:
    """Takes and releases for ever; exit code 7: there was another holder."""
    chance = random.Random(seed)
    oracles = {gpu: os.open(marks / gpu, os.O_RDWR | os.O_CREAT, 0o666) for gpu in GPUS}
    count = os.open(marks / f"count-{seed}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    parent = os.getppid()
    while os.getppid() == parent:
        want = chance.sample(GPUS, chance.choice((1, 1, 2, 3, 8)))
        found = take(place, want, {"pid": os.getpid()})
        if isinstance(found, Holder):
            time.sleep(chance.random() * 0.03)
            continue
        for gpu in want:
            if clash(oracles[gpu]):
                os._exit(7)
        os.write(count, b".")
        time.sleep(chance.random() * 0.03)
        for gpu in want:
            fcntl.flock(oracles[gpu], fcntl.LOCK_UN)
        found.close()


def storm(place: Path, marks: Path, takers: int, kills: int) -> int:
    """How many leases were taken while so many takers were killed."""
    marks.mkdir()
    living: set[int] = set()
    killed, seed = 0, 0
    try:
        while killed < kills:
            while len(living) < takers:
                seed += 1
                pid = os.fork()
                if pid == 0:
                    try:
                        taker(place, marks, seed)
                    finally:
                        os._exit(8)
                living.add(pid)
            time.sleep(0.004)
            victim = random.choice(sorted(living))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            living.discard(victim)
            assert os.WIFSIGNALED(status), f"a taker ended by itself with {os.waitstatus_to_exitcode(status)}"
            killed += 1
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)
        ends = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in living}
    assert ends <= {-9}, f"takers ended by themselves with {ends}"
    return sum(path.stat().st_size for path in marks.glob("count-*"))


def test_fifty_takers_killed_at_random_never_two_holders(place: Path, tmp_path: Path) -> None:
    assert storm(place, tmp_path / "marks", 50, 30) > 30
    assert held(place, GPUS) == {}, "the kernel released all"
    taken(place, *GPUS).close()


@pytest.mark.slow
def test_a_longer_storm(place: Path, tmp_path: Path) -> None:
    assert storm(place, tmp_path / "marks", 50, 500) > 500
    assert held(place, GPUS) == {}


def test_the_storm_would_tell_two_holders(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_lock", lambda *of: True)
    with pytest.raises(AssertionError, match="7"):
        storm(place, tmp_path / "marks", 20, 1000)


def test_the_folder_is_the_same_for_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    monkeypatch.setattr(leases, "SHARED", str(tmp_path / "lock" / "ongpu"))
    (tmp_path / "lock").chmod(0o755)
    assert leases.folder({}) == Path(leases.FALLBACK)
    (tmp_path / "lock").chmod(0o1777)
    assert leases.folder({}) == tmp_path / "lock" / "ongpu"
    assert leases.folder({leases.VARIABLE: "/x"}) == Path("/x")
