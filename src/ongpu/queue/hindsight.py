"""What a job of another machine died of, by the end of its output alone: the rules of `ongpu run`, for engines that show no more."""

from collections.abc import Iterable

KEPT = 128 << 10  # bytes of output


def died(output: Iterable[bytes], code: int | None) -> list[tuple[str, str]]:
    """Lines in English and Chinese: the finding that explains its end and what to do, else its last words. Output that is long is read
    through, but only its end is kept."""
    from ongpu.queue import postmortem, run

    tail = bytearray()
    for piece in output:
        tail += piece
        if len(tail) > 2 * KEPT:
            del tail[:-KEPT]
    text = bytes(tail[-KEPT:]).decode("utf-8", "replace")
    number = code - 128 if code is not None and code > 128 else None
    report = postmortem.judged(postmortem.words(text, number, "", False), "")
    found = run.ending(1 if code is None else code, number, (), report, ()).findings
    if found and found[0].rule:
        english, chinese, slug = found[0].text("en"), found[0].text("zh"), found[0].slug
        lines = [(f"{slug}: {' '.join(english.title.split())}", f"{slug}：{' '.join(chinese.title.split())}")]
        return [*lines, (" ".join(english.fix.split()), " ".join(chinese.fix.split()))] if english.fix.strip() else lines
    said = run.last_words(report, text)
    return [(f"its last words: {said}", f"最后的输出：{said}")] if said.isprintable() and said else []
