"""The commands of the queue on the real local engine: whole processes, a real daemon, jobs without a GPU."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fronts_run import ongpu

from ongpu.queue.engines.local import alive

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="the queue runs on Linux")]


class Queue:
    """A queue in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        return ongpu(*words, text=text, ONGPU_QUEUE=str(self.folder), ONGPU_QUEUE_CONFIG="/dev/null", COLUMNS="80")

    def submit(self, *words: str) -> str:
        """The id of a job without a GPU."""
        done = self("submit", "--gpus", "0", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """Of one job."""
        return str(json.loads(self("jobs", job, "--format", "json").stdout)["jobs"][0]["state"])

    def until(self, job: str, *states: str) -> str:
        """Waits for one of these states."""
        end = time.monotonic() + 30
        while (state := self.state(job)) not in states:
            assert time.monotonic() < end, (job, state)
            time.sleep(0.1)
        return state


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    folder = tmp_path_factory.mktemp("queue")
    folder.chmod(0o700)
    try:
        yield Queue(folder)
    finally:
        Queue(folder)("cancel", "--all")
        if number := alive.pid(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGTERM)


def test_before_the_first_job(queue: Queue) -> None:
    assert queue("jobs").stdout == "no jobs\n"
    assert queue("jobs", "--lang", "zh").stdout == "没有作业\n"
    assert queue("queue", "status").returncode == 0


def test_the_exit_code_comes_back(queue: Queue) -> None:
    done = queue("submit", "--gpus", "0", "--wait", "--", "sh", "-c", "echo hello; echo oops >&2; exit 3")
    assert (done.returncode, done.stdout.strip().isdigit()) == (3, True)
    job = done.stdout.strip()
    assert queue("logs", job).stdout == "hello\noops\n"
    assert "exit code 3" in queue("jobs", job).stdout
    assert queue("submit", "--gpus", "0", "--wait", "true").returncode == 0
    assert queue("submit", "--gpus", "0", "--wait", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_a_job_that_died_is_diagnosed(queue: Queue) -> None:
    program = "raise RuntimeError('CUDA error: device-side assert triggered')"
    job = queue("submit", "--gpus", "0", "--wait", "--", sys.executable, "-c", program).stdout.strip()
    told = queue("jobs", job).stdout
    assert "device-side" in told
    assert "fix" in told
    assert "修复" in queue("jobs", job, "--lang", "zh").stdout


def test_dependencies_hold_and_release(queue: Queue) -> None:
    first = queue.submit("sleep", "60")
    second = queue.submit("--after-any", first, "echo", "second")
    held = queue.submit("--after-any", second, "true")
    assert queue("hold", held).stderr == f"ongpu: held: {held}\n"
    queue.until(first, "running")
    assert queue.state(second) == "waiting"
    assert queue("cancel", first).returncode == 0
    assert queue.until(first, "cancelled") == "cancelled"
    assert queue.until(second, "done") == "done"
    assert queue.state(held) == "held"
    assert queue("release", held).returncode == 0
    assert queue.until(held, "done") == "done"


def test_an_array_is_steered_as_one(queue: Queue) -> None:
    array = queue.submit("--array", "0-3", "--", "sh", "-c", "echo index $ONGPU_ARRAY_INDEX")
    for place in range(4):
        queue.until(f"{array}[{place}]", "done")
    assert queue("logs", f"{array}[2]").stdout == "index 2\n"
    assert queue("cancel", array).returncode == 1  # all have ended


def test_some_of_an_array_are_named_as_they_are_shown(queue: Queue) -> None:
    array = queue.submit("--array", "0-5", "--begin", "+1h", "true")
    for words, states in (
        (("cancel", f"{array}[1,4-5]"), "wcwwcc"),
        (("hold", f"{array}[0-2]"), "hchwcc"),
        (("release", f"{array}_2"), "hcwwcc"),
    ):
        assert queue(*words).returncode == 0
        jobs = json.loads(queue("jobs", array, "--format", "json").stdout)["jobs"]
        assert "".join(job["state"][0] for job in jobs) == states
    assert len(json.loads(queue("jobs", f"{array}[0,2-3]", "--format", "json").stdout)["jobs"]) == 3
    gone = queue("cancel", f"{array}[3,9]")
    assert (gone.returncode, gone.stderr) == (1, f"ongpu: no such job: {array}[3,9]\n")
    assert queue.state(f"{array}[3]") == "waiting"
    assert queue("cancel", array).returncode == 0


def test_an_array_writes_to_a_file_each(queue: Queue, tmp_path: Path) -> None:
    array = queue.submit("--array", "1,2", "--chdir", str(tmp_path), "--output", "out-%a.txt", "--", "sh", "-c", "echo $ONGPU_ARRAY_INDEX")
    for place in (1, 2):
        queue.until(f"{array}[{place}]", "done")
        assert (tmp_path / f"out-{place}.txt").read_text() == f"{place}\n"
        assert queue("logs", f"{array}[{place}]").stdout == f"{place}\n"
    (tmp_path / "out-1.txt").unlink()
    for words in ((), ("-f",), ("--tail", "3")):
        gone = queue("logs", f"{array}[1]", *words)
        assert (gone.returncode > 0, gone.stdout, gone.stderr.count("\n")) == (True, "", 1)
    assert str(tmp_path / "out-1.txt") in queue("logs", f"{array}[1]").stderr


@pytest.mark.parametrize("follows", [("submit", "--gpus", "0", "--wait", "--"), ("logs", "-f")])
def test_who_waits_starts_a_daemon_that_is_gone(tmp_path: Path, follows: tuple[str, ...]) -> None:
    queue = Queue(tmp_path / "queue")
    command: tuple[str, ...] = ("sh", "-c", "echo began; sleep 3; exit 6")
    if follows[0] == "logs":
        command = (queue.submit("--", *command),)
    environ = {**os.environ, "ONGPU_QUEUE": str(queue.folder), "ONGPU_QUEUE_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8"}
    words = [sys.executable, "-m", "ongpu", *follows, *command]
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waits:
        assert waits.stdout
        out = waits.stdout.readline()
        queue.until("1", "running")
        os.kill(alive.pid(queue.folder) or 0, signal.SIGKILL)
        rest, said = waits.communicate(timeout=60)
    out += rest
    assert queue.state("1") == "failed"
    if follows[0] == "logs":
        assert (waits.returncode, out) == (0, "began\n")
    else:
        assert (waits.returncode, out) == (6, "1\n")
        assert "the queue's daemon was gone: started again\n" in said
    assert queue("queue", "daemon", "--stop").returncode == 0


def test_earlier_runs_and_what_a_job_comes_after(queue: Queue) -> None:
    job = queue.submit("--retries", "1", "--retry-on", "any", "--", "sh", "-c", "exit $((4 + ONGPU_ATTEMPT))")
    after = queue.submit("--after", queue.submit("--begin", "+1h", "true"), "true")
    queue.until(job, "failed")
    shown = " ".join(queue("jobs", job).stdout.split())
    assert "before attempt 1; 0s; the program's own fault, code 5" in shown
    assert "attempt 2" in shown
    assert "exit code 6" in shown
    why = queue("jobs", after, "--why").stdout
    assert "it comes after a job or an array that has not ended" in why
    assert ":  may" not in why
    assert queue("logs", job, "--attempt", "3").stderr == f"ongpu: {job}: it has 2 runs\n"
    assert queue("logs", after, "--attempt", "1").stderr == f"ongpu: job {after} has not started\n"
    assert queue("cancel", "--all").returncode == 0


def test_a_daemon_that_cannot_start_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of an environment that broke: what starts it dies before our code is reached."""
    queue = Queue(tmp_path / "queue")
    broken = "if 'ongpu.queue.engines.local.daemon' in sys.orig_argv:\n    print('ImportError: broken', file=sys.stderr)\n    os._exit(1)\n"
    (tmp_path / "sitecustomize.py").write_text(f"import os, sys\n{broken}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = queue("submit", "--gpus", "0", "true")
    assert (done.returncode, done.stdout) == (0, "1\n")
    for said in (done.stderr, queue("jobs").stdout):
        said = " ".join(said.split())
        assert "nothing starts: the queue's daemon does not run" in said
        assert "ImportError: broken" in said
        assert "daemon.log" in said
    start = queue("queue", "daemon", "--start")
    assert (start.returncode, start.stdout, "ImportError: broken" in start.stderr) == (1, "", True)
    monkeypatch.delenv("PYTHONPATH")
    assert queue("queue", "daemon", "--start").stdout.startswith("started: pid ")
    queue.until("1", "done")
    assert queue("queue", "daemon", "--stop").returncode == 0


def test_output_is_followed_until_the_end(queue: Queue) -> None:
    job = queue.submit("--", "sh", "-c", "echo one; sleep 1; echo two")
    begin = time.monotonic()
    assert queue("logs", "-f", job).stdout == "one\ntwo\n"
    assert time.monotonic() - begin < 20


def test_a_list_of_another_queue_is_taken_over(queue: Queue) -> None:
    tasks = {
        str(number): {"original_command": f"echo {number}", "path": "/tmp", "envs": {"PATH": os.environ["PATH"], "HF_TOKEN": "x1y2"},
                      "status": {"Queued": {}}, "dependencies": needs}
        for number, needs in ((5, [6]), (6, []))
    }  # fmt: skip
    text = json.dumps({"tasks": tasks})
    shown = queue("queue", "import", "-", "--gpus", "0", text=text)
    assert "nothing was submitted" in shown.stdout
    done = queue("queue", "import", "-", "--gpus", "0", "--submit", text=text)
    assert done.returncode == 0, done.stderr
    assert (done.stderr.count("HF_TOKEN"), "x1y2" in done.stderr) == (1, False)
    new = dict(line.split(" -> ") for line in done.stdout.splitlines() if "->" in line)
    assert queue.until(new["5"], "done") == "done"
    assert queue("logs", new["5"]).stdout == "5\n"
    whole = queue("queue", "import", "-", "--gpus", "0", "--submit", "--export", "all", text=text)
    assert "HF_TOKEN" not in whole.stderr
    gone = queue("queue", "import", "-", "--gpus", "0", "--submit", text=text.replace('"/tmp"', '"/no/such"'))
    assert (gone.returncode, gone.stderr.count("/no/such: no such folder")) == (1, 1)
    assert "5: it waits for 6, which was not taken over" in gone.stderr  # it is not started without that
    assert "->" not in gone.stdout


def test_reservations_and_the_daemon(queue: Queue) -> None:
    from ongpu.queue.engines.local.book import Book
    from ongpu.queue.job import Card

    none = queue("queue", "reserve", "lab", "--gpus", "2", "--for", "4h")
    assert (none.returncode, none.stdout) == (2, "")
    assert "no GPU answers" in none.stderr
    assert queue("queue", "drain", "all").returncode == 2
    with Book(queue.folder) as book:
        book.set_cards([Card(id=f"GPU-{n}", index=n) for n in range(2)], time.time())
    made = queue("queue", "reserve", "lab", "--gpus", "2", "--for", "4h", "--users", "ann")
    assert made.stdout.startswith("reserved: lab  2 GPUs  ")
    assert "lab" in queue("queue", "status").stdout
    assert queue("submit", "--gpus", "0", "--reservation", "lab", "true").returncode != 0  # it is ann's
    assert queue("queue", "reserve", "lab", "--cancel").stdout == "lab: taken back\n"
    with Book(queue.folder) as book:
        book.set_cards([Card(id=f"GPU-{n}", state="gone") for n in range(2)], time.time())
    assert queue("queue", "reserve").stdout == "nothing is reserved\n"
    assert queue("queue", "reserve", "x").returncode == 2
    assert queue("queue", "daemon", "--stop").returncode == 0
    assert queue("queue", "daemon", "--stop").stdout == "no daemon runs\n"
    assert "does not run" in queue("queue", "status").stdout
    assert queue("submit", "--gpus", "0", "--wait", "true").returncode == 0  # starts it again
    os.kill(alive.pid(queue.folder) or 0, signal.SIGKILL)
    job = queue.submit("--begin", "+1h", "true")
    os.kill(alive.pid(queue.folder) or 0, signal.SIGKILL)
    assert queue("cancel", job).returncode == 0  # starts one in the background
    assert queue("queue", "daemon", "--stop").stdout == "ended; what runs goes on\n"


@pytest.mark.parametrize("words", [("drain", "0"), ("test", "0"), ("return", "0", "--untested"), ("return", "0")])
def test_gpus_that_are_not_there(queue: Queue, words: tuple[str, ...]) -> None:
    done = queue("queue", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("words", ["jobs", "jobs --format json", "submit --gpus 0 --name full true", "queue status"])
def test_an_output_that_takes_nothing_is_one_line(queue: Queue, words: str) -> None:
    environ = {**os.environ, "ONGPU_QUEUE": str(queue.folder), "ONGPU_QUEUE_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8"}
    command = f"{sys.executable} -m ongpu {words}"
    shell = ["sh", "-c", f"exec {command} >/dev/full"]
    full = subprocess.run(shell, env=environ, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    *first, last = full.stderr.splitlines()
    assert (full.returncode, last) == (2, "ongpu: the output cannot be written: No space left on device")
    assert [line.startswith("ongpu: submitted as ") for line in first] == [True] * words.startswith("submit")
    closed = subprocess.run(["sh", "-c", f"exec {command} >&-"], env=environ, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (closed.returncode in (0, 1), "Traceback" in closed.stderr) == (True, False)


def test_no_output_at_all(queue: Queue) -> None:
    job = queue.submit("echo", "here")
    queue.until(job, "done")
    environ = {**os.environ, "ONGPU_QUEUE": str(queue.folder), "ONGPU_QUEUE_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8"}
    command = f"exec {sys.executable} -m ongpu logs {job} >&-"
    closed = subprocess.run(["sh", "-c", command], env=environ, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_no_such_job(queue: Queue) -> None:
    for command in ("jobs", "logs", "cancel", "hold", "release"):
        done = queue(command, "99999")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "ongpu: no such job: 99999\n")


@pytest.mark.slow
def test_submit_and_jobs_are_quick_with_a_hundred_thousand_that_wait(tmp_path: Path) -> None:
    from ongpu.lazy import replace
    from ongpu.queue.engines.local.book import Book
    from ongpu.queue.job import Spec

    folder = tmp_path / "queue"
    with Book(folder, create=True) as book:
        spec = Spec(command=("true",), gpus=0, environ={"PATH": os.environ["PATH"]}, folder="/")
        book.hold(book.submit([replace(spec, index=place) for place in range(100_000)], "ann", time.time()), time.time())
    queue = Queue(folder)

    def least(*words: str) -> float:
        times = []
        for _ in range(7):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert queue(*words).returncode == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)  # of the processor: others may use it too
        return min(times)

    try:
        assert least("jobs") < 0.5
        assert least("submit", "--gpus", "0", "--", "true") < 0.15
    finally:
        queue("queue", "daemon", "--stop")
