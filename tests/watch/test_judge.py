"""The judge on the simulated node and on states that the sampling child's lines make: each GPU on its own, nothing guessed."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from ongpu.facts.sample import COLUMNS
from ongpu.hosts.sampling.demo import messages
from ongpu.model import Evidence, Severity
from ongpu.watch import evidence
from ongpu.watch.alerts import ALERTS
from ongpu.watch.incidents import Answers
from ongpu.watch.judge import AGAIN, EVERY, RECENT, Judge, live_rules
from ongpu.watch.state import State

T = 1_764_500_000.0
Message = dict[str, Any]
INSIDE = Evidence("machine-state", '{"name": "container", "value": "docker", "from": "/.dockerenv"}', "this machine")


class Node:
    """A state and its judge, fed with lines; the clock goes on as told."""

    def __init__(self, gpus: int = 4) -> None:
        self.state, self.judge, self.now = State(), Judge(), T
        self.answers = Answers({}, frozenset())
        self.rows: list[Any] = [self.row() for _ in range(gpus)]
        self.tell({"k": "init", "t": T, "code": 0, "error": None, "driver": "535.183.01", "cuda": 12020, "count": gpus})
        for i in range(gpus):
            self.identity(i)
        self.sample()
        self.tell({"k": "p", "t": self.now, "g": {str(i): [] for i in range(gpus)}, "h": {}})

    @staticmethod
    def row(**changes: int | None) -> list[int | None]:
        values: dict[str, int | None] = {
            "util": 97, "mem_util": 40, "mem_used": 4, "temp": 60, "power": 300_000, "sm_clock": 1410, "mem_clock": 1593, "reasons": 0,
            "energy": 1_000_000, "fan": None, "pcie_tx": None, "pcie_rx": None, "ecc": 0, "replays": 0,
        }  # fmt: skip
        return [{**values, **changes}[name] for name in COLUMNS]

    def identity(self, index: int, **changes: Any) -> None:
        told = {
            "mem_total": 81920, "power_limit": 400_000, "power_default": 400_000, "temp_limit": 89, "sm_clock_max": 1410, "pcie_gen": 4,
            "pcie_gen_max": 4, "pcie_width": 16, "pcie_width_max": 16, "remap_pending": False, "remap_failed": False,
        }  # fmt: skip
        bus = f"0000:{0x1a + index:02x}:00.0"
        self.tell({"k": "gpu", "i": index, "uuid": f"GPU-{index}", "name": "NVIDIA A100-SXM4-80GB", "bus": bus, **told, **changes})

    def tell(self, *lines: Message) -> Answers:
        for line in lines:
            self.judge.hear(self.state.take(line, self.now), self.state, self.now)
        return self.look()

    def look(self) -> Answers:
        if (told := self.judge.answers(self.state, self.now, self.now)) is not None:
            self.answers = told
        return self.answers

    def sample(self, seconds: float = 1.0) -> Answers:
        self.now += seconds
        return self.tell({"k": "s", "t": self.now, "n": self.state.samples, "g": self.rows})

    def log(self, text: str) -> Answers:
        return self.tell({"k": "log", "t": self.now, "text": text})

    def slugs(self) -> set[tuple[str, str]]:
        return set(self.answers.found)


def story(seconds: float, gpus: int = 8) -> Iterable[tuple[float, Answers]]:
    """The simulated node's story: (second, what is found then), where it was judged."""
    state, judge, start = State(), Judge(), 0.0
    for message in messages(gpus=gpus, seconds=seconds):
        now = message.get("t") or state.clock or 0.0
        start = start or now
        judge.hear(state.take(message, now), state, now)
        if (told := judge.answers(state, now, now)) is not None:
            yield now - start, told


def test_the_story_of_the_simulated_node_is_told_fault_by_fault() -> None:
    first: dict[tuple[str, int | None], float] = {}
    for second, answers in story(180):
        for seen in answers.found.values():
            first.setdefault((seen.slug, seen.gpu), second)
    expected = {
        ("thermal-throttle", 1): (20, 26), ("power-throttle", 6): (55, 61), ("ecc-uncorrectable", 7): (92, 93),
        ("gpu-fell-off-bus", 7): (106, 107), ("driver-hung", 6): (125, 126), ("driver-module-not-loaded", None): (152, 153),
    }  # fmt: skip
    for key, (low, high) in expected.items():
        assert low <= first[key] <= high, (key, first[key])
    assert {slug for slug, _ in first} <= {slug for slug, _ in expected} | {"row-remap-failure"}


