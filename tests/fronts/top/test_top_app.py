"""The live view, by Textual's pilot: keys, sizes, colours off, a driver that goes, a process that is ended."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from parts.tops import Silent, live

pytest.importorskip("textual")

from rich.text import Text
from textual.pilot import Pilot

from ongpu.fronts.top.app import Top
from ongpu.fronts.top.dialogs import Page, Sure, Which
from ongpu.fronts.top.lines import bar, graph, thinned
from ongpu.fronts.top.live import Live
from ongpu.hosts import stop
from ongpu.report.layout import width_of

Doing = Callable[[Top, "Pilot[None]"], Awaitable[None]]


def show(seen: Live, do: Doing, size: tuple[int, int] = (80, 24), lang: str = "en") -> Top:
    app = Top(Silent(), seen, lang)

    async def course() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await do(app, pilot)

    asyncio.run(course())
    return app


def screen(app: Top) -> list[str]:
    """What is seen, line by line."""
    lines = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)


def test_all_gpus_processes_and_the_verdict_fit_80_by_24() -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        seen = screen(app)
        assert len(seen) == 24
        assert all(width_of(line) <= 80 for line in seen)
        assert [line[2] for line in seen[2:10]] == list("01234567")
        assert "lost: GPU is lost" in seen[9]
        assert "input-pipeline-bound" in seen[4]
        assert "gpu-busy (certain)" in "\n".join(seen)
        assert seen[-1].startswith("? help")

    show(live(112), do)


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (60, 16), (132, 43), (200, 60), (24, 8)])
def test_any_size(size: tuple[int, int]) -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        assert all(width_of(line) <= size[0] for line in screen(app))
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        await pilot.pause()
        assert "lost: GPU is lost" in screen(app)[9]
        await pilot.resize_terminal(*size)
        await pilot.pause()

    show(live(112), do, size)


def test_keys_of_order_tree_user_language_pause_and_help() -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        rows = app.processes.rows
        assert rows[0][0] == "6:82228"  # most GPU memory first
        await pilot.press("s")
        assert app.by == "cpu"
        assert app.processes.rows[0][0] in ("0:41207", "1:41208")
        await pilot.press("t")
        assert any("pt_data_worker" in part[0] for _, parts in app.processes.rows for part in parts)
        await pilot.press("t", "g")
        assert [key for key, _ in app.processes.rows] == ["0:41207"]
        await pilot.press("g", "slash", *"bob", "enter")
        assert app.user == "bob"
        assert [key for key, _ in app.processes.rows] == ["2:52110"]
        assert "user bob" in screen(app)[0]
        await pilot.press("escape")
        assert app.user is None
        await pilot.press("l")
        assert "块 GPU" in screen(app)[0]
        assert all(width_of(line) <= 80 for line in screen(app))
        await pilot.press("l", "space")
        assert "PAUSED" in screen(app)[0]
        await pilot.press("space", "question_mark")
        assert isinstance(app.screen, Page)
        await pilot.press("escape", "o")
        assert app.gpus_by == "util"
        await pilot.press("d")
        assert app.theme == "textual-light"

    show(live(112), do)


def test_the_whole_of_a_gpu_and_of_a_process() -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("end", "enter")
        await pilot.pause()
        assert any("fallen off the PCI" in line for line in screen(app))
        await pilot.press("escape", "tab", "enter")
        await pilot.pause()
        seen = "\n".join(screen(app))
        assert "82228" in seen
        assert "frank" in seen

    show(live(112), do, (100, 50))


def test_without_colours_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def do(app: Top, pilot: "Pilot[None]") -> None:
        seen = screen(app)
        assert [line[0] if line[0] != " " else "" for line in seen[2:10]] == ["", "", "!", "!", "!", "!", "", "x"]
        styles = {segment.style.color for line in app.screen._compositor.render_strips() for segment in line if segment.style}
        for colour in styles:
            if colour is not None and colour.triplet is not None:
                assert len(set(colour.triplet)) == 1, colour  # grey

    show(live(112), do)


def test_a_light_terminal_is_told_by_colorfgbg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")

    async def do(app: Top, pilot: "Pilot[None]") -> None:
        assert app.theme == "textual-light"

    show(live(0), do)


def test_a_driver_that_goes_and_comes_back() -> None:
    seen = live(150)

    async def do(app: Top, pilot: "Pilot[None]") -> None:
        app.came.append({"k": "bye", "t": seen.clock(), "code": 9, "error": "Driver Not Loaded"})
        app.poll()
        await pilot.pause()
        told = screen(app)
        assert told[0].startswith("NVML does not answer: driver not loaded")
        assert all("no answer: driver not loaded" in line for line in told[2:10])

    show(seen, do)


def test_before_the_first_answer_and_without_any_gpu() -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        assert screen(app)[0].startswith("asking NVML")
        app.came.append({"k": "init", "t": 1.0, "code": 18, "error": "RM has detected an NVML/RM version mismatch."})
        app.poll()
        await pilot.pause()
        assert "driver/library version mismatch" in screen(app)[0]
        assert any("driver-library-mismatch" in line for line in screen(app))

    show(Live(clock=lambda: 1.0), do)


def test_64_gpus_scroll() -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("end")
        await pilot.pause()
        assert app.gpus.key == "63"
        assert any(line[2:4] == "63" for line in screen(app))

    show(live(10, gpus=64, before=10), do)


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def _with(process: "subprocess.Popen[bytes]", start: int | None = None) -> Live:
    """A GPU on which that process is."""
    told = stop.started(process.pid)
    assert told is not None
    seen = Live(clock=lambda: 100.0)
    host = {
        "uid": told[1],
        "user": "me",
        "command": "sleep 60",
        "start": told[0] if start is None else start,
        "state": "S",
        "rss": 1,
        "cpu": 0.0,
    }
    seen.take({"k": "init", "t": 100.0, "code": 0, "error": None, "driver": "1", "cuda": 12000, "count": 1})
    seen.take({"k": "gpu", "i": 0, "uuid": "GPU-1", "name": "A", "bus": "0000:01:00.0"})
    seen.take({"k": "s", "t": 100.0, "n": 0, "g": [[0] * 14]})
    seen.take({"k": "p", "t": 100.0, "g": {"0": [[process.pid, 100, "C", None]]}, "h": {str(process.pid): host}})
    return seen


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd")
@pytest.mark.parametrize(("key", "status"), [("t", -15), ("9", -9)])
def test_a_process_is_ended_after_two_questions(sleeper: "subprocess.Popen[bytes]", key: str, status: int) -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("k")
        assert not isinstance(app.screen, Which)  # no process was chosen yet
        await pilot.press("tab", "k")
        assert isinstance(app.screen, Which)
        await pilot.press("escape", "k", key)
        await pilot.pause()
        assert isinstance(app.screen, Sure)
        seen = "\n".join(screen(app))
        assert str(sleeper.pid) in seen
        assert "sleep 60" in seen
        assert "started" in seen
        await pilot.press("escape")
        await pilot.pause()
        assert sleeper.poll() is None  # the second question was answered with no
        await pilot.press("k", key)
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert sleeper.wait(5) == status

    show(_with(sleeper), do)


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd")
def test_another_process_under_that_number_lives_on(sleeper: "subprocess.Popen[bytes]") -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("tab", "k", "9")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert "another process" in "\n".join(screen(app))

    show(_with(sleeper, start=1), do)
    assert sleeper.poll() is None


def test_that_of_another_user_is_not_asked_about(sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _with(sleeper)
    monkeypatch.setattr(stop, "may", lambda uid: False)

    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("tab", "k")
        assert not isinstance(app.screen, Which)

    show(seen, do)
    assert sleeper.poll() is None


def test_on_the_simulated_node_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    monkeypatch.setattr(stop, "send", lambda *told: sent.append(told))

    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("tab", "k", "9")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert "simulated process" in "\n".join(screen(app))

    show(live(0, before=5), do)
    assert sent == []


def test_the_feed_is_closed_at_the_end() -> None:
    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("q")

    app = show(live(0, before=5), do)
    assert app.ended.wait(2)


def test_bars_and_graphs() -> None:
    assert [bar(share, 4) for share in (None, 0.0, 0.5, 0.63, 1.2)] == ["    ", "····", "██··", "██▌·", "████"]
    assert graph([None, 0.0, 0.5, 1.0], 5, 1) == ["  ▁▄█"]
    assert graph([1.0, 0.5], 2, 2) == ["█ ", "██"]
    assert thinned([1.0, None, None, None, 0.0], 3) == [1.0, None, 0.0]
    assert Text("x").markup == "x"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "second", "lang", "size"), [("top", 112, "en", (100, 32)), ("zh", 112, "zh", (100, 32)), ("hot", 30, "en", (80, 24))]
)
def test_screenshots(name: str, second: int, lang: str, size: tuple[int, int], tmp_path: Path) -> None:
    """That of the documentation: ONGPU_SCREENSHOTS=docs/_static pytest -m slow -k 'screenshots and top-112'."""
    kept = Path(os.environ.get("ONGPU_SCREENSHOTS", tmp_path)) / f"{name}.svg"

    async def do(app: Top, pilot: "Pilot[None]") -> None:
        await pilot.press("down", "down")
        await pilot.pause()
        shot = re.sub(r"@font-face \{[^}]{0,600}\}", "", app.export_screenshot(title="ongpu top"))  # nothing is fetched from elsewhere
        shot = re.sub(r"terminal-\d{1,20}", "terminal", shot.replace("Fira Code", "DejaVu Sans Mono"))  # the same each time
        kept.write_text(shot, "utf-8")

    show(live(second), do, size, lang)
    text = kept.read_text("utf-8")
    assert "<svg" in text
    assert "url(" not in text.replace("url(#", "")
