# ruff: noqa: E501  printed lines stand in one piece
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts import pasted
from ongpu.model import Evidence, Fact
from ongpu.sources import commands as MODULE

SEED = '$ docker run \\\n `x` '


def facts(text: str) -> list[Fact]:
    return [fact for item in pasted.read_text(text, "paste") if MODULE.looks_like(item) for fact in MODULE.read(item)]


def ran(text: str) -> list[tuple[str, ...]]:
    return [run.argv for fact in facts(text) for run in fact.ran]  # type: ignore[attr-defined]


def test_prompts_sudo_and_assignments_are_taken_off() -> None:
    assert ran("(base) me@host:~$ CUDA_VISIBLE_DEVICES=0 sudo python train.py 'a b' | tee log") == [("python", "train.py", "a b"), ("tee", "log")]
    assert ran("PS C:\\\\Users\\\\me> python.exe train.py") == [("python", "train.py")]


def test_continued_lines_are_one_command() -> None:
    assert ran("docker run -it \\\n  --gpus all \\\n  image:1\n") == [("docker", "run", "-it", "--gpus", "all", "image:1")]


def test_sentences_are_not_commands() -> None:
    text = "Docker version 20.10.7, build f0df350\npython is 3.8\nmake sure that you have it\ntime to go.\nI installed docker."
    assert ran(text) == []


def test_a_command_in_a_sentence() -> None:
    assert ran("I ran `docker run --rm nvidia/cuda:12.0 nvidia-smi` and got nothing") == [("docker", "run", "--rm", "nvidia/cuda:12.0", "nvidia-smi")]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=400))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", SEED + text, "x", command=text[:80] or None)
    if MODULE.looks_like(evidence):
        list(MODULE.read(evidence))
