"""HTML built so that nothing unescaped can slip in: text is escaped, only what this file made is not."""

from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


VOID = frozenset({"br", "circle", "hr", "img", "input", "line", "link", "meta", "path", "polyline", "rect"})
NAMES = {"class_": "class", "for_": "for", "type_": "type"}


def safe(value: object) -> Html:
    """The value as HTML: escaped, unless it is `Html`; None is nothing."""
    return value if isinstance(value, Html) else Html("" if value is None else escape(str(value)))


def join(parts: "list[Html] | tuple[Html, ...]", between: str = "") -> Html:
    """The parts in a row; `between` is escaped."""
    return Html(escape(between).join(safe(part) for part in parts))


def prose(text: str) -> Html:
    """A sentence as HTML: what stands between two backticks is code."""
    parts = text.split("`")
    return Html("".join(tag("code", part) if place % 2 and place < len(parts) - 1 else safe(part) for place, part in enumerate(parts)))


def tag(name: str, /, *inner: object, **attributes: object) -> Html:
    """One element. An attribute that is None or False is left out, True stands alone; aria_label becomes aria-label."""
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = NAMES.get(key, key.replace("_", "-"))
        written.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    opened = f"<{name}{''.join(written)}"
    return Html(f"{opened}/>" if name in VOID else f"{opened}>{''.join(safe(part) for part in inner)}</{name}>")
