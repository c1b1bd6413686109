"""Write docs/rules/ from the rules, in both languages; with --check, say what is stale and exit 1."""

import argparse
import sys
from pathlib import Path

from ongpu.engine import all_rules
from ongpu.model import Layer
from ongpu.report import rule_page, words

ROOT = Path(__file__).parent.parent / "docs" / "rules"
TITLES = {"en": "What ongpu can find", "zh": "ongpu 能发现的问题"}


def pages() -> dict[Path, str]:
    """Every page, by its path."""
    found: dict[Path, str] = {}
    for lang, title in TITLES.items():
        index = [f"# {title}", ""]
        for layer in Layer:
            rules = [rule for rule in all_rules() if rule.layer is layer]
            index += [f"## {words.layer(layer, lang)}", "", rule_page.table(rules, lang, markdown=True), ""]
        slugs = "\n".join(rule.slug for rule in all_rules())
        index += ["```{toctree}", ":hidden:", "", slugs, "```", ""]
        found[ROOT / lang / "index.md"] = "\n".join(index)
        found |= {ROOT / lang / f"{rule.slug}.md": rule_page.markdown(rule, lang) for rule in all_rules()}
    return found


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    check = parser.parse_args().check
    wanted = pages()
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
    extra = [path for path in ROOT.rglob("*.md") if path not in wanted]
    if check:
        for path in (*stale, *extra):
            print(f"stale: {path}; run: python tools/rule_pages.py")
        return 1 if stale or extra else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], "utf-8")
    for path in extra:
        path.unlink()
    print(f"{len(wanted)} pages, {len(stale)} written, {len(extra)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
