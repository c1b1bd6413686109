"""What a browser remembers of its reader: the language and the theme, in two cookies, and where to go back to."""

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

LANGUAGE, THEME = "ongpu_lang", "ongpu_theme"
THEMES = ("auto", "light", "dark")
YEAR = 366 * 86400
Lang = Literal["en", "zh"]


@dataclass(frozen=True)
class Preferences:
    """lang: "en" or "zh"; theme: "auto" follows the reader's system."""

    lang: Lang = "en"
    theme: str = "auto"

    @property
    def dark(self) -> bool | None:
        """As NiceGUI has it: None is automatic."""
        return {"light": False, "dark": True}.get(self.theme)


def of(request: Request) -> Preferences:
    """What the browser remembers, else what it says it speaks."""
    told, theme = request.cookies.get(LANGUAGE), request.cookies.get(THEME, "auto")
    lang: Lang = "zh" if told == "zh" or (told != "en" and speaks_chinese(request.headers.get("accept-language", ""))) else "en"
    return Preferences(lang, theme if theme in THEMES else "auto")


def speaks_chinese(header: str) -> bool:
    """Whether Accept-Language names Chinese before English. The order is taken for the preference, as browsers write it."""
    for part in header[:200].lower().split(","):
        tag = part.split(";")[0].strip()
        if tag.startswith("zh"):
            return True
        if tag.startswith("en"):
            return False
    return False


def local(path: str | None) -> str:
    """A path of this server to go on to: never another server's address, nor anything but a plain path and question."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")) or len(path) > 500:
        return "/"
    return path if path.isascii() and path.isprintable() and "\\" not in path and " " not in path else "/"
