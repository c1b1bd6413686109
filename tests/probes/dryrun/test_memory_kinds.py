"""Memory by kind of operation, in set-ups small enough to reckon by hand."""

import json
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from parts.interpreters import SRC, bare

pytestmark = pytest.mark.real
FOLDER = SRC / "ongpu" / "probes" / "dryrun"
HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
MIB = 1 << 20
def mark():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()
def told(name, before):
    print(name, (torch.cuda.max_memory_allocated() - before) // MIB, (torch.cuda.max_memory_reserved() - before) // MIB)
"""


def printed(folder: Path, script: str, capability: tuple[int, int] = (8, 0)) -> dict[str, tuple[int, int]]:
    """name -> MiB that were allocated and reserved at the peak since its mark."""
    path, told, answer = folder / "script.py", folder / "spec.json", folder / "answer.json"
    path.write_text(HEAD + dedent(script), "utf-8")
    card = {"name": "A", "total": 80 << 30, "capability": capability, "sms": 108, "context": 0}
    told.write_text(json.dumps({"answer": str(answer), "card": card, "seconds": 100}), "utf-8")
    done = subprocess.run([bare("torch"), str(FOLDER), str(told), str(path)], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(answer.read_text("utf-8"))
    assert found["outcome"] == "finished", found["error"]
    rows = (line.split() for line in done.stdout.splitlines())
    return {name: (int(allocated), int(reserved)) for name, allocated, reserved in rows}


@pytest.mark.parametrize("name", ["silu", "mish"])
def test_gradients_that_are_one_kernel(tmp_path: Path, name: str) -> None:
    found = printed(
        tmp_path,
        f"""
        x = torch.randn(25, MIB, device="cuda", requires_grad=True)
        before = mark()
        F.{name}(x).sum().backward()
        told("{name}", before)
        """,
    )
    assert found[name][0] == 100  # the output, then the gradient: a build without CUDA would make ten small operations of it


def test_rms_norm_keeps_its_input_and_one_number_a_row(tmp_path: Path) -> None:
    found = printed(
        tmp_path,
        """
        x = torch.randn(1024, 25600, device="cuda", requires_grad=True)
        w = torch.ones(25600, device="cuda", requires_grad=True)
        before = mark()
        y = F.rms_norm(x, (25600,), w)
        told("forward", before)
        """,
    )
    assert found["forward"][0] == 100


SCRIPT = """
def run(name, channels, out, groups, last):
    conv = nn.Conv2d(channels, out, 3, padding=1, groups=groups).cuda()
    x = torch.randn(32, channels, 160, 160, device="cuda")
    if last:
        x, conv = x.to(memory_format=torch.channels_last), conv.to(memory_format=torch.channels_last)
    grad = torch.randn(32, out, 160, 160, device="cuda").to(memory_format=torch.channels_last if last else torch.contiguous_format)
    y = conv(x)
    before = mark()
    y.backward(grad)
    told(name, before)
run("first", 64, 64, 1, False)
run("last", 64, 64, 1, True)
run("depthwise", 64, 64, 64, False)
run("narrow", 64, 32, 1, False)
"""


def test_workspace_of_a_convolution(tmp_path: Path) -> None:
    found = printed(tmp_path, SCRIPT)
    assert 800 <= found["first"][0] <= 804  # twice the input and the gradient, 200 MiB each; and the weights' gradient
    assert found["last"][0] < 4
    assert found["depthwise"][0] < 4
    assert found["narrow"][0] < 4


def test_no_workspace_where_there_are_no_tensor_cores_for_it(tmp_path: Path) -> None:
    assert printed(tmp_path, SCRIPT, (7, 0))["first"][0] < 4


def test_tensors_made_under_a_device_context(tmp_path: Path) -> None:
    found = printed(
        tmp_path,
        """
        with torch.device("meta"):
            a, b = torch.tensor([1.0]), nn.Linear(1024, 1024)
        assert a.device.type == b.weight.device.type == "meta"
        before = mark()
        b = b.to_empty(device="cuda")
        with torch.device("cuda"):
            c = torch.tensor([1.0, 2.0])
        assert str(c.device) == "cuda:0" == str(b.weight.device)
        told("moved", before)
        """,
    )
    assert found["moved"][0] == 4
