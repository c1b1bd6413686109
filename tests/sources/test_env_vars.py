# ruff: noqa: E501  printed lines stand in one piece
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.environment import Variables
from ongpu.hosts.pasted import read_text
from ongpu.sources import env_vars


def read(text: str) -> dict[str, str]:
    facts = [fact for item in read_text(text, "paste") for fact in env_vars.read(item)]
    return {
        name: value for fact in reversed(facts) if isinstance(fact, Variables) for name, value in fact.values.items()
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CUDA_VISIBLE_DEVICES=1 python search.py --cuda", "1"),
        ("CUDA_VISIBLE_DEVICES= python train.py", ""),
        ("CUDA_VISIBLE_DEVICES='' python train.py", ""),
        ("export CUDA_VISIBLE_DEVICES=2", "2"),
        ("set CUDA_VISIBLE_DEVICES=-1", "-1"),
        ('PS C:\\x> $env:CUDA_VISIBLE_DEVICES = "0"', "0"),
        ("setenv CUDA_VISIBLE_DEVICES 3", "3"),
        ("docker run -e CUDA_VISIBLE_DEVICES=0 image", "0"),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "3"', "3"),
        ('"env": {"CUDA_VISIBLE_DEVICES": ""}', ""),
        ('ENV["CUDA_VISIBLE_DEVICES"]=""', ""),
        ("LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]", "0,1"),
        ("CUDA_VISIBLE_DEVICES is set to -1 in my .bashrc", "-1"),
        ("$ echo $CUDA_VISIBLE_DEVICES\n1\n", "1"),
        ('Environment="CUDA_VISIBLE_DEVICES=0"', "0"),
    ],
)
def test_ways_to_tell_a_value(text: str, value: str) -> None:
    assert read(text)["CUDA_VISIBLE_DEVICES"] == value


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES is not set",
        'if os.environ["CUDA_VISIBLE_DEVICES"] == "1":',
        "you may need to uninstall it, or set CUDA_VISIBLE_DEVICES=0 to skip",
    ],
)
def test_what_sets_nothing(text: str) -> None:
    assert "CUDA_VISIBLE_DEVICES" not in read(text)


def test_a_list_that_is_extended() -> None:
    text = "export CUDA_HOME=$CUDA_HOME:/usr/local/cuda\nexport CUDA_HOME=$CUDA_HOME:/usr/local/cuda-10.1"
    assert read(text)["CUDA_HOME"] == "$CUDA_HOME:/usr/local/cuda:/usr/local/cuda-10.1"


def test_a_folder_told_in_prose() -> None:
    assert (
        read("GB200, /usr/local/cuda-12.4/lib64 on LD_LIBRARY_PATH")["LD_LIBRARY_PATH"] == "/usr/local/cuda-12.4/lib64"
    )


def test_the_whole_environment() -> None:
    (item,) = read_text("$ env\nPATH=/usr/bin:/bin\nHOME=/root\nCUDA_VISIBLE_DEVICES=\n", "paste")
    (fact,) = env_vars.read(item)
    assert isinstance(fact, Variables)
    assert fact.complete
    assert fact.get("CUDA_VISIBLE_DEVICES") == ""


def test_set_after_cuda_was_used() -> None:
    late = 'import torch\nuse = torch.cuda.is_available()\nos.environ["CUDA_VISIBLE_DEVICES"] = "3"\n'
    early = 'os.environ["CUDA_VISIBLE_DEVICES"] = "3"\nimport torch\nuse = torch.cuda.is_available()\n'
    for text, lines in ((late, [2, 3]), (early, [])):
        (item,) = read_text(text, "train.py")
        (fact,) = env_vars.read(item)
        assert isinstance(fact, Variables)
        assert [ref.line for ref in fact.set_late] == lines


@settings(derandomize=True, max_examples=60)
@given(st.text(alphabet="CUDA_HOME=$:'\"export \n{}[]", max_size=300))
def test_no_text_makes_it_crash(text: str) -> None:
    read(text)


def test_ollamas_map() -> None:
    text = 'msg="server config" env="map[CUDA_VISIBLE_DEVICES:0 HIP_VISIBLE_DEVICES: OLLAMA_HOST:http://127.0.0.1:11434 OLLAMA_ORIGINS:[http://localhost https://localhost] ROCR_VISIBLE_DEVICES:1]"'
    told = read(text)
    assert (told["CUDA_VISIBLE_DEVICES"], told["ROCR_VISIBLE_DEVICES"], told["OLLAMA_HOST"]) == ("0", "1", "http://127.0.0.1:11434")
    assert "HIP_VISIBLE_DEVICES" not in told
