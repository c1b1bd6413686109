"""The parent's end, with children that die, stop, hang, babble or come back."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ongpu.hosts.sampling import feed as module
from ongpu.hosts.sampling.feed import Feed

pytestmark = pytest.mark.skipif(os.name == "nt", reason="its children are stopped and ended by signals")
Start = Callable[..., Feed]
HEAD = """
import json, os, signal, sys, threading, time
options = json.loads(sys.argv[1])
with open(os.environ["STARTS"], "a") as file:
    file.write(sys.argv[1] + "\\n")
starts = len(open(os.environ["STARTS"]).readlines())
def say(**line): print(json.dumps(line), flush=True)
def sample(n=0, g=(1, 2)): say(k="s", t=time.time(), n=n, g=list(g))
def init(count=2): say(k="init", t=time.time(), code=0, count=count)
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """A feed whose child is a small program."""
    feeds: list[Feed] = []
    monkeypatch.setattr(module, "WAITS", (0.05, 0.1, 0.2))
    monkeypatch.setattr(module, "ALONE_WAITS", (0.1, 0.2))
    monkeypatch.setattr(module, "ANSWER", 0.4)
    monkeypatch.setattr(module, "LOOK_EVERY", 0.05)

    def make(program: str, **options: Any) -> Feed:
        monkeypatch.setattr(module, "program", lambda demo: [sys.executable, "-S", "-c", HEAD + program])
        environ = {**os.environ, "STARTS": str(tmp_path / "starts")}
        feeds.append(Feed(**{"interval": 0.1, "per_call": 0.3, "environ": environ, **options}))
        return feeds[-1]

    yield make
    for feed in feeds:
        feed.close()


def starts(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "starts").read_text().splitlines()]


def until(feed: Feed, kind: str, seconds: float = 10.0) -> dict[str, Any]:
    """The next message of that kind."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        message = feed.next(0.1)
        if message and message["k"] == kind:
            return message
    raise AssertionError(f"no {kind} in {seconds} s")


def test_messages_come_in_order_and_the_rest_is_not_ours(start: Start) -> None:
    feed = start("""
init(); print("a library babbles"); print('{"half": '); print('{"k": 5}'); print("[1]"); sample(1)
os.write(1, b'{"k": "why", '); time.sleep(0.1); os.write(1, b'"i": 0}\\n'); sample(2); time.sleep(60)
""")
    assert [(m := feed.next(5)) and (m["k"], m.get("n")) for _ in range(4)] == [("init", None), ("s", 1), ("why", None), ("s", 2)]
    begin = time.monotonic()
    assert feed.next(0.2) is None
    assert 0.15 < time.monotonic() - begin < 0.45


def test_a_child_that_dies_is_told_and_started_anew_later_each_time(start: Start, tmp_path: Path) -> None:
    feed = start("init(); sample()\nif starts < 4: raise SystemExit('no luck')\ntime.sleep(60)")
    for _ in range(3):
        bye = until(feed, "bye")
        assert bye["code"] is None
        assert bye["error"] == "the sampling process: exit status 1: no luck"
    until(feed, "s")
    assert len(starts(tmp_path)) == 4


def test_killed(start: Start) -> None:
    feed = start("init(); sample(); time.sleep(60)")
    until(feed, "s")
    assert feed.main
    os.kill(feed.main.popen.pid, signal.SIGKILL)
    assert until(feed, "bye")["error"] == "the sampling process: ended by SIGKILL"
    until(feed, "s")


def test_stopped(start: Start) -> None:
    feed = start("init(); sample()\nif starts == 1: os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(60)")
    until(feed, "s")
    begin = time.monotonic()
    assert until(feed, "bye")["error"] == "no answer"
    assert 0.5 < time.monotonic() - begin < 2.5
    until(feed, "s")


def test_busy_is_not_silent(start: Start, tmp_path: Path) -> None:
    feed = start("init(); sample()\nfor line in sys.stdin: say(k='busy', t=0)")
    until(feed, "s")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert feed.next(0.1) is None
    assert len(starts(tmp_path)) == 1


def test_we_who_did_not_listen_blame_nobody(start: Start, tmp_path: Path) -> None:
    feed = start("init()\nfor n in range(100): sample(n); time.sleep(0.1)")
    until(feed, "s")
    time.sleep(1.2)
    assert until(feed, "s")
    for _ in range(15):
        message = feed.next(0.2)
        assert message
        assert message["k"] == "s"
    assert len(starts(tmp_path)) == 1


def test_a_driver_that_refuses(start: Start, tmp_path: Path) -> None:
    feed = start("if starts < 3: say(k='init', t=0, code=9, error='Driver Not Loaded')\nelse: init(); sample(); time.sleep(60)")
    assert [until(feed, "init")["code"] for _ in range(3)] == [9, 9, 0]
    until(feed, "s")
    assert len(starts(tmp_path)) == 3


def test_a_library_elsewhere_is_found(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wsl").mkdir()
    (tmp_path / "wsl/libnvidia-ml.so.1").touch()
    monkeypatch.setattr(module, "FOLDERS", (str(tmp_path / "no"), str(tmp_path / "wsl")))
    feed = start("""
