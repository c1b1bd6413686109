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


PROGRAM = "import torch\n\ndef main():\n    return torch.zeros(1).cuda()\n\nmain()\n"


@pytest.mark.parametrize(
    ("said", "slug"),
    [
        ('"""\nAssertionError: Torch not compiled with CUDA enabled\n"""\n', "cpu-only-build"),
        (
            "'''\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
            "ImportError: libcudnn.so.8: cannot open shared object file\n'''",
            "cudnn-missing",
        ),
    ],
)
def test_an_error_in_a_string_below_a_program_is_read(said: str, slug: str) -> None:
    report = explain(PROGRAM + said)
    assert report.findings[0].slug == slug
    assert report.findings[0].refs[0].line > PROGRAM.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        '"""\nRaises AssertionError: Torch not compiled with CUDA enabled\n"""\n' + PROGRAM,  # its docstring
        PROGRAM + "'''\nmodel = model.to('cpu')  # Torch not compiled with CUDA enabled\n'''\n",  # code that was taken out
        PROGRAM + "x = '''\nAssertionError: Torch not compiled with CUDA enabled\n'''\n",  # a value
    ],
)
def test_other_strings_of_a_program_are_not(text: str) -> None:
    assert not [f for f in explain(text).findings if f.slug == "cpu-only-build"]
