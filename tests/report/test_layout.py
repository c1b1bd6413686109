from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.report.layout import paint, width_of, wrap


def test_chinese_is_two_columns_wide_and_breaks_anywhere() -> None:
    lines = wrap("驱动 470.82.01 太旧，跑不了 CUDA 12.1：至少需要 525.60.13", 20)
    assert all(width_of(line) <= 20 for line in lines)
    assert "".join(lines).replace(" ", "") == "驱动470.82.01太旧，跑不了CUDA12.1：至少需要525.60.13"


def test_punctuation_does_not_begin_a_line() -> None:
    assert not any(line.startswith(("，", "。")) for line in wrap("一二三四，五六七八。九十", 8))


def test_a_long_word_stands_alone() -> None:
    assert wrap("see https://example.org/a/very/long/address now", 12)[1] == "https://example.org/a/very/long/address"


def test_colours_only_where_they_are_on() -> None:
    assert paint("x", "red", False) == "x"
    assert paint("x", "red", True) == "\x1b[31mx\x1b[0m"


@settings(derandomize=True, deadline=None)
@given(st.text(max_size=200), st.integers(10, 80))
def test_wrapping_loses_no_character(text: str, width: int) -> None:
    assert "".join("".join(wrap(text, width)).split()) == "".join(text.split())