if "wsl" in os.environ.get("LD_LIBRARY_PATH", ""): init(); sample(); time.sleep(60)
say(k='init', t=0, code=12, error='NVML Shared Library Not Found')
""")
    assert until(feed, "init")["code"] == 0


HANGS = """
say(k="init", t=0, code=0, count=2)
def hear():
    for line in sys.stdin:
        if line.startswith("ask"):
            say(k="told", text=line.strip())
threading.Thread(target=hear, daemon=True).start()
if options.get("only"):
    assert options["only"] == [1] and not options["log"] and not options["full_every"]
    while not os.path.exists(os.environ["HEALED"]):
        sample(g=(None, None)); time.sleep(0.05)
    sample(g=(None, 15)); time.sleep(60)
elif 1 not in options["skip"]:
    sample(); say(k="hung", t=0, i=1, call="nvmlDeviceGetTemperature", **{"for": 2.0}); time.sleep(60)
n = 0
while True:
    sample(n, (1, None)); n += 1; time.sleep(0.1)
"""


def test_a_gpu_that_hangs_is_asked_alone_until_it_answers(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEALED", str(tmp_path / "healed"))
    feed = start(HANGS)
    assert until(feed, "hung")["i"] == 1
    assert until(feed, "s")["g"] == [1, None]
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        message = feed.next(0.1)
        assert message is None or message["k"] in ("init", "s")
    assert [options.get("only") for options in starts(tmp_path)] == [None, None, [1]]
    assert starts(tmp_path)[1]["skip"] == [1]
    (tmp_path / "healed").touch()
    assert until(feed, "told")["text"] == "ask 1"
    assert feed.alone == {}


def test_never_a_second_one_while_the_first_still_lives(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEALED", str(tmp_path / "healed"))
    ended = module.Process.end
    kept: list[module.Process] = []

    def stays(process: module.Process) -> bool:
        """As one that sleeps in the driver: what it says is not read, but it does not go."""
        if process is not feed.main:
            kept.append(process)
            process.ended = True
            return False
        return ended(process)

    feed = start(HANGS.replace("sample(g=(None, None)); time.sleep(0.05)", 'say(k="hung", t=0, i=1, call="x"); time.sleep(60)'))
    monkeypatch.setattr(module.Process, "end", stays)
    until(feed, "hung")
    end = time.monotonic() + 2
    while time.monotonic() < end:
        feed.next(0.1)
    assert len([one for one in starts(tmp_path) if one.get("only")]) == 1
    monkeypatch.setattr(module.Process, "end", ended)
    ended(kept[0])  # the driver lets it go
    end = time.monotonic() + 5
    while time.monotonic() < end and len([one for one in starts(tmp_path) if one.get("only")]) < 2:
        feed.next(0.1)
    assert len([one for one in starts(tmp_path) if one.get("only")]) >= 2
    for process in kept:
        ended(process)


def test_a_hang_of_the_driver_itself(start: Start, tmp_path: Path) -> None:
    feed = start("""
if starts == 1: say(k="hung", t=0, i=None, call="nvmlInit_v2", **{"for": 15.0}); time.sleep(60)
init(); sample(); time.sleep(60)
""")
    assert until(feed, "hung")["call"] == "nvmlInit_v2"
    until(feed, "s")
    assert starts(tmp_path)[1]["skip"] == []


def test_the_log_goes_on_where_it_was(start: Start, tmp_path: Path) -> None:
    feed = start("init(); say(k='log', t=0, text='NVRM: a', seq=7); sample()\nif starts == 2: time.sleep(60)")
    assert "seq" not in until(feed, "log")
    until(feed, "bye")
    until(feed, "s")
    assert [options["after"] for options in starts(tmp_path)] == [-1, 7]


def test_long_lines_and_many(start: Start) -> None:
    feed = start("init(); say(k='full', t=0, text='x' * 1000000)\nfor n in range(2000): sample(n)\ntime.sleep(60)")
    assert len(until(feed, "full")["text"]) == 1_000_000
    assert [until(feed, "s")["n"] for _ in range(2000)] == list(range(2000))


def test_closing_ends_all(start: Start) -> None:
    with start("init(); sample(); time.sleep(60)") as feed:
        until(feed, "s")
        assert feed.main
        process = feed.main.popen
    assert process.poll() is not None
    assert feed.next(0.1) is None


def test_a_pipe_that_cannot_be_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: a thread copies it to a socket."""
    monkeypatch.setattr(module.Process, "pumped", True)
    feed = start("init()\nfor n in range(3): sample(n)\nsys.exit(0)")
    feed.poll = None
    assert [until(feed, "s")["n"] for _ in range(3)] == [0, 1, 2]
    assert until(feed, "bye")["error"].startswith("the sampling process: exit status 0")
