"""Many machines at once: what Prometheus knows of them, or what each says over ssh, as one text of a line a node."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ongpu.engine import diagnose
from ongpu.hosts import prometheus, remote
from ongpu.hosts.pasted import read_text
from ongpu.lazy import dataclass
from ongpu.model import Evidence, Report
from ongpu.report.as_json import facts_dict, finding_dict

MOST_NODES = 10_000
IDLE_SHARE = 0.05  # of the time in which a kernel ran: below it, a GPU that a process holds counts as idle
HELD_IDLE = f"((ongpu_gpu_processes > bool 0) * (ongpu_gpu_utilization_ratio < bool {IDLE_SHARE}))"
# PromQL. Each row of the answer carries the label `instance`.
QUESTIONS = {
    "known": "count by (instance) (max_over_time(ongpu_up[1d]))",
    "scraped": "max by (instance) (up * on (instance, job) (count by (instance, job) (max_over_time(ongpu_up[1d])) > bool 0))",
    "up": "ongpu_up",
    "down": "ongpu_down_info",
    "driver": "ongpu_driver_info",
    "info": "ongpu_gpu_info",
    "bad": 'ongpu_gpu_state{state!="ok"} == 1',
    "ok": 'count by (instance) (ongpu_gpu_state{state="ok"} == 1)',
    "expected": "max by (instance) (max_over_time(ongpu_gpus_expected[1h]) or max_over_time(ongpu_gpus[7d]))",
    "finding": "ongpu_finding == 1",
    "busy": "100 * avg by (instance) (ongpu_gpu_utilization_ratio)",
    "hottest": "max by (instance) (ongpu_gpu_temperature_celsius)",
    "idle": f"sum by (instance) (avg_over_time({HELD_IDLE}[7d:10m])) * 168",
}
Row = dict[str, Any]
Vector = list[tuple[dict[str, str], float]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A machine to be asked, and how many GPUs it should have, if somebody said so."""

    name: str
    expected: int | None = None


_RANGE = re.compile(r"([^\[\]]{0,200})\[(\d{1,6})-(\d{1,6})\]([^\[\]]{0,200})")
# what ssh takes as a host: no leading dash (it would be an option), no blanks, no shell characters
_HOST = re.compile(r"(?!-)[A-Za-z0-9_.@:%\[\]-]{1,255}")


def hosts(words: Iterable[str]) -> list[Wanted]:
    """The machines that these words name: "node7", "user@node7", "gpu[01-16].lab", "node7=8" for one that should have 8 GPUs.

    Raises ValueError with the word that names none.
    """
    found: dict[str, Wanted] = {}
    for word in words:
        name, _, count = word.partition("=")
        if count and not count.isdecimal():
            raise ValueError(word)
        for one in _expand(name):
            if not _HOST.fullmatch(one):
                raise ValueError(word)
            found.setdefault(one, Wanted(one, int(count) if count else None))
            if len(found) > MOST_NODES:
                raise ValueError(word)
    return list(found.values())


def _expand(name: str) -> Iterator[str]:
    told = _RANGE.fullmatch(name)
    if not told:
        yield name
        return
    before, first, last, after = told.groups()
    if int(last) - int(first) > MOST_NODES:
        raise ValueError(name)
    for number in range(int(first), int(last) + 1):
        yield f"{before}{number:0{len(first)}d}{after}"


def host_file(text: str) -> list[str]:
    """The words of a file of hosts: one a line, optionally with a number of GPUs; # begins a comment."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return [f"{parts[0]}={parts[1]}" if len(parts) > 1 else parts[0] for parts in lines if parts]


def over_ssh(
    wanted: Sequence[Wanted], limit: float, lang: str, ssh: Sequence[str] = ("ssh",), told: Callable[[], object] = lambda: None
) -> Evidence:
    """What each machine says, asked in parallel. limit: seconds for each. told: called as each answers."""
    answers = remote.ask([node.name for node in wanted], limit, lang, ssh, lambda answer: told())
    expected = {node.name: node.expected for node in wanted}
    rows = [{**from_answer(answer, lang), "expected": expected[answer.host]} for answer in answers]
    return evidence(rows, "ssh")


def evidence(rows: Iterable[Mapping[str, Any]], origin: str) -> Evidence:
    """The nodes as evidence: one JSON object a line, without what nobody said."""
    lines = (json.dumps({k: v for k, v in row.items() if v is not None}, ensure_ascii=False) for row in rows)
    return Evidence("fleet", "\n".join(lines), origin)


def from_answer(answer: remote.Answer, lang: str) -> Row:
    """One machine's row from what it printed over ssh."""
    if answer.problem:
        return {"name": answer.host, "answered": False, "problem": answer.problem}
    if answer.ours:
        try:
            told = json.loads(answer.text)
            return {"name": answer.host, "answered": True, **_told(told["findings"], told["facts"])}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {"name": answer.host, "answered": False, "problem": "its ongpu gave no answer that can be read"}
    report: Report = diagnose(read_text(answer.text, answer.host), answer.host)
    return {"name": answer.host, "answered": True, **_told([finding_dict(f, report, lang) for f in report.findings], facts_dict(report))}


