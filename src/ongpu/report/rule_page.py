"""The page of one rule, and the list of all: `ongpu rules`, and docs/rules/."""

import inspect
import re
import string
from collections.abc import Sequence
from typing import Any

from ongpu.model import Layer, Rule, Text
from ongpu.report import words
from ongpu.report.layout import wrap

_HEADS = {
    "what": ("What it is", "是什么"), "why": ("Why it happens", "为什么会这样"), "how": ("How it is detected", "如何发现"), "fix": ("How to fix it", "如何修复"),
    "variants": ("In other circumstances", "其他情形"), "sources": ("Sources", "来源"), "hides": ("Consequences that it explains", "它能解释的连带后果"),
    "severity": ("severity", "严重程度"), "layer": ("layer", "层"), "needs": ("Judged from", "依据的事实"), "settle": ("To settle it", "用于确认的命令"),
}  # fmt: skip


def head(name: str, lang: str) -> str:
    """A heading of the page."""
    return _HEADS[name][lang == "zh"]


def plain(text: str) -> str:
    """A text with its placeholders shown as <name>; words that stand only beside a known value are shown as if it were known."""
    return "".join(part + _placeholder(name, spec) for part, name, spec, _ in string.Formatter().parse(text))


def _placeholder(name: str | None, spec: str | None) -> str:
    shown = f"<{name}>" if name else ""
    if spec and ("*" in spec or "|" in spec):
        return spec.partition("|")[0].replace("*", shown, 1)
    return "" if spec == ".0" else shown


def texts(rule: Rule, lang: str) -> Text:
    """The rule's words in that language."""
    return rule.zh if lang == "zh" else rule.en


def summary(rule: Rule) -> str:
    """The first sentence of the rule's module: what it finds."""
    doc = inspect.getdoc(inspect.getmodule(rule.check)) or ""
    return doc.split("\n\n")[0].replace("\n", " ")


def needs(rule: Rule) -> list[str]:
    """The facts that it is judged from; "?" marks those it can do without."""
    names = []
    for name, annotation in rule.check.__annotations__.items():
        if name != "return":
            text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
            names.append(re.sub(r"[\w.]+\.", "", text).replace(" | None", "?"))
    return names


def as_dict(rule: Rule, lang: str) -> dict[str, Any]:
    """The page as plain data."""
    text = texts(rule, lang)
    return {
        "slug": rule.slug, "layer": rule.layer.name.lower(), "severity": rule.severity.name.lower(), "title": plain(text.title),
        "why": plain(text.why), "fix": plain(text.fix), "variants": _variants(rule, lang), "needs": needs(rule), "hides": list(rule.hides), "settle": list(rule.settle),
        "see": list(rule.see),
    }  # fmt: skip


def _variants(rule: Rule, lang: str) -> list[dict[str, str]]:
    shown = [pair[lang == "zh"] for pair in rule.variants.values()]
    return [{"title": plain(one.title), "why": plain(one.why), "fix": plain(one.fix)} for one in shown]


def table(rules: Sequence[Rule], lang: str, markdown: bool = False) -> str:
    """All rules, by layer."""
    lines: list[str] = []
    layer: Layer | None = None
    for rule in rules:
        title = plain(texts(rule, lang).title)
        if markdown:
            lines.append(f"- [`{rule.slug}`]({rule.slug}.md) ({words.severity(rule.severity, lang)}): {_escaped(title)}")
            continue
        if rule.layer is not layer:
            layer = rule.layer
            lines += ["", words.layer(layer, lang)]
        lines += [f"  {rule.slug}", *("      " + line for line in wrap(title, 74))]
    return "\n".join(lines).strip("\n")


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)


def text(rule: Rule, lang: str) -> str:
    """The page for a terminal."""
    words_ = texts(rule, lang)
    lines = [rule.slug + words.bracketed(words.layer(rule.layer, lang) + ("，" if lang == "zh" else ", ") + words.severity(rule.severity, lang), lang), ""]
    for name, body in (("what", plain(words_.title)), ("why", plain(words_.why)), ("fix", plain(words_.fix))):
        lines += [head(name, lang), *("  " + line for line in wrap(body, 78)), ""]
    if rule.variants:
        lines.append(head("variants", lang))
        for english, chinese in rule.variants.values():
            variant = chinese if lang == "zh" else english
            for mark, part in (("- ", variant.title), ("  ", variant.why), ("  ", variant.fix)):
                lines += _marked(mark, wrap(plain(part), 76))
        lines.append("")
    for name, items in (("settle", rule.settle), ("hides", rule.hides), ("sources", rule.see)):
        if items:
            lines += [head(name, lang), *("  " + item for item in items), ""]
    return "\n".join(lines).rstrip()


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return ["  " + (mark if place == 0 else "  ") + line for place, line in enumerate(lines)]


def markdown(rule: Rule, lang: str) -> str:
    """The page for the docs."""
    text = texts(rule, lang)
    lines = [
        f"# {rule.slug}", "",
        head("layer", lang) + words.colon(lang) + words.layer(rule.layer, lang) + " · " + head("severity", lang) + words.colon(lang) + words.severity(rule.severity, lang), "",
        f"## {head('what', lang)}", "", _escaped(plain(text.title)), "",
        f"## {head('why', lang)}", "", _escaped(plain(text.why)), "",
        f"## {head('how', lang)}", "", f"{head('needs', lang)}: " + ", ".join(f"`{need}`" for need in needs(rule)) + ".", "",
    ]  # fmt: skip
    if rule.settle:
        lines += [f"{head('settle', lang)}:", "", "```sh", *rule.settle, "```", ""]
    lines += [f"## {head('fix', lang)}", "", _escaped(plain(text.fix)), ""]
    if rule.variants:
        lines += [f"## {head('variants', lang)}", ""]
        for english, chinese in rule.variants.values():
            variant = chinese if lang == "zh" else english
            lines += [f"- **{_escaped(plain(variant.title))}** {_escaped(plain(variant.why))} {_escaped(plain(variant.fix))}"]
        lines.append("")
    if rule.hides:
        lines += [f"## {head('hides', lang)}", "", ", ".join(f"`{slug}`" for slug in rule.hides), ""]
    lines += [f"## {head('sources', lang)}", "", *(f"- <{url}>" for url in rule.see)]
    return "\n".join(lines).rstrip() + "\n"