def test_a_healthy_node_has_no_findings_and_every_hardware_rule_has_judged_it() -> None:
    node = Node()
    assert node.answers.found == {}
    for slug in ("gpu-fell-off-bus", "thermal-throttle", "ecc-uncorrectable", "row-remap-failure", "zombie-holds-memory"):
        assert {(slug, f"GPU-{i}") for i in range(4)} <= node.answers.clear


@pytest.mark.parametrize(("code", "slug"), [(15, "gpu-fell-off-bus"), (999, "gpu-fell-off-bus")])
def test_each_lost_gpu_is_a_fault_of_its_own(code: int, slug: str) -> None:
    node = Node()
    node.rows[1] = node.rows[3] = code
    assert {(slug, "GPU-1"), (slug, "GPU-3")} == {key for key in node.sample().found if key[0] == slug}
    seen = node.answers.found[slug, "GPU-3"]
    assert (seen.gpu, seen.severity) == (3, Severity.ERROR)
    assert seen.diagnosis().commands
    assert seen.diagnosis().words["zh"]["title"]


@pytest.mark.parametrize("code", [3, 4, 6, 8, 10, 11, 13, 14, 15, 16, 17, 20, 999])
def test_a_gpu_that_answers_with_any_error_is_never_clear(code: int) -> None:
    node = Node()
    node.rows[2] = code
    node.sample()
    assert not {key for key in node.answers.clear if key[1] == "GPU-2"}
    assert {(slug, "GPU-2") for slug in ALERTS} & set(node.answers.found) or code in (3, 4), "no rule speaks"


def test_what_a_lost_gpu_had_before_is_unknown_and_not_over() -> None:
    node = Node()
    node.rows[0] = node.row(temp=91, reasons=0x40)
    node.sample()
    assert ("thermal-throttle", "GPU-0") in node.slugs()
    node.rows[0] = 15
    node.sample()
    assert ("thermal-throttle", "GPU-0") not in node.answers.clear
    node.rows[0] = node.row()
    node.sample()
    assert ("thermal-throttle", "GPU-0") in node.answers.clear


def test_heat_by_the_cards_own_limit_within_one_look() -> None:
    node = Node()
    node.rows[2] = node.row(temp=88)
    assert node.sample(AGAIN).found == {}
    node.rows[2] = node.row(temp=89)
    assert set(node.sample(AGAIN).found) == {("thermal-throttle", "GPU-2")}


def test_a_margin_moves_with_the_temperature() -> None:
    """The doctor's line tells the degrees left once a minute; the samples tell the temperature."""
    node = Node(1)
    node.tell({"k": "full", "t": node.now, "text": json.dumps({"gpu": 0, "uuid": "GPU-0", "temperature": 60, "margin": 27})})
    node.identity(0, temp_limit=None)
    node.rows[0] = node.row(temp=86)
    node.sample(EVERY)
    assert node.slugs() == set()
    node.rows[0] = node.row(temp=87)
    node.sample(EVERY)
    assert node.slugs() == {("thermal-throttle", "GPU-0")}


def test_an_xid_79_is_news_for_two_minutes_and_holds_while_the_gpu_is_lost() -> None:
    node = Node()
    node.log("NVRM: Xid (PCI:0000:1c:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    assert node.slugs() == {("gpu-fell-off-bus", "GPU-2")}
    node.sample(RECENT + EVERY + 1)
    assert node.slugs() == set()  # it answers all the time
    node.log("NVRM: Xid (PCI:0000:1c:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    node.rows[2] = 15
    for _ in range(20):
        node.sample(EVERY)
    assert node.slugs() == {("gpu-fell-off-bus", "GPU-2")}
    quotes = [ref["quote"] for ref in node.answers.found["gpu-fell-off-bus", "GPU-2"].diagnosis().refs]
    assert any("Xid" in quote for quote in quotes)


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 69])
def test_a_programs_own_xid_condemns_no_gpu(code: int) -> None:
    node = Node()
    node.log(f"NVRM: Xid (PCI:0000:1a:00): {code}, pid=4242, name=python, Ch 00000008, errorString CTX SWITCH TIMEOUT")
    node.tell({"k": "xid", "t": node.now, "i": 0, "code": code})
    assert node.answers.found == {}


