from asking import explain, notes, slugs

from ongpu.model import Verdict

LEAK = """========= COMPUTE-SANITIZER
========= Leaked 1,048,576 bytes at 0x7f
=========     Saved host backtrace
=========
========= LEAK SUMMARY: {size} bytes leaked in 1 allocations
========= ERROR SUMMARY: {errors} errors
"""


def test_a_leak_is_a_note() -> None:
    text = LEAK.format(size=1_048_576, errors=1)
    assert slugs(text) == []
    assert "device-memory-leaked" in notes(text)
    finding = next(f for f in explain(text).findings if f.slug == "device-memory-leaked")
    assert (finding.values["size"], finding.values["number"]) == ("1.0 MiB", 1)


def test_no_leak() -> None:
    report = explain(
        "========= COMPUTE-SANITIZER\n========= LEAK SUMMARY: 0 bytes leaked in 0 allocations\n========= ERROR SUMMARY: 0 errors\n"
    )
    assert report.verdict is Verdict.CLEAR
