from ongpu.engine import diagnose
from ongpu.model import Evidence, Report, Severity


def ask(term: str) -> Report:
    return diagnose([Evidence("term", term, "argument")], term)


def test_each_meaning_of_a_number_is_told_apart() -> None:
    findings = ask("9").findings
    assert {f.slug for f in findings} == {"error-code"}
    assert all(f.weight is Severity.NOTE for f in findings)
    titles = [f.text("en").title for f in findings]
    assert len(set(titles)) == len(titles) >= 4
    assert any("NVML error 9: NVML_ERROR_DRIVER_NOT_LOADED" in title for title in titles)
    assert any("Xid 9" in title for title in titles)


def test_both_languages_show_their_own_words_only() -> None:
    finding = ask("46").findings[0]
    english, chinese = finding.text("en"), finding.text("zh")
    assert "exclusive-process" in english.why
    assert english.why.isascii()
    assert "独占" in chinese.why
    assert chinese.title.startswith("CUDA 错误 46：")


def test_pasted_text_is_no_term() -> None:
    assert not diagnose([Evidence("pasted", "error 9", "x")], "x").findings


def test_commands_and_files_keep_their_small_letters() -> None:
    from ongpu.rules.code.error_code import _sentence

    assert _sentence("modprobe nvidia; then look") == "modprobe nvidia; then look."
    assert _sentence("libnvidia-ml.so.1 was not found") == "libnvidia-ml.so.1 was not found."
    assert _sentence("the card is fine") == "The card is fine."