def test_an_xid_that_only_nvml_told_is_judged_too() -> None:
    node = Node()
    node.tell({"k": "xid", "t": node.now, "i": 1, "code": 48})
    assert node.slugs() == {("ecc-uncorrectable", "GPU-1")}


def test_memory_of_processes_that_were_not_listed_yet_is_no_zombies() -> None:
    node = Node(2)
    node.rows[0] = node.row(util=0, mem_used=40_000)
    node.sample(EVERY)
    assert ("zombie-holds-memory", "GPU-0") in node.slugs()  # the list came, and is empty
    late = Node(2)
    late.judge._listed.clear()
    late.rows[0] = late.row(util=0, mem_used=40_000)
    late.sample(EVERY)
    assert late.slugs() == set()


def test_processes_that_may_not_be_listed_are_no_zombies_and_no_health() -> None:
    node = Node(1)
    node.tell({"k": "why", "i": 0, "codes": {"processes": 4}})
    node.tell({"k": "p", "t": node.now, "g": {}, "h": {}})
    node.rows[0] = node.row(util=0, mem_used=40_000)
    node.sample(EVERY)
    assert node.slugs() == set()
    assert ("zombie-holds-memory", "GPU-0") not in node.answers.clear


def test_what_is_not_told_is_not_clear() -> None:
    node = Node(1)
    node.tell({"k": "why", "i": 0, "codes": {"ecc": 3}})
    node.rows[0] = node.row(ecc=None)
    node.sample(EVERY)
    assert ("ecc-uncorrectable", "GPU-0") not in node.answers.clear
    assert ("thermal-throttle", "GPU-0") in node.answers.clear


@pytest.mark.parametrize(
    ("code", "words", "slug"),
    [
        (9, "Driver Not Loaded", "driver-module-not-loaded"),
        (18, "RM has detected an NVML/RM version mismatch.", "driver-library-mismatch"),
    ],
)
def test_a_driver_that_goes_is_one_fault_of_the_machine_and_its_gpus_are_unknown(code: int, words: str, slug: str) -> None:
    node = Node()
    node.tell({"k": "bye", "t": node.now, "code": code, "error": words})
    assert node.slugs() == {(slug, "")}
    assert not {key for key in node.answers.clear if key[1]}
    node.tell({"k": "init", "t": node.now, "code": 0, "error": None, "driver": "535.183.01", "cuda": 12020, "count": 4})
    node.sample()
    assert node.slugs() == set()
    assert (slug, "") in node.answers.clear


@pytest.mark.parametrize("code", [1, 2, 3, 4, 6, 8, 9, 10, 12, 13, 14, 15, 18, 20, 999])
def test_no_code_of_a_driver_that_does_not_start_is_told_as_healthy(code: int) -> None:
    node = Node()
    node.tell({"k": "bye", "t": node.now, "code": code, "error": evidence.WORDS[code]})
    assert node.answers.found
    assert not {key for key in node.answers.clear if key[1]}


def test_a_hung_gpu_is_told_of_that_gpu() -> None:
    node = Node()
    node.rows[3] = None
    node.tell({"k": "hung", "t": node.now, "i": 3, "call": "nvmlDeviceGetTemperature", "for": 2.0})
    node.sample()
    assert node.slugs() == {("driver-hung", "GPU-3")}
    assert "GPU 3" in node.answers.found["driver-hung", "GPU-3"].diagnosis().words["en"]["title"]


def test_silence_of_the_child_makes_all_unknown() -> None:
    node = Node()
    for _ in range(10):
        node.now += 1
        node.judge.hear(node.state.tick(node.now), node.state, node.now)
        node.look()
    assert not node.state.up
    assert node.answers.found == {}
    assert not {key for key in node.answers.clear if key[1]}


def test_a_gpu_that_changes_its_index_keeps_its_incident() -> None:
    node = Node(2)
    node.rows[1] = node.row(temp=95)
    assert ("thermal-throttle", "GPU-1") in node.sample(AGAIN).found
    node.tell({"k": "init", "t": node.now, "code": 0, "error": None, "driver": "1", "cuda": 12020, "count": 1})
    node.tell({"k": "gpu", "i": 0, "uuid": "GPU-1", "name": "NVIDIA A100-SXM4-80GB", "bus": "0000:1b:00.0", "temp_limit": 89})
    node.rows = [node.row(temp=95)]
    node.sample(AGAIN)
    assert node.answers.found["thermal-throttle", "GPU-1"].gpu == 0
    assert ("gpu-fell-off-bus", "GPU-0") in node.slugs()  # the driver no longer counts it


