"""The docs site: Sphinx with Markdown, built in strict mode (`sphinx-build -W`)."""

from pathlib import Path
from typing import Any

project = "ongpu"
author = "the ongpu developers"
project_copyright = "the ongpu developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "examples"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "ongpu"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["ongpu.css"]
html_sidebars = {
    "**": [
        "sidebar/brand.html", "languages.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}  # fmt: skip
myst_heading_anchors = 3
smartquotes = False  # it would turn the two dashes of an option into one
myst_enable_extensions = ["colon_fence"]

HERE = Path(__file__).parent
NAMES = {"en": "English", "zh": "中文"}


def _twin(page: str, lang: str) -> str:
    """The same page in that language; its front page where there is none."""
    parts = page.split("/")
    twin = "/".join(lang if part in NAMES else part for part in parts)
    return twin if any(part in NAMES for part in parts) and (HERE / f"{twin}.md").is_file() else f"{lang}/index"


def _languages(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Tell the template the page's language (for fonts and screen readers) and its twins."""
    del template, doctree
    here = next((lang for lang in NAMES if lang in page.split("/")[:-1]), "en")
    context["language"] = "zh-CN" if here == "zh" else "en"
    link = app.builder.get_relative_uri
    context["languages"] = [(NAMES[lang], link(page, _twin(page, lang)), lang == here) for lang in NAMES]


def _own_branch(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The sidebar opens the branch that the page is on: all four hundred pages on each of them are most of the site, and of its build."""
    del app, page, template, doctree
    if "toctree" in context:
        tree = context["toctree"]
        context["toctree"] = lambda **options: tree(**{**options, "collapse": True})


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("html-page-context", _languages)
    app.connect("html-page-context", _own_branch, priority=400)  # before the theme asks for the tree
