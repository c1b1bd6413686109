"""The README and the docs stay true: what they show is what ongpu prints, both languages cover the same, links resolve."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFRESH = tool("refresh_docs")
PAGES = REFRESH.pages()
SHOWN = [page for page in PAGES if list(REFRESH.blocks(page))]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_output_is_what_it_prints(page: Path) -> None:
    assert REFRESH.stale(page) == [], "run: python tools/refresh_docs.py"


def test_every_console_block_is_one_that_is_run() -> None:
    for page in PAGES:
        assert page.read_text("utf-8").count("```console") == len(list(REFRESH.blocks(page))), page


def test_only_harmless_commands_are_run() -> None:
    with pytest.raises(ValueError, match="may run"):
        REFRESH.output("ongpu fix --yes", "en")
    with pytest.raises(ValueError, match="may run"):
        REFRESH.output("rm -rf /", "en")


def test_both_languages_have_the_same_pages() -> None:
    english, chinese = ({path.name for path in (DOCS / lang).glob("*.md")} for lang in ("en", "zh"))
    assert english == chinese


@pytest.mark.parametrize("english", [ROOT / "README.md", *sorted((DOCS / "en").glob("*.md"))], ids=lambda path: path.stem)
def test_both_languages_show_the_same_commands(english: Path) -> None:
    chinese = ROOT / "README.zh.md" if english.name == "README.md" else DOCS / "zh" / english.name
    assert [c for c, _ in REFRESH.blocks(english)] == [c for c, _ in REFRESH.blocks(chinese)]
    for mark in ("## ", "|---"):
        if english.name != "rules.md":  # the English page includes CONTRIBUTING.md
            assert prose(english).count("\n" + mark) == prose(chinese).count("\n" + mark), mark


def test_chinese_pages_are_chinese() -> None:
    for page in (ROOT / "README.zh.md", *(DOCS / "zh").glob("*.md")):
        assert len(re.findall(r"[\u4e00-\u9fff]", prose(page))) > 100, page


def test_a_chinese_paragraph_is_one_line() -> None:  # a line break inside would be shown as a space
    wide = r"[\u2e80-\u9fff\uff00-\uff60，。；：、]"
    for page in (ROOT / "README.zh.md", *(DOCS / "zh").glob("*.md")):
        assert not re.search(rf"{wide}\n *(?![-*|#>\d(]){wide}", prose(page)), page


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_resolve(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        assert (page.parent / target).exists(), target


def test_rule_pages_are_fresh() -> None:
    wanted = tool("rule_pages").pages()
    stale = [path.name for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
    assert stale == [], "run: python tools/rule_pages.py"
    assert set((DOCS / "rules").rglob("*.md")) == set(wanted)


def test_readme_says_the_two_commands_that_ci_runs() -> None:
    ran = re.findall(r"^sh (tools/\w+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    for page in ("README.md", "README.zh.md"):
        assert re.findall(r"^sh (tools/\w+)", (ROOT / page).read_text("utf-8"), re.MULTILINE) == ran