def _told(findings: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]) -> Row:
    """Of a doctor's answer what the fleet wants to know."""
    gpus = facts.get("Gpus", {}).get("gpus")
    driver = facts.get("Driver", {})
    shown = [gpu for gpu in gpus or () if gpu.get("index") is not None]
    alive = [gpu for gpu in shown if not gpu.get("error")]
    busy = [gpu["utilization"] for gpu in alive if gpu.get("utilization") is not None]
    return {
        "present": len(alive) if gpus is not None else 0 if driver.get("smi_works") is False or driver.get("nvml") else None,
        "lost": [gpu["index"] for gpu in shown if gpu.get("error")],
        "model": next((gpu["name"] for gpu in alive if gpu.get("name")), None),
        "driver": driver.get("version"), "kernel": facts.get("Kernel", {}).get("release"),
        "busy": round(sum(busy) / len(busy), 1) if busy else None,
        "hottest": max((gpu["temperature"] for gpu in alive if gpu.get("temperature") is not None), default=None),
        "faults": [
            {"slug": f["slug"], "severity": f["severity"], "title": f["title"], "gpu": gpu_of(str(f.get("subject", "")))} for f in findings
        ],
    }  # fmt: skip


def gpu_of(subject: str) -> int | None:
    """The index in a finding's subject ("GPU 3"); None where it names none."""
    told = re.search(r"\bGPU (\d{1,4})\b", subject)
    return int(told.group(1)) if told else None


def from_prometheus(
    url: str, limit: float, titles: Callable[[str], str], token: str = "", wanted: Sequence[Wanted] = ()
) -> Evidence:
    """What Prometheus knows of the machines that it scraped within a day: of those wanted, where some are named. titles: slug -> words.

    Raises prometheus.Refused and ValueError, as `prometheus.query` does.
    """
    answers = {name: prometheus.query(url, question, limit, token) for name, question in QUESTIONS.items()}
    expected = {node.name: node.expected for node in wanted if node.expected is not None}
    rows = nodes(answers, titles, expected)
    return evidence(only(rows, wanted) if wanted else rows, url)


def only(rows: Sequence[Row], wanted: Sequence[Wanted]) -> list[Row]:
    """The rows of these machines, in their order; one that Prometheus does not know did not answer. A name may go without its domain."""
    by_name = {str(row["name"]): row for row in rows}
    by_short = {name.partition(".")[0]: row for name, row in reversed(by_name.items()) if not name[:1].isdecimal()}
    found: dict[str, Row] = {}
    for node in wanted:
        name = short(node.name.rpartition("@")[2])
        row = by_name.get(name) or by_short.get(name)
        if row is None:
            row = {"name": name, "expected": node.expected, "answered": False, "problem": "Prometheus does not know it"}
        elif node.expected is not None:
            row = {**row, "expected": node.expected}
        found.setdefault(str(row["name"]), row)
    return list(found.values())


def nodes(answers: Mapping[str, Vector], titles: Callable[[str], str], expected: Mapping[str, int]) -> list[Row]:
    """The rows, by the answers to QUESTIONS. A node that is not scraped now did not answer: nothing old is told of it."""
    one = {name: {labels.get("instance", "?"): value for labels, value in rows} for name, rows in answers.items()}
    labelled: dict[str, dict[str, dict[str, str]]] = {
        name: {labels.get("instance", "?"): labels for labels, _ in answers[name]} for name in ("down", "driver", "info")
    }
    bad, findings = _by_instance(answers["bad"]), _by_instance(answers["finding"])
    found = []
    for name in sorted({*one["known"], *one["scraped"], *one["up"]}, key=_natural):
        node: Row = {"name": short(name), "expected": expected.get(short(name), expected.get(name, _whole(one["expected"].get(name))))}
        if not one["scraped"].get(name, 1.0) or name not in one["up"]:
            found.append({**node, "answered": False, "problem": "Prometheus cannot scrape it"})
            continue
        if not one["up"][name]:
            reason = labelled["down"].get(name, {}).get("reason", "")
            node["faults"] = [{"slug": "nvml-down", "severity": "error", "title": reason or "NVML does not answer"}]
        node["faults"] = [*node.get("faults", ()), *_findings(findings.get(name, ()), titles)]
        found.append({
            **node, "answered": True, "present": _whole(one["ok"].get(name, 0.0)),
            "lost": sorted(int(labels["gpu"]) for labels in bad.get(name, ()) if labels.get("gpu", "").isdecimal()),
            "model": labelled["info"].get(name, {}).get("name"), "driver": labelled["driver"].get(name, {}).get("version"),
            "busy": _round(one["busy"].get(name)), "hottest": _whole(one["hottest"].get(name)), "idle_hours": _round(one["idle"].get(name)),
        })  # fmt: skip
    return found


def _by_instance(rows: Vector) -> dict[str, list[dict[str, str]]]:
    """The labels of an answer, by instance: gone through once, not once for each node."""
    found: dict[str, list[dict[str, str]]] = {}
    for labels, _ in rows:
        found.setdefault(labels.get("instance", "?"), []).append(labels)
    return found


def _findings(own: Iterable[Mapping[str, str]], titles: Callable[[str], str]) -> list[Row]:
    return [
        {
            "slug": labels.get("slug", "?"), "severity": labels.get("severity", "error"), "title": titles(labels.get("slug", "?")),
            "gpu": int(labels["gpu"]) if labels.get("gpu", "").isdecimal() else None,
        }
        for labels in own
    ]  # fmt: skip


def short(instance: str) -> str:
    """The machine of a Prometheus instance: without its port."""
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdecimal() else instance


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key: node2 before node10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


def _whole(value: float | None) -> int | None:
    return None if value is None or value != value else int(value)


def _round(value: float | None) -> float | None:
    return None if value is None or value != value else round(value, 1)
