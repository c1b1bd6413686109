"""What is asked for in words and JSON: what is taken, what is refused, and that nothing else happens."""

import json
import re
import time
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue import asked
from ongpu.queue.asked import checked, from_json, quick, to_json
from ongpu.queue.engines import EngineError
from ongpu.queue.job import Spec

NOON = datetime(2026, 11, 30, 12, 0).timestamp()


def one_line(error: EngineError) -> None:
    assert "\n" not in error.english + error.chinese
    assert len(error.english) < 400
    assert re.search(r"[\u4e00-\u9fff]", error.chinese)


@pytest.mark.parametrize(("engine", "gpus", "retry_on", "times"), [
    ("local", 1, "", asked.RETRIES), ("local", 0, "", 0), ("local", 0, "any", asked.RETRIES), ("slurm", 1, "", 0),
    ("slurm", 1, "any", asked.RETRIES),
])  # fmt: skip
def test_how_often_a_job_is_run_again_where_nobody_said(engine: str, gpus: int, retry_on: str, times: int) -> None:
    assert asked.retries(engine, gpus, retry_on) == times


@pytest.mark.parametrize("script", ["job.sh", "0:job.sh", "0:0123456789abcdef-../x", "0:0123456789abcdef-", "x:0123456789abcdef-a"])
def test_a_scripts_copy_lies_nowhere_else(script: str) -> None:
    with pytest.raises(EngineError) as caught:
        checked(Spec(command=("./job.sh",), script=script))
    one_line(caught.value)
    assert checked(Spec(command=("./job.sh",), script="0:0123456789abcdef-job.sh"))


