from ongpu.model import Verdict
from ongpu.report.words import because
from rules.system.test_same_fault_on_many_nodes import HEALTHY, judged, node, told

SILENT: dict[str, object] = {"name": "gpu007", "answered": False, "problem": "timed out after 10 s"}


def test_a_node_without_answer_is_unknown_not_healthy() -> None:
    report = judged([*HEALTHY, SILENT])
    assert report.verdict is Verdict.UNKNOWN
    assert "gpu007 (timed out after 10 s)" in report.unknown[0].because
    assert report.unknown[0].settle == ("ssh gpu007 true", "ongpu fleet --timeout 60 gpu007")


def test_that_is_told_in_chinese_too() -> None:
    report = judged([*HEALTHY, SILENT, {**SILENT, "name": "gpu008", "problem": ""}])
    count = len(HEALTHY) + 2
    told = because(report.unknown[0].because, "zh")
    assert told == f"{count} 个节点中的 2 个是否正常，因为它们没有应答：gpu007（超时： 10 s）、gpu008（没有应答）"


def test_expected_counts_go_before_what_is_usual() -> None:
    assert told(judged([*HEALTHY, node("small", 4, expected=4)])) == []
    assert told(judged([*HEALTHY, node("big", 8, expected=10)])) == [("node-at-fault", "missing", "big")]


def test_a_mixed_fleet_has_no_usual_number() -> None:
    assert told(judged([node("a", 1), node("b", 2), node("c", 4), node("d", 8)])) == []


def test_the_nodes_own_words_are_told() -> None:
    report = judged([node("a", 8, ("ecc-uncorrectable", 3)), node("b", 8)])
    (found,) = report.findings
    assert found.text("en").title == "a, GPU 3: ecc-uncorrectable"
    assert found.text("zh").title == "a，GPU 3：ecc-uncorrectable"
