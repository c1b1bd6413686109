"""Signs that a GPU is not used, and the questions that would settle why (knowledge/signs.toml)."""

from functools import cache

from ongpu.knowledge._tables import table
from ongpu.lazy import dataclass

SO = "whether it is so: it is merely possible"
SO_ZH = "是否如此：目前只是可能"


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows that a GPU is not used. unless: symptoms with which it does not; ask: keys of questions, the likeliest cause
    first; lead: it only tells what to ask."""

    symptoms: tuple[str, ...]
    unless: tuple[str, ...]
    facts: str
    ask: tuple[str, ...]
    lead: bool


@dataclass(frozen=True, slots=True)
class Question:
    """What is not known, in both languages, and the commands that tell it. known: facts that answer it already; when: symptoms
    or facts without which it is not asked."""

    en: str
    zh: str
    settle: tuple[str, ...]
    known: tuple[str, ...]
    when: tuple[str, ...]


@cache
def signs() -> tuple[Sign, ...]:
    """All signs, the most telling first."""
    rows = table("signs")["sign"].values()
    return tuple(
        Sign(
            tuple(row.get("symptoms", ())), tuple(row.get("unless", ())), row.get("facts", ""), tuple(row["ask"]), bool(row.get("lead"))
        )
        for row in rows
    )


def question(key: str) -> Question:
    """The question of that key. KeyError where there is none."""
    row = table("signs")["ask"][key]
    return Question(row["en"], row["zh"], tuple(row.get("settle", ())), tuple(row.get("known", ())), tuple(row.get("when", ())))


def chinese(because: str) -> str | None:
    """The Chinese words of what a question does not know; None for other texts."""
    if because == SO:
        return SO_ZH
    for row in table("signs")["ask"].values():
        before, mark, _ = row["en"].partition("{line}")
        if because == row["en"]:
            return str(row["zh"])
        if mark and because.startswith(before):
            return str(row["zh"]).replace("{line}", because[len(before) :])
    return None
