"""What Python's own profilers (cProfile, line_profiler) say of a run: the share of its time that some rows took."""

from ongpu.facts.symptoms import Hit, Symptoms


def share(symptoms: Symptoms, name: str) -> tuple[float, tuple[Hit, ...]]:
    """(percent, rows) of the largest of these rows, in the time of the whole run. 0.0 where none is shown."""
    hits = symptoms.seen(name)
    rows = sorted(((_percent(hit, symptoms), n, hit) for n, hit in enumerate(hits)), key=lambda row: (-row[0], row[1]))
    return (rows[0][0], tuple(hit for _, _, hit in rows[:3])) if rows else (0.0, ())


def _percent(hit: Hit, symptoms: Symptoms) -> float:
    if told := hit.groups.get("share"):  # line_profiler says it
        return min(100.0, float(told))
    whole = float(symptoms.value("seconds", "cprofile-whole") or 0)
    rows = symptoms.seen("cprofile-row")
    if not whole and rows:  # only its first rows were shown
        whole = max(sum(float(row.groups["own"]) for row in rows), *(float(row.groups["all"]) for row in rows))
    spent = float(hit.groups.get("own") or hit.groups.get("all") or 0)
    return min(100.0, 100 * spent / whole) if whole else 0.0
