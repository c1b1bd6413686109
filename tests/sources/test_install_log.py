from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.framework import Python
from ongpu.facts.installs import Install, Installs, name_of
from ongpu.hosts.pasted import read_text
from ongpu.sources import install_log

PIP = """\
$ pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cu124 --no-deps
Looking in indexes: https://download.pytorch.org/whl/cu124
ERROR: Could not find a version that satisfies the requirement torch==2.5.1 (from versions: 2.6.0+cu124)
ERROR: No matching distribution found for torch==2.5.1
"""
REPLACED = """\
Installing collected packages: torch, xformers
  Attempting uninstall: torch
    Found existing installation: torch 2.1.2+cu121
    Uninstalling torch-2.1.2+cu121:
Successfully installed torch-2.1.2 xformers-0.0.23
"""
UV = """\
$ uv pip install torch==2.1.2+cu121 --index-url https://download.pytorch.org/whl/cu121
  Because torch==2.1.2+cu121 has no wheels with a matching Python ABI tag (e.g., `cp313`), we can conclude
      hint: You require CPython 3.13 (`cp313`), but we only found wheels for `torch` (v2.1.2+cu121)
"""


def read(text: str) -> list[Install]:
    facts = [fact for item in read_text(text, "paste") for fact in install_log.read(item)]
    return [install for fact in facts if isinstance(fact, Installs) for install in fact.installs]


def test_command_and_refusal() -> None:
    command, refusal = read(PIP)
    assert command.asked == ("torch==2.5.1",)
    assert command.indexes == ("https://download.pytorch.org/whl/cu124",)
    assert "--no-deps" in command.options
    assert (refusal.refused, refusal.versions) == ("torch==2.5.1", ("2.6.0+cu124",))


def test_a_package_that_was_replaced() -> None:
    (done,) = read(REPLACED)
    assert done.installed == ("torch-2.1.2", "xformers-0.0.23")
    assert done.removed == ("torch-2.1.2+cu121",)


def test_conda_names_its_channels() -> None:
    (install,) = read("conda install -c pytorch pytorch=1.9.0 torchvision cudatoolkit=11.3")
    assert (install.tool, install.indexes) == ("conda", ("pytorch",))
    assert install.asked == ("pytorch=1.9.0", "torchvision", "cudatoolkit=11.3")


def test_nothing_offered_is_not_the_same_as_nothing_told() -> None:
    none, untold = read("requirement torch (from versions: none)\nNo matching distribution found for jaxlib==9"), []
    assert untold == []
    assert all(item.versions is None for item in none if item.refused == "jaxlib==9")


def test_uv_tells_python_and_release() -> None:
    assert {item.refused for item in read(UV)} >= {"torch==2.1.2+cu121"}
    facts = [fact for item in read_text(UV, "paste") for fact in install_log.read(item)]
    assert [fact.version for fact in facts if isinstance(fact, Python)] == ["3.13"]


def test_names_of_requirements() -> None:
    assert [name_of(x) for x in ("Flash_Attn>=2", "jax[cuda12]", "pytorch::pytorch=1.9", "torch")] == [
        "flash-attn", "jax", "pytorch", "torch",
    ]  # fmt: skip


@settings(derandomize=True, max_examples=60)
@given(st.text(alphabet="pip install torch=<>-\"'\\\n`$ ()", max_size=300))
def test_no_text_makes_it_crash(text: str) -> None:
    read("$ pip install " + text)