class TestWords:
    @pytest.mark.parametrize(
        ("text", "mib"),
        [("20GiB", 20480), ("20G", 20480), ("20gb", 20480), ("512MiB", 512), ("1.5T", 1572864), ("100 M", 100), ("1KiB", 1), ("0.5MiB", 1)],
    )
    def test_size(self, text: str, mib: int) -> None:
        assert asked.size(text) == mib

    @pytest.mark.parametrize("text", ["", "20", "0G", "-1G", "G", "1e3G", "20GiBB", "nan", "9999999T", "20 P", "٢G"])
    def test_no_size(self, text: str) -> None:
        with pytest.raises(EngineError, match=r"--memory .*: write 20GiB") as caught:
            asked.size(text)
        one_line(caught.value)

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("90s", 90), ("15m", 900), ("15 min", 900), ("4h", 14400), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172800), ("1w", 604800),
         ("1:30:00", 5400), ("1-02", 93600), ("1-02:30", 95400), ("1-02:00:00", 93600), ("100:00:00", 360000), (" 0:00:01 ", 1)],
    )  # fmt: skip
    def test_duration(self, text: str, seconds: float) -> None:
        assert asked.duration(text) == seconds

    @pytest.mark.parametrize(
        "text", ["", "90", "4:00", "1:60:00", "1-24:00:00", "0s", "-5s", "1y", "h", "nan", "inf", "99999999d", "1-02:00:60"]
    )
    def test_no_duration(self, text: str) -> None:
        with pytest.raises(EngineError, match="--time") as caught:
            asked.duration(text)
        one_line(caught.value)

    @pytest.mark.parametrize(
        ("text", "later"),
        [("+2h", 7200), ("now+90s", 90), ("18:30", 6.5 * 3600), ("9:00", 21 * 3600), ("2026-12-01", 12 * 3600), ("2026-11-30T13:00", 3600),
         ("2026-11-30 13:00:05", 3605)],
    )  # fmt: skip
    def test_moment(self, text: str, later: float) -> None:
        assert asked.moment(text, NOON) == NOON + later

    def test_a_moment_with_an_offset(self) -> None:
        assert asked.moment("2026-12-01T08:00+08:00", NOON) == 1796083200.0

    @pytest.mark.parametrize("text", ["", "tomorrow", "25:00", "2026-13-01", "+", "+90", "12", "2026-12-01T", "-1:00"])
    def test_no_moment(self, text: str) -> None:
        with pytest.raises(EngineError, match="--begin"):
            asked.moment(text, NOON)

    @pytest.mark.parametrize(
        ("text", "indices", "at_once"),
        [("0-3", (0, 1, 2, 3), None), ("0-99%8", tuple(range(100)), 8), ("5,1,3", (1, 3, 5), None), ("0-90:30", (0, 30, 60, 90), None),
         ("7", (7,), None), ("1-2,2-3%1", (1, 2, 3), 1)],
    )  # fmt: skip
    def test_array(self, text: str, indices: tuple[int, ...], at_once: int | None) -> None:
        assert asked.array(text) == (indices, at_once)

    @pytest.mark.parametrize(
        "text", ["", "3-1", "0-3%", "0-3%0", "a", "0-9:0", "-1", "1,,2", "0-999999999", "0-99999,100000-199999", "0%1%2"]
    )
    def test_no_array(self, text: str) -> None:
        begun = time.perf_counter()
        with pytest.raises(EngineError, match="--array") as caught:
            asked.array(text)
        one_line(caught.value)
        assert time.perf_counter() - begun < 1

    def test_after(self) -> None:
        assert asked.after("12") == (("ok", "12"),)
        assert asked.after("any:12,13") == (("any", "12"), ("any", "13"))
        assert asked.after("afterok:12:13,afterany:14_2") == (("ok", "12"), ("ok", "13"), ("any", "14_2"))
        assert asked.after("ok:12,any:12,any:12") == (("ok", "12"), ("any", "12"))
        for text in ("", "ok:", "never:1 2", "12;rm", "1" * 200, ",".join(map(str, range(5000)))):
            with pytest.raises(EngineError, match="--after"):
                asked.after(text)

    def test_capability_and_signal(self) -> None:
        assert [asked.capability(text) for text in ("8.0", "sm_80", "12.1", "90")] == [(8, 0), (8, 0), (12, 1), (9, 0)]
        assert [asked.signal_name(text) for text in ("USR1", "sigusr1", "10", "SIGTERM")] == ["SIGUSR1", "SIGUSR1", "SIGUSR1", "SIGTERM"]
        for text in ("", "8", "a.b", "8.0.0"):
            with pytest.raises(EngineError):
                asked.capability(text)
        for text in ("", "KILL", "SIGSTOP", "9", "999", "USR9", "²"):
            with pytest.raises(EngineError):
                asked.signal_name(text)

    @given(
        st.sampled_from((asked.size, asked.duration, asked.array, asked.after, asked.capability, asked.signal_name)), st.text(max_size=60)
    )
    def test_any_text_is_taken_or_refused(self, parse: Any, text: str) -> None:
        try:
            parse(text)
        except EngineError as error:
            one_line(error)

    @given(st.text(max_size=40) | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d.{0,9}", fullmatch=True))
    def test_any_text_is_a_moment_or_refused(self, text: str) -> None:
        try:
            asked.moment(text, NOON)
        except EngineError as error:
            one_line(error)


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=9)
good = st.builds(
    Spec,
    command=st.lists(words, min_size=1, max_size=3).map(tuple),
    gpus=st.integers(0, 64),
    memory=st.none() | st.integers(1, 99999),
    capability=st.none() | st.tuples(st.integers(0, 20), st.integers(0, 9)),
    limit=st.none() | st.floats(1, 1e6),
    environ=st.dictionaries(st.from_regex(r"[A-Z]{1,5}", fullmatch=True), st.sampled_from(("", "é", "\udcff", "a\nb"))),
    after=st.lists(st.tuples(st.sampled_from(("ok", "any")), st.from_regex(r"[1-9][0-9]{0,5}", fullmatch=True)), max_size=3).map(tuple),
    index=st.none() | st.integers(0, 999),
    priority=st.integers(-10, 10),
    idle_stop=st.booleans(),
    name=st.sampled_from(("", "训练", "a b")),
)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(("\0", "\ud800", "a\nb", 10**30)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


class TestJson:
    @given(good)
    def test_there_and_back(self, spec: Spec) -> None:
        text = json.dumps(to_json(spec))
        assert from_json(json.loads(text)) == spec
        assert quick(json.loads(text)) == spec

    def test_what_was_not_asked_is_not_written(self) -> None:
        assert to_json(Spec(command=("a",))) == {"command": ("a",)}

    @given(st.dictionaries(st.sampled_from([*to_json.__globals__["_FIELDS"], "other"]), anything, max_size=4), st.booleans())
    def test_anything_is_taken_or_refused(self, data: dict[str, Any], with_command: bool) -> None:
        try:
            spec = from_json({"command": ["x"], **data} if with_command else data)
        except EngineError as error:
            one_line(error)
        else:
            assert from_json(json.loads(json.dumps(to_json(spec)))) == spec

    @pytest.mark.parametrize(
        "data", [None, [], "x", 5, {"command": "python"}, {"command": []}, {"command": [""]}, {"command": ["a", 5]}, {"x": 1}]
    )
    def test_what_is_no_job(self, data: Any) -> None:
        with pytest.raises(EngineError) as caught:
            from_json(data)
        one_line(caught.value)

    @pytest.mark.parametrize(
        "wrong",
        [
            *({"gpus": one} for one in (-1, 1.5, True, 99999)),
            *({"environ": one} for one in ({"A=B": "x"}, {"A": "\0"}, {"A": "\ud800"}, {"": "x"}, [("A", "b")])),
            *({"after": one} for one in ((("ok",),), (("late", "1"),), (("ok", "1 2"),), (("ok", "1"),) * 2000)),
            {"memory": 0}, {"limit": float("nan")}, {"limit": 0}, {"priority": 11}, {"share": 1}, {"share": True},
            {"share": True, "memory": 5, "gpus": 2}, {"retry_on": "all"}, {"folder": "relative"}, {"name": "a\nb"}, {"command": ("a\0b",)},
            {"command": ("x" * 200_000,)}, {"environ": {f"A{n}": "x" * 100_000 for n in range(30)}}, {"saved": "*.pt"},
            {"checkpoint": "USR1"}, {"capability": (8,)}, {"capability": (8, "0")}, {"index": -1}, {"begin": -1.0}, {"notify": 5},
            {"output": "x" * 5000},
        ],
        ids=lambda wrong: str(wrong)[:40],
    )  # fmt: skip
    def test_what_cannot_be(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(EngineError) as caught:
            checked(Spec(**{"command": ("x",), **wrong}))
        one_line(caught.value)
