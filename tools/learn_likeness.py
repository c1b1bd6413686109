"""Learn src/ongpu/knowledge/likeness.json: which words stand in reports of which confirmed cause. One command, no options.

It reads tests/cases and ../shared/cases (where that is there), only what a person pasted, never the summary, and the rules' own
words with half the weight of a report. --curve tells how often a guess is right, each report judged by a table without it
(and without others of the same source); "masked" means without the lines by which a rule found the cause.
--stale exits 1 where the cases have changed since.
"""

import argparse
import hashlib
import json
import math
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from ongpu.engine import all_rules, diagnose
from ongpu.hosts import pasted
from ongpu.knowledge import likeness
from ongpu.model import Evidence, Severity

ROOT = Path(__file__).parent.parent
FOLDERS = {"tests": ROOT / "tests" / "cases", "shared": ROOT.parent / "shared" / "cases"}
TABLE = ROOT / "src" / "ongpu" / "knowledge" / "likeness.json"
NAMED = {"python_source", "dockerfile", "compose", "k8s_yaml"}
RULE_WORDS = 0.5  # the weight of a word of the rule itself, beside 1 for a word of a report; 0 is worse, 1 and 2 no better
ALSO = 0.5  # the weight of a report for a cause that it names as acceptable too
PRIOR = 0.5  # how far the number of reports of a cause counts
SMOOTH = 800.0  # words of an average report that each cause is mixed with (50, 200 and 2000 are worse)
RARE = 400  # a word is kept that stands in at least one of so many reports (never in one alone), a pair of words in one report more


@dataclass
class Case:
    """One report: its words, each once, and its causes with their weights."""

    name: str
    source: str
    causes: dict[str, float]
    evidence: list[Evidence]
    words: set[str] = field(default_factory=set)


def read(path: Path) -> Case | None:
    """A case; None for those with training source."""
    case = yaml.safe_load(path.read_text("utf-8"))
    if any(item["kind"] == "python_source" for item in case["inputs"]):
        return None
    evidence: list[Evidence] = []
    for number, item in enumerate(case["inputs"], 1):
        head = f"$ {item['command']}\n" if item.get("command") and item["kind"] not in NAMED else ""
        evidence += pasted.read_text(head + item["text"], f"paste{number}.txt")
    want = case["expected"]
    causes = dict.fromkeys(want.get("also_acceptable") or (), ALSO) | {want["cause"]: 1.0}
    return Case(path.stem, case["source"], causes, evidence, set(likeness.words(evidence)))


def cases(folder: Path) -> list[Case]:
    """All cases of a folder."""
    return [case for path in sorted(folder.rglob("*.yaml")) if (case := read(path))]


def fingerprint(folder: Path) -> str:
    """Changes when what is learnt from the folder's cases changes."""
    told = [(c.name, c.source, sorted(c.causes.items()), [(e.command, e.text) for e in c.evidence]) for c in cases(folder)]
    return hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()[:16]


class Counts:
    """How often which word stands in reports of which cause."""

    def __init__(self, learnt: list[Case]) -> None:
        self.of: dict[str, defaultdict[str, float]] = {}
        self.reports: defaultdict[str, float] = defaultdict(float)
        self.totals: defaultdict[str, float] = defaultdict(float)
        self.everywhere: defaultdict[str, float] = defaultdict(float)
        self.frequency: Counter[str] = Counter()
        for rule in all_rules():
            texts = [text for pair in ((rule.en, rule.zh), *rule.variants.values()) for text in pair]
            spoken = {word for t in texts for word in likeness.tokens(f"{t.title} {t.why} {t.fix}")}
            self._count(rule.slug, spoken | set(likeness.tokens(rule.slug)), RULE_WORDS)
        self.learnt = len(learnt)
        for case in learnt:
            self.add(case, 1)

    def _count(self, slug: str, words: set[str], weight: float) -> None:
        own = self.of.setdefault(slug, defaultdict(float))
        for word in words:
            own[word] += weight
            self.everywhere[word] += weight
        self.totals[slug] += weight * len(words)

    def add(self, case: Case, sign: int) -> None:
        """Learn a report (1) or forget it (-1)."""
        for slug, weight in case.causes.items():
            self.reports[slug] += sign * weight
            self._count(slug, case.words, sign * weight)
        for word in case.words:
            self.frequency[word] += sign

    def table(self, vocabulary: set[str] | None = None) -> likeness.Table:
        """The table of weights; only for the words of the vocabulary, where one is given."""
        slugs = sorted(slug for slug, count in self.reports.items() if count > 0)
        everywhere, reports = sum(self.everywhere.values()), sum(self.reports.values())
        least = max(2, math.ceil(self.learnt / RARE))
        known = [w for w in (vocabulary if vocabulary is not None else self.frequency) if self.frequency[w] >= least + (" " in w)]
        usual = {w: SMOOTH * self.everywhere[w] / everywhere for w in known}
        weights = {w: self._weights(w, usual[w], slugs) for w in known}
        base = [math.log(SMOOTH / (self.totals[s] + SMOOTH)) for s in slugs]
        prior = [PRIOR * math.log(self.reports[s] / reports) for s in slugs]
        return likeness.Table(tuple(slugs), tuple(prior), tuple(base), weights)

    def _weights(self, word: str, usual: float, slugs: list[str]) -> tuple[tuple[int, float], ...]:
        """How much the word speaks for each cause in whose reports it stands."""
        own = [(place, self.of[slug].get(word, 0.0)) for place, slug in enumerate(slugs)]
        return tuple((place, math.log(1 + count / usual)) for place, count in own if count > 0.01)