@pytest.mark.parametrize(("expected", "told"), [(None, False), (2, False), (4, False), (5, True), (8, True)])
def test_fewer_gpus_than_the_configuration_says(expected: int | None, told: bool) -> None:
    node = Node(4)
    node.judge.expected = expected
    node.sample(EVERY)
    assert (("gpu-not-on-bus", "") in node.slugs()) == told
    if told:
        assert str(expected) in node.answers.found["gpu-not-on-bus", ""].diagnosis().words["en"]["title"]
    else:
        assert ("gpu-not-on-bus", "") in node.answers.clear


@pytest.mark.parametrize("shown", [0, 1, 4])
def test_in_a_container_too_the_operators_own_count_holds(shown: int) -> None:
    node = Node(shown)
    node.judge.machine = lambda: [INSIDE]
    node.sample(EVERY)
    assert ("gpu-not-on-bus", "") not in node.slugs()
    node.judge.expected = 8
    node.sample(EVERY)
    assert {slug for slug, _ in node.slugs()} & {"gpu-not-on-bus", "no-nvidia-gpu"}


def test_a_count_in_prose_says_nothing_inside_a_container() -> None:
    node = Node(4)
    prose = Evidence("pasted", "this machine has 8 GPUs; the driver shows only 4 GPUs", "notes.txt", readers=("gpu-counts",))
    node.judge.machine = lambda: [prose]
    node.sample(EVERY)
    assert "gpu-not-on-bus" in {slug for slug, _ in node.slugs()}
    node.judge.machine = lambda: [prose, INSIDE]
    node.sample(EVERY)
    assert "gpu-not-on-bus" not in {slug for slug, _ in node.slugs()}


def test_one_call_that_fails_beside_others_that_answer_is_no_lost_gpu() -> None:
    node = Node()
    node.rows[1] = node.row(power=None)
    node.tell({"k": "why", "t": node.now, "i": 1, "codes": {"power": 999}})
    node.sample(EVERY)
    assert node.state.gpus[1].why == {"power": 999}
    assert "gpu-fell-off-bus" not in {slug for slug, _ in node.slugs()}


def test_no_xid_is_claimed_where_none_was_seen() -> None:
    node = Node()
    node.rows[3] = 15
    node.sample()
    seen = node.answers.found["gpu-fell-off-bus", "GPU-3"]
    assert seen.variant == "lost"
    assert not [text["title"] for text in seen.diagnosis().words.values() if "Xid" in text["title"]]
    node.log("NVRM: Xid (PCI:0000:1d:00): 79, pid=1, name=python, GPU has fallen off the bus.")
    assert "(Xid 79)" in node.answers.found["gpu-fell-off-bus", "GPU-3"].diagnosis().words["en"]["title"]


def test_a_gpu_that_the_driver_stopped_counting_is_told_once() -> None:
    node = Node(4)
    node.judge.expected = 4
    node.tell({"k": "init", "t": node.now, "code": 0, "error": None, "driver": "1", "cuda": 12020, "count": 3})
    node.rows = node.rows[:3]
    node.sample(EVERY)
    assert node.slugs() == {("gpu-fell-off-bus", "GPU-3")}


def test_hostile_lines_crash_nothing() -> None:
    node = Node(1)
    for text in ("NVRM: Xid (PCI:0000:1a:00): " + "9" * 4000, "\x00" * 500, "Xid" * 3000, "NVRM: Xid (PCI:" + ":" * 900, "{" * 900):
        node.log(text)
    node.tell({"k": "full", "t": T, "text": '{"gpu": 0, "uuid": "GPU-0", "remapped": "x", "pci": 3, "processes": 7, "margin": "y"}\n{"gpu'})
    node.sample(EVERY)
    assert node.judge.crashed == {}


def test_live_rules_are_those_of_the_table_and_those_over_trends_and_no_other_module_is_loaded() -> None:
    slugs = {rule.slug for rule in live_rules()}
    assert set(ALERTS) <= slugs
    assert {"gpu-held-idle", "host-bound"} <= slugs
    assert not slugs & {"torch-compile-recompiles", "healthy", "cuda-unavailable"}


def test_words_of_the_return_codes_are_those_of_the_bindings() -> None:
    import pynvml

    assert {code: words for code, words in pynvml.NVMLError._errcode_to_string.items() if code not in (5,)} == evidence.WORDS
