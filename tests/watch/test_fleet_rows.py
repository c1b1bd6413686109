"""One row a node, from Prometheus' answers and from what machines print."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.facts.fleet import Fleet
from ongpu.fronts.cli import run
from ongpu.hosts.remote import OURS, Answer, read
from ongpu.model import Evidence
from ongpu.report import as_fleet, as_json
from ongpu.report.layout import width_of
from ongpu.sources.fleet import SOURCES
from ongpu.watch import fleet
from ongpu.watch.fleet import QUESTIONS, Vector, from_answer, host_file, hosts, nodes, only
from rules.system.test_same_fault_on_many_nodes import judged

SMI = """\
$ nvidia-smi -q
==============NVSMI LOG==============
Driver Version                            : 535.183.01
CUDA Version                              : 12.2
Attached GPUs                             : 2
GPU 00000000:1A:00.0
    Product Name                          : NVIDIA A100 80GB PCIe
    GPU UUID                              : GPU-fa4e0000-0000-4000-8000-000000000000
    Temperature
        GPU Current Temp                  : 41 C
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA A100 80GB PCIe
    GPU UUID                              : GPU-fa4e0000-0000-4000-8000-000000000001
    Temperature
        GPU Current Temp                  : 45 C
$ lspci -nn -d 10de:
1a:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 80GB] [10de:20b5] (rev a1)
$ dmesg --color=never
[ 4242.123456] NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.
$ uname -r
5.15.0-113-generic
"""


def test_hosts_are_expanded() -> None:
    assert [h.name for h in hosts(["gpu[08-11].lab", "ada@login"])] == ["gpu08.lab", "gpu09.lab", "gpu10.lab", "gpu11.lab", "ada@login"]
    assert hosts(["node7=8"])[0].expected == 8
    assert hosts(host_file("# ours\nnode1 8\nnode2   # new\n\n"))[1].expected is None


@pytest.mark.parametrize("word", ["-oProxyCommand=x", "a b", "a;b", "$(x)", "node=many", "n[1-99999]", "`x`", ""])
def test_what_is_no_host_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        hosts([word])


def test_ssh_failures_are_told_apart_from_answers() -> None:
    assert read("a", "ssh: connect to host a port 22: Connection refused\n", "exit status 255").problem.endswith("Connection refused")
    assert read("a", "", "timed out after 10 s").problem == "timed out after 10 s"
    assert read("a", f"Welcome!\n{OURS}\n{{}}", "exit status 1") == Answer("a", "{}", ours=True)
    assert not read("a", SMI, None).ours


def test_a_machine_without_ongpu_is_judged_by_what_it_printed() -> None:
    row = from_answer(Answer("node1", SMI), "en")
    assert row["answered"]
    assert row["driver"] == "535.183.01"
    assert row["model"] == "NVIDIA A100 80GB PCIe"
    assert "gpu-fell-off-bus" in [fault["slug"] for fault in row["faults"]]


def test_an_answer_that_is_none_is_no_answer() -> None:
    for text in ("", "{", "[1]", '{"findings": 3, "facts": 4}', "null"):
        assert from_answer(Answer("node1", text, ours=True), "en")["answered"] is False


def vectors(**rows: Vector) -> dict[str, Vector]:
    return {name: rows.get(name, []) for name in QUESTIONS}


def test_a_node_that_is_not_scraped_did_not_answer() -> None:
    a, b = {"instance": "a:9817"}, {"instance": "b:9817"}
    rows = nodes(
        vectors(
            known=[(a, 1.0), (b, 1.0)], scraped=[(a, 1.0), (b, 0.0)], up=[(a, 1.0)], ok=[(a, 7.0), (b, 8.0)], expected=[(a, 8.0), (b, 8.0)],
            bad=[({**a, "gpu": "3", "state": "lost"}, 1.0)],
            finding=[({**a, "slug": "gpu-fell-off-bus", "gpu": "3", "severity": "error"}, 1.0)],
        ),
        lambda slug: slug, {},
    )  # fmt: skip
    assert [(r["name"], r["answered"]) for r in rows] == [("a", True), ("b", False)]
    assert (rows[0]["present"], rows[0]["expected"], rows[0]["lost"]) == (7, 8, [3])
    assert "present" not in rows[1]


def test_of_those_that_prometheus_knows_only_the_named_are_told() -> None:
    rows = [{"name": name, "answered": True} for name in ("gpu1.lab", "gpu2.lab", "gpu3", "10.0.0.7")]
    wanted = hosts(["gpu2", "ada@gpu3=8", "gpu2.lab", "10.0.0.7", "10", "gpu9=4"])
    assert only(rows, wanted) == [
        {"name": "gpu2.lab", "answered": True}, {"name": "gpu3", "answered": True, "expected": 8}, {"name": "10.0.0.7", "answered": True},
        {"name": "10", "expected": None, "answered": False, "problem": "Prometheus does not know it"},
        {"name": "gpu9", "expected": 4, "answered": False, "problem": "Prometheus does not know it"},
    ]  # fmt: skip


def test_prometheus_is_asked_for_them_by_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    known = [({"instance": f"gpu{n}:9400"}, 1.0) for n in (1, 2, 3)]
    answers = vectors(known=known, scraped=known, up=known, ok=known)
    monkeypatch.setattr(fleet.prometheus, "query", lambda url, question, *_: answers[_NAMES[question]])
    assert run(["fleet", "gpu2", "--prometheus", "http://p:9090", "--format", "json", "--lang", "en"]) == 0
    told = capsys.readouterr().out
    assert "gpu2" in told
    assert "gpu1" not in told
    assert "gpu3" not in told


_NAMES = {question: name for name, question in QUESTIONS.items()}


def test_a_node_whose_nvml_is_down_says_why() -> None:
    a = {"instance": "a:9817"}
    down = [({**a, "reason": "Driver Not Loaded", "code": "9"}, 1.0)]
    (row,) = nodes(vectors(known=[(a, 1.0)], up=[(a, 0.0)], down=down), lambda slug: slug, {})
    assert row["present"] == 0
    assert row["faults"][0]["title"] == "Driver Not Loaded"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["name", "answered", "present", "lost", "faults"]), VALUES))


@given(st.text(max_size=400) | ROWS.map(lambda rows: "\n".join(map(json.dumps, rows))))
def test_any_text_is_read(text: str) -> None:
    (fact,) = SOURCES[0].read(Evidence("fleet", text, "x"))
    assert isinstance(fact, Fleet)
    assert fact.usual is None or fact.usual == fact.usual
    assert fact.patterns is not None


def test_the_worst_comes_first_and_no_line_is_wider_than_the_terminal() -> None:
    from rules.system.test_same_fault_on_many_nodes import HEALTHY, node

    silent: dict[str, object] = {"name": "quiet", "answered": False, "problem": "timed out after 10 s"}
    report = judged([*HEALTHY, silent, node("hot", 8, ("thermal-throttle", 1)), node("short-of-a-card." + "x" * 60, 7)])
    for lang in ("en", "zh"):
        lines = as_fleet.text(report, lang, False, width=80, colour=False).splitlines()
        assert lines[0].startswith(("72 of 73 nodes answered, 575 GPUs of 584 expected", "73 个节点中 72 个有应答"))
        head = next(n for n, line in enumerate(lines) if line.startswith(("NODE", "节点")))
        assert [line.split()[0][:5] for line in lines[head + 1 : head + 4]] == ["short", "hot", "quiet"]
        assert all(width_of(line) <= 80 for line in lines[head:])
    assert json.loads(as_json.render(report, "en", False))["facts"]["Fleet"]["nodes"]


def test_the_simulated_fleet_shows_one_pattern() -> None:
    from ongpu.engine import diagnose
    from ongpu.watch import fleet_demo

    report = diagnose([fleet_demo.fleet(lambda slug: slug)], "demo")
    assert [(f.slug, f.variant) for f in report.findings[:1]] == [("same-fault-on-many-nodes", "cable")]


def test_what_did_not_answer_is_named_however_many_are_at_fault_and_is_no_zero() -> None:
    from ongpu.engine import diagnose
    from ongpu.watch import fleet_demo

    told = as_fleet.text(diagnose([fleet_demo.fleet(lambda slug: slug)], "demo"), "en", False, width=80, colour=False)
    assert "gpu058  ?     ?     ?      ?           no answer" in told
    assert "12 more nodes with faults" in told
    none = judged([{"name": "quiet", "answered": False, "problem": "timed out after 10 s"}])
    assert as_fleet.text(none, "en", False, width=80, colour=False).startswith("0 of 1 nodes answered, ? GPUs\n")
