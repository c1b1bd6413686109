"""The simulated node: the same for the same seed, every fault in one round, lines as facts/sample.py has them."""

import json
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.engine import diagnose
from ongpu.facts.sample import COLUMNS, HOST, IDENTITY, PLACE
from ongpu.hosts.sampling.demo import BRAKE, BUSES, HOT, HUNG, JOBS, LOST, ROUND, Message, messages, within
from ongpu.model import Evidence
from ongpu.sources import kernel_log, nvml

AT = 1_764_500_000.0


def of(found: list[Message], kind: str) -> list[Message]:
    return [message for message in found if message["k"] == kind]


@pytest.fixture(scope="module")
def whole() -> list[Message]:
    return list(messages())


def test_the_same_seed_tells_the_same(whole: list[Message]) -> None:
    assert whole == list(messages())
    assert whole != list(messages(seed=8))
    assert json.loads(json.dumps(whole)) == whole


@given(st.integers(0, 99), st.integers(1, 20), st.floats(0, 200), st.floats(0, 20), st.sampled_from([0.1, 1.0, 5.0]))
@settings(max_examples=30, deadline=None)
def test_every_line_has_the_form_of_facts_sample(seed: int, gpus: int, start: float, speed: float, interval: float) -> None:
    for message in messages(seed, 12, gpus, speed, start=start, interval=interval, processes=40):
        if message["k"] == "s":
            assert len(message["g"]) == gpus
            for row in message["g"]:
                assert row is None or row == 15 or len(row) == len(COLUMNS)
                if isinstance(row, list):
                    assert all(value is None or type(value) is int for value in row)
                    assert 0 <= row[PLACE["util"]] <= 100
        elif message["k"] == "gpu":
            assert set(IDENTITY) <= set(message)
        elif message["k"] == "p":
            pids = {row[0] for rows in message["g"].values() for row in rows}
            assert pids == {int(pid) for pid in message["h"]}
            assert all(set(HOST) == set(host) for host in message["h"].values())


def test_counters_never_go_back(whole: list[Message]) -> None:
    energy: dict[int, int] = {}
    for message in of(whole, "s"):
        for index, row in enumerate(message["g"]):
            if isinstance(row, list):
                assert row[PLACE["energy"]] >= energy.get(index, 0)
                energy[index] = row[PLACE["energy"]]
    cpu: dict[str, float] = {}
    for message in of(whole, "p"):
        for pid, host in message["h"].items():
            assert host["cpu"] >= cpu.get(pid, 0)
            cpu[pid] = host["cpu"]


def test_all_faults_are_told(whole: list[Message]) -> None:
    at = {message["t"] - AT: message["g"] for message in of(whole, "s")}
    assert all((rows[7] == 15) == within(t, LOST) for t, rows in at.items())
    assert all((rows[6] is None) == within(t, HUNG) for t, rows in at.items())
    assert at[30][1][PLACE["reasons"]] & 0x40
    assert at[30][1][PLACE["temp"]] > 87
    assert at[60][6][PLACE["reasons"]] & 0x80
    assert at[100][7][PLACE["ecc"]] == 2
    assert [(m["t"] - AT, m["code"]) for m in of(whole, "bye")] == [(152, 9)]
    assert not [t for t in at if within(t, (152, 164))]
    assert [(m["i"], m["code"]) for m in of(whole, "xid")] == [(6, 31), (7, 94), (7, 63)]
    assert sum("Xid" in m["text"] for m in of(whole, "log")) == 4
    pids = [{row[0] for row in m["g"].get("6", [])} for m in of(whole, "p")]
    assert set() in pids
    assert len(set.union(*pids)) == 3  # the program died, was started again, and again after the driver


def found(text: str, log: str = "") -> set[tuple[str, str]]:
    evidence = [Evidence("nvml", text, "NVML"), Evidence("pasted", log, "dmesg", readers=("kernel-log",))]
    report = diagnose(evidence[: 2 if log else 1], "node", sources=(*nvml.SOURCES, *kernel_log.SOURCES))
    return {(finding.slug, finding.subject.split(" (")[0]) for finding in report.findings}


def test_the_doctors_rules_speak_of_its_evidence(whole: list[Message]) -> None:
    texts = {message["t"] - AT: message["text"] for message in of(whole, "full")}
    log = "\n".join(message["text"] for message in of(whole, "log"))
    assert found(texts[0]) == set()
    assert found(texts[HOT[0]]) == {("thermal-throttle", "GPU 1")}
    assert found(texts[BRAKE[0]]) == {("power-throttle", "GPU 6")}
    assert {"ecc-uncorrectable", "gpu-fell-off-bus"} == {slug for slug, _ in found(texts[LOST[0]], log)}
    assert "gpu-fell-off-bus" in {slug for slug, _ in found(texts[LOST[0]])}


def test_before_the_story_all_is_calm() -> None:
    rows = [message["g"] for message in messages(seconds=60, start=-60) if message["k"] == "s"]
    assert len(rows) == 60
    assert all(isinstance(row, list) for row in rows[-1])
    kinds = Counter(message["k"] for message in messages(seconds=60, start=-60))
    assert not kinds.keys() & {"xid", "hung", "bye"}


def test_many_gpus_and_processes() -> None:
    told = list(messages(seconds=1, gpus=64, processes=1000))
    identities = of(told, "gpu")
    assert len({one["uuid"] for one in identities}) == len({one["bus"] for one in identities}) == 64
    assert sum(len(rows) for rows in of(told, "p")[0]["g"].values()) >= 880  # 7 of the 64 are free
    assert len(JOBS) == len(BUSES) == 8


def _start(**options: Any) -> "subprocess.Popen[str]":
    program = "import json, sys; from ongpu.hosts.sampling.demo import main; main(**json.loads(sys.argv[1]))"
    return subprocess.Popen([sys.executable, "-c", program, json.dumps(options)], stdout=subprocess.PIPE, text=True)


def test_the_child_keeps_time_goes_on_where_it_was_and_ends_with_its_reader() -> None:
    with _start(gpus=2, interval=0.1, since=time.time() - ROUND - 155) as child:
        assert child.stdout is not None
        first = json.loads(child.stdout.readline())
        assert (first["k"], first["code"]) == ("init", 9)  # in that second of its story no driver is loaded
        child.kill()
    with _start(gpus=2, interval=0.1) as child:
        assert child.stdout is not None
        times = []
        for line in child.stdout:
            message = json.loads(line)
            if message["k"] == "s":
                times.append(message["t"])
                assert message["t"] <= time.time() + 0.05
            if len(times) == 3:
                break
        assert [round(b - a, 2) for a, b in pairwise(times)] == [0.1, 0.1]
        child.stdout.close()
        assert child.wait(10) == 0
