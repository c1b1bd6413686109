import pytest
from asking import explain

from ongpu.hosts.programs import is_program


@pytest.mark.parametrize(
    "text", ["import torch\nprint(1)", "from torch import nn\n", "def f():\n    return jax\n", "x = cuda\nclass A:\n    pass"]
)
def test_a_program(text: str) -> None:
    assert is_program(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1",
        "import os\nprint(1)",
        "import error: no module",
        "import torch\n>>> torch.cuda",
        "the import torch line\nimport torch\nfails so",
        "import torch\n" + "(" * 9000,
    ],
)
def test_no_program(text: str) -> None:
    assert not is_program(text)


def test_the_lines_of_a_program_are_not_read_as_output() -> None:
    text = "import torch\nimport deepspeed\nconfig = {'offload_optimizer': {'device': 'cpu'}}\nprint('CUDA out of memory')\n"
    assert not explain(text).findings


def test_the_comments_of_a_program_are_read_as_words() -> None:
    text = "import torch\n\nx = 1  # RuntimeError: CUDA error: the launch timed out and was terminated\n"
    report = explain(text)
    assert report.findings[0].slug == "display-watchdog-timeout"
    assert report.findings[0].refs[0].line == 3