@dataclass
class Row:
    """One report, judged without itself: `unnoted`: no rule noted it and no GPU works; scores of all its words, or masked."""

    case: Case
    unnoted: bool
    whole: list[tuple[str, float]]
    masked: list[tuple[str, float]]


def _without(item: Evidence, cited: set[str]) -> Evidence:
    kept = "\n".join(line for line in item.text.split("\n") if line.strip() not in cited)
    return Evidence(item.kind, kept, item.origin, None if item.command in cited else item.command)


def _said(scores: list[tuple[str, float]], least: float) -> str | None:
    """The guess, or None: too little, or benign."""
    return scores[0][0] if scores and scores[0][1] >= least and scores[0][0] not in likeness.BENIGN else None


def curve(learnt: list[Case]) -> None:
    """Cross-validation: each report by a table without it and without others of its source."""
    counts = Counts(learnt)
    faulty: list[Row] = []
    harmless: list[Row] = []
    for case in learnt:
        same = [other for other in learnt if other.source == case.source]
        report = diagnose(case.evidence, case.name)
        found = [f for f in report.findings if f.weight > Severity.NOTE and f.variant != likeness.VARIANT]
        cited = {ref.quote for f in found for ref in f.refs}
        masked = set(likeness.words([_without(item, cited) for item in case.evidence]))
        for other in same:
            counts.add(other, -1)
        table = likeness.unpacked(counts.table(case.words).packed())
        for other in same:
            counts.add(other, 1)
        benign = any(case.causes.get(slug) == 1.0 for slug in likeness.BENIGN)
        gated = not any(fact.working() for fact in report.facts) and not any(f.weight is Severity.NOTE for f in report.findings)
        row = Row(case, gated, table.score(case.words), table.score(masked))
        (harmless if benign else faulty).append(row)
    print(f"{len(faulty)} faulty reports, {len(harmless)} benign; right: the first guess is the cause or an acceptable one")
    for least in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        line = f"p >= {least:.1f}"
        for name, masked_out in (("whole", False), ("masked", True)):
            said = [(row.case, slug) for row in faulty if (slug := _said(row.masked if masked_out else row.whole, least))]
            right = sum(slug in case.causes for case, slug in said)
            line += f"   {name}: says {len(said) / len(faulty):4.0%}, right {right / max(1, len(said)):4.0%}"
        accused = [row for row in harmless if _said(row.whole, least)]
        unnoted = sum(row.unnoted for row in accused)
        print(f"{line}   benign accused {len(accused)}/{len(harmless)}, of these where no rule notes it {unnoted}")


def write(learnt: list[Case], folders: dict[str, Path]) -> None:
    """The table, compactly: each word with a character for each cause."""
    table = Counts(learnt).table()
    answer: dict[str, Any] = {
        "checked": date.today().isoformat(),
        "source": f"{len(learnt)} public reports with a confirmed cause: " + ", ".join(f"{name}/cases" for name in folders),
        "cases": {name: fingerprint(folder) for name, folder in folders.items()},
        **table.packed(),
    }
    TABLE.write_text(json.dumps(answer, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n", "utf-8")
    size = TABLE.stat().st_size >> 10
    print(f"{TABLE.name}: {len(table.slugs)} causes, {len(table.weights)} words, {size} KiB, from {len(learnt)} reports")


def main() -> int:
    """Learn; or tell the curve, or whether it is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--stale", action="store_true")
    options = parser.parse_args()
    folders = {name: folder for name, folder in FOLDERS.items() if folder.is_dir()}
    if options.stale:
        told = json.loads(TABLE.read_text("utf-8"))["cases"]
        stale = [name for name, folder in folders.items() if told.get(name) != fingerprint(folder)]
        print(f"stale: {', '.join(stale)}; run: python tools/learn_likeness.py" if stale else "fresh")
        return 1 if stale else 0
    learnt = [case for folder in folders.values() for case in cases(folder)]
    if options.curve:
        curve(learnt)
    else:
        write(learnt, folders)
    return 0


if __name__ == "__main__":
    sys.exit(main())
