import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue import header

SCRIPT = """#!/bin/bash
#ONGPU --gpus 2 --time 4h   # two GPUs
# a comment

#ONGPU --name "my run"
#ONGPUX --gpus 9
module load cuda
#ONGPU --gpus 8
"""


def test_the_lines_at_the_top_are_options_and_the_rest_is_not() -> None:
    assert header.options(SCRIPT) == ["--gpus", "2", "--time", "4h", "--name", "my run"]


@pytest.mark.parametrize(
    ("line", "words"),
    [('#ONGPU --name "open', "line 1"), ("#ONGPU python train.py", "options only"), ("#ONGPU --gpus 1 -- python x", "no command")],
)
def test_what_cannot_be_used_is_named_by_its_line(line: str, words: str) -> None:
    with pytest.raises(header.HeaderError) as told:
        header.options(line)
    assert words in told.value.english
    assert "第 1 行" in told.value.chinese


def test_lines_of_another_queue_are_noticed_unless_ours_are_there_too() -> None:
    assert header.others("#!/bin/sh\n#SBATCH --gres=gpu:1\necho\n") == "#SBATCH"
    assert header.others("#!/bin/sh\n#SBATCH --gres=gpu:1\n#ONGPU --gpus 1\n") == ""
    assert header.others("#!/bin/sh\necho\n#SBATCH --gres=gpu:1\n") == ""


@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    for whole in ("#ONGPU " + text, text):
        header.others(whole)
        try:
            words = header.options(whole)
        except header.HeaderError:
            continue
        assert "--" not in words
