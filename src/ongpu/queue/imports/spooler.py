"""`tsp -l`, of Debian's task-spooler 1.0 and of its GPU fork (github.com/justanhduc/task-spooler, list.c): quotes are lost in it."""

from ongpu.lazy import lazy
from ongpu.queue.imports.found import Found, Wish, checked, one_line
from ongpu.queue.job import Spec
from ongpu.queue.words import called

_SPOOLED = lazy(r"(?P<id>\d{1,9})\s{1,9}(?P<state>queued|allocating|running|finished|skipped)\s{1,12}(?P<output>\S{1,4096})(?P<rest>.*)")
_NEEDS = lazy(r"\[([\d, ]{1,200})\]&& ")
_LABEL = lazy(r"\[([^\]]{1,200})\]")


def job(item: tuple[str, bool], wish: Wish) -> tuple[str, Found | str]:
    """Of a line, and whether the list has a column of GPUs: the job, or why it is left (found.LEFT)."""
    line, gpus = item
    match = _SPOOLED.match(line)
    if not match:
        return one_line(line, 20), "not-read"
    name, state, rest = match["id"], match["state"], match["rest"].strip()
    if state in ("finished", "skipped"):
        return name, "ended"
    if state == "running" and not wish.running:
        return name, "runs"
    count = wish.gpus
    if gpus:
        number, _, rest = rest.partition(" ")
        if not (number.isascii() and number.isdigit() and len(number) < 5):
            return name, "not-read"
        count, rest = int(number), rest.strip()
    needs: list[tuple[str, str]] = []
    if found := _NEEDS.match(rest):
        needs = [("ok", one.strip()) for one in found[1].split(",") if one.strip()]
        rest = rest[found.end() :]
    label = ""
    if found := _LABEL.match(rest):
        label, rest = found[1], rest[found.end() :]
    if rest.endswith("...") and gpus:
        return name, "cut"
    words = rest.split()  # it joined them with blanks and kept no quotes
    if not words:
        return name, "not-read"
    return checked(name, Spec(command=tuple(words), name=one_line(label or called(words), 60), gpus=count), needs)
