from ongpu.knowledge.error_lines import fold, index, table


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
