"""`ongpu rules`: the list of everything that can be found, and the page of one rule."""

import argparse
import json

from ongpu.engine import all_rules
from ongpu.fronts.answer import add_format, add_language, add_slug, complain, language, say
from ongpu.report import rule_page


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_slug(parser, "show the page of this rule", "显示该规则的页面")
    add_format(parser)
    add_language(parser)
    parser.add_argument("--all", action="store_true", help=say("show every rule's page, one after another", "依次显示每条规则的页面"))
    parser.set_defaults(run=run)


def _near(asked: str) -> list[str]:
    """At most eight slugs that hold a word of it, else that are spelt nearly so."""
    import difflib

    slugs = [rule.slug for rule in all_rules()]
    parts = [part for part in asked.lower().split("-") if len(part) > 2]
    close = difflib.get_close_matches(asked.lower(), slugs, 3)
    holding = [slug for slug in slugs if any(part in slug.split("-") or (len(part) > 4 and part in slug) for part in parts)]
    holding.sort(key=lambda slug: -sum(part in slug for part in parts))
    return list(dict.fromkeys([*close, *holding]))[:8]


def run(options: argparse.Namespace) -> int:
    """List the rules, or show one."""
    lang = options.lang or language()
    rules = all_rules()
    if options.slug:
        rules = tuple(rule for rule in rules if rule.slug == options.slug)
        if not rules:
            near = _near(options.slug)
            if not near:
                return complain(f"no rule {options.slug!r}; all of them: ongpu rules", f"没有规则 {options.slug!r}；全部规则：ongpu rules")
            return complain(f"no rule {options.slug!r}; near: {', '.join(near)}", f"没有规则 {options.slug!r}；相近：{'、'.join(near)}")
    if options.format == "json":
        print(json.dumps([rule_page.as_dict(rule, lang) for rule in rules], ensure_ascii=False, indent=1))
    elif options.slug or options.all:
        page = rule_page.markdown if options.format == "markdown" else rule_page.text
        print("\n\n".join(page(rule, lang) for rule in rules))
    else:
        print(rule_page.table(rules, lang, markdown=options.format == "markdown"))
    return 0
