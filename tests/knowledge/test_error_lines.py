from pathlib import Path

import pytest

from ongpu.knowledge import error_lines
from ongpu.knowledge.error_lines import Symptom, fold, index, parse, parse_toml, table

FILES = sorted(error_lines.TABLES.glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_fast_reader_agrees_with_tomllib(path: Path) -> None:
    text = path.read_text("utf-8")
    assert parse(text) == parse_toml(text)


def test_forms_that_only_toml_knows_are_left_to_it() -> None:
    text = "[a]\nhas = [\n  'x',\n]\nre = \"\"\"y\"\"\"\n[b]\nre = '''don't '\"'''\nhas = \"z\"\n"
    assert parse(text) == [Symptom("a", ("x",), "y"), Symptom("b", ("z",), "don't '\"")]


def test_literals_are_lower_case_and_regexes_compile() -> None:
    for symptom in table():
        assert symptom.literals
        assert all(literal == literal.lower() for literal in symptom.literals), symptom.name
        symptom.pattern()


def test_names_are_unique() -> None:
    names = [symptom.name for symptom in table()]
    assert len(names) == len(set(names))


def test_the_index_never_leaves_out_a_literal_that_is_there() -> None:
    literals = [literal for symptom in table() for literal in symptom.literals]
    found = index(literals)
    for literal in literals:
        text = f"x1{literal}2y and more"
        assert literal in found.possible(set(fold(text.encode()).split())), literal
