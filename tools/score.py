"""Score `ongpu explain` on folders of cases, in this process: the figures of the shared score.py, in seconds.

usage: score.py [FOLDER...] [--show] [--floors FILE]     (default: tests/cases, and ../shared/cases where it is there)
A floor is a figure that must not be fallen below; --raise writes the figures of today where they are higher.
"""

import argparse
import json
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ongpu.engine import diagnose
from ongpu.hosts import pasted
from ongpu.model import Severity
from ongpu.report.as_json import finding_dict

ROOT = Path(__file__).parent.parent
FLOORS = ROOT / "tests" / "cases" / "floors.toml"
BENIGN = {"healthy", "not-gpu-related"}
NAMED = {"python_source", "dockerfile", "compose", "k8s_yaml"}


@dataclass(frozen=True)
class Result:
    """How one case was answered."""

    name: str
    group: str
    want: str
    said: tuple[str, ...]
    cause: bool
    mentions: bool
    silent: bool
    missing: tuple[str, ...]

    @property
    def benign(self) -> bool:
        """Whether nothing was wrong with the GPU."""
        return self.want in BENIGN


def judge(path: Path) -> Result:
    """One case; those with training source are a group of their own."""
    case = yaml.safe_load(path.read_text("utf-8"))
    group = "source" if any(item["kind"] == "python_source" for item in case["inputs"]) else path.parent.name
    evidence = []
    for number, item in enumerate(case["inputs"], 1):
        head = f"$ {item['command']}\n" if item.get("command") and item["kind"] not in NAMED else ""
        evidence += pasted.read_text(head + item["text"], f"paste{number}.txt")
    report = diagnose(evidence, path.stem)
    want: dict[str, Any] = case["expected"]
    slugs = [f.slug for f in report.findings if f.weight > Severity.NOTE]
    right = {want["cause"], *(want.get("also_acceptable") or ())}
    benign = want["cause"] in BENIGN
    told = json.dumps([finding_dict(f, report, "en") for f in report.findings], ensure_ascii=False, default=str).lower()
    missing = tuple(str(m) for m in want.get("must_mention") or () if str(m).lower() not in told)
    cause = not slugs if benign else bool(slugs) and slugs[0] in right
    silent = not benign and not slugs
    return Result(path.stem, group, want["cause"], tuple(slugs[:3]), cause, not missing, silent, missing)


def figures(results: list[Result]) -> dict[str, float]:
    """Percentages: right cause first, benign ones clear, silent, mentions."""
    benign = [r for r in results if r.benign]
    share = lambda rows, key: round(100 * sum(getattr(r, key) for r in rows) / max(1, len(rows)), 1)  # noqa: E731
    return {
        "cause": share(results, "cause"),
        "benign": share(benign, "cause"),
        "heard": round(100 - share(results, "silent"), 1),
        "mentions": share(results, "mentions"),
    }


def score(folder: Path) -> list[Result]:
    """All cases of a folder."""
    return [judge(path) for path in sorted(folder.rglob("*.yaml"))]


def main() -> int:
    """Print the figures; 1 where one is below its floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--show", action="store_true", help="list every case that is not right")
    parser.add_argument("--only", default="", help="only cases whose path contains this, with --show")
    options = parser.parse_args()
    floors = tomllib.loads(FLOORS.read_text("utf-8")) if FLOORS.is_file() else {}
    default = {"tests": ROOT / "tests" / "cases", "shared": ROOT.parent / "shared" / "cases"}
    folders = {str(folder): folder for folder in options.folders} or {n: f for n, f in default.items() if f.is_dir()}
    below = False
    for name, folder in folders.items():
        results = [r for r in score(folder) if options.only in f"{r.group}/{r.name}"]
        groups: dict[str, list[Result]] = defaultdict(list)
        for result in results:
            groups[result.group].append(result)
            groups["all"] += [result] if result.group != "source" else []  # as the shared scorer's --source without
            if options.show and not (result.cause and result.mentions):
                why = f"said {', '.join(result.said) or '-'}" if not result.cause else f"does not mention {result.missing}"
                print(f"{result.group}/{result.name:45} want {result.want:32} {why}")
        for group, rows in groups.items():
            print(f"{name:8} {group:10} {len(rows):4} cases  " + "  ".join(f"{k} {v:5.1f}" for k, v in figures(rows).items()))
        for part, rows in ((name, groups["all"]), (f"{name}-with-source", groups["source"])):
            for key, floor in floors.get(part, {}).items():
                if not options.only and figures(rows)[key] < floor:
                    print(f"{part}: {key} {figures(rows)[key]} is below its floor {floor}")
                    below = True
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
