"""Real PyTorch and IPython: what `check` sees, that it changes nothing, and the diagnosis below a real exception.

No GPU: "meta" tensors stand for those on a GPU, whose operations refuse CPU tensors likewise.
"""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from parts.interpreters import run, with_modules

pytestmark = pytest.mark.real

NET = """
import json, torch
from torch import nn
import ongpu
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.rnn = nn.Linear(4, 4), nn.LSTM(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.wn = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.old = torch.nn.utils.spectral_norm(nn.Linear(4, 4))
        self.bn = nn.BatchNorm1d(4)
    def forward(self, x):
        return self.old(self.wn(self.bn(self.fc(x) + self.mean)))
def told(found):
    return [[f.slug, f.variant, f.weight.name, f.certainty.name] for f in found.findings]
"""


def answer(code: str, tmp_path: Path) -> Any:
    """What the code prints, as JSON, in an interpreter with torch."""
    done = run(with_modules("torch"), "-c", NET + textwrap.dedent(code), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_healthy_model_in_training_raises_nothing(tmp_path: Path) -> None:
    code = """
        net = Net(); optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(2):
            net(torch.randn(3, 4)).sum().backward(); optimizer.step(); optimizer.zero_grad()
        found = ongpu.check(net, {"x": torch.randn(3, 4), "lengths": [3]}, optimizer)
        compiled = ongpu.check(torch.compile(net), torch.randn(3, 4), torch.optim.SGD(net.parameters(), momentum=0.9))
        rows = {row[0] for row in found.objects.table()}
        print(json.dumps([told(found), told(compiled), sorted(rows), found.verdict.name]))
    """
    assert answer(code, tmp_path) == [[], [], ["buffer", "input", "optimizer", "parameter"], "UNKNOWN"]


def test_nothing_is_computed_copied_or_drawn(tmp_path: Path) -> None:
    code = """
        import warnings
        from torch.utils._python_dispatch import TorchDispatchMode
        warnings.simplefilter("error")
        class Count(TorchDispatchMode):
            seen = 0
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                Count.seen += 1
                return function(*args, **(kwargs or {}))
        net = Net(); net.hidden = [nn.Linear(2, 2)]; net.mask = torch.zeros(3); net.last = net.fc(torch.ones(1, 4)) * 2
        optimizer = torch.optim.AdamW(net.parameters())
        net(torch.randn(3, 4)).sum().backward(); optimizer.step()
        before = torch.get_rng_state(); gradients = [p.grad.clone() for p in net.parameters() if p.grad is not None]
        batch = [torch.ones(2, 4)]
        with Count():
            found = ongpu.check(net, batch, optimizer); repr(found); found._repr_html_()
        same = all(torch.equal(a, p.grad) for a, p in zip(gradients, (p for p in net.parameters() if p.grad is not None)))
        print(json.dumps([Count.seen, torch.equal(before, torch.get_rng_state()), same, torch.cuda.is_initialized()]))
    """
    assert answer(code, tmp_path) == [0, True, True, False]


FAULTS = [
    ("net = Net(); net.to('meta'); net.head = nn.Linear(4, 2)", []),  # not known to be a GPU
    (
        "net = nn.Linear(4, 4, device='meta'); o = torch.optim.SGD(net.parameters()); net.to_empty(device='cpu')",
        ["optimizer-before-move", "stale", "ERROR", "CERTAIN"],
    ),
    (
        "net = Net(); o = torch.optim.SGD(net.parameters()); net.head = nn.Linear(4, 2)",
        ["optimizer-before-move", "missing", "WARNING", "POSSIBLE"],
    ),
    (
        "net = Net(); net.blocks = [nn.Linear(4, 4) for _ in range(2)]",
        ["module-not-registered", "live", "ERROR", "LIKELY"],
    ),
    (
        "net = Net(); net.scale = [nn.Parameter(torch.ones(4))]; o = torch.optim.SGD(net.parameters())",
        ["module-not-registered", "live", "ERROR", "CERTAIN"],
    ),
    ("net, x = Net(), torch.zeros(2, 4, dtype=torch.float64)", ["dtype-mismatch", "live", "ERROR", "LIKELY"]),
    ("net = Net(); net.mask = torch.zeros(4, 4)", ["tensor-created-on-cpu", "attribute", "NOTE", "POSSIBLE"]),
    ("net, x = nn.Linear(4, 4), torch.nn.utils.rnn.pack_sequence([torch.ones(3, 4)])", []),
]


@pytest.mark.parametrize(("code", "expected"), FAULTS)
def test_faults(code: str, expected: list[str], tmp_path: Path) -> None:
    found = answer(f"o = x = None\n{code}\nprint(json.dumps(told(ongpu.check(net, x, o))))", tmp_path)
    assert found == ([expected] if expected else [])


def test_it_is_fast(tmp_path: Path) -> None:
    """A model of 3000 layers with its Adam state (24,000 tensors) is looked at in seconds, not minutes."""
    code = """
        import time
        net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3000))); o = torch.optim.Adam(net.parameters())
        net(torch.ones(1, 8)).sum().backward(); o.step()
        ongpu.check(nn.Linear(1, 1)); start = time.process_time(); found = ongpu.check(net, None, o)
        print(json.dumps([time.process_time() - start, told(found)]))
    """
    seconds, found = answer(code, tmp_path)
    assert not found
    assert seconds < 20


ON_GPU = "net(torch.zeros(2, 4, device='meta'))"
# In __init__, in forward, at the top; the cause, and the operand that is named.
CASES = {
    "attribute": (
        "self.mask = torch.ones(4)", "return self.fc(x) * self.mask", ON_GPU, "tensor-created-on-cpu", "self.mask: cpu, float32 [4]",
    ),
    "input": ("", "return self.fc(x)", "x = torch.zeros(2, 4)\nnet(x)", "input-not-moved", "x: cpu, float32 [2, 4]"),
    "batch": ("", "return self.fc(x)", "batch = {'x': torch.zeros(2, 4)}\nnet(batch['x'])", "input-not-moved", "x: cpu, float32 [2, 4]"),
    "made": (
        "", "noise = torch.ones(2, 4)\n        return self.fc(x) + noise", ON_GPU, "tensor-created-on-cpu", "noise: cpu, float32 [2, 4]",
    ),
    "listed": (
        "self.layers = [nn.Linear(4, 4)]", "for layer in self.layers:\n            x = layer(x)\n        return x", ON_GPU,
        "module-not-registered", "layer: Linear, weights on cpu",
    ),
    "replaced": (
        "", "return self.fc(x)", "net.fc = nn.Linear(4, 4)\n" + ON_GPU, "model-not-moved", "self.fc: Linear, weights on cpu",
    ),
    "types": (
        "", "return self.fc(x)", "net = Net()\nnet(torch.zeros(2, 4, dtype=torch.float64))", "dtype-mismatch", "x: cpu, float64 [2, 4]",
    ),
}  # fmt: skip
MAKE = "import torch; net = torch.nn.Linear(2, 2).to('meta'); x = torch.zeros(1, 2)"
CELLS = ["1/0", "{}['cuda']", MAKE, "net(x)", "%run train.py", "2+2"]


def script(init: str, forward: str, use: str) -> str:
    return (
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.fc = nn.Linear(4, 4)\n        {init or 'pass'}\n    def forward(self, x):\n        {forward}\n"
        f"net = Net().to('meta')\n{use}\n"
    )


@pytest.mark.parametrize("name", CASES)
def test_the_hook_names_the_operand_that_is_astray(name: str, tmp_path: Path) -> None:
    *parts, slug, seen = CASES[name]
    (tmp_path / "train.py").write_text(script(*parts))
    stderr = run(with_modules("torch"), "-m", "ongpu.hook", "train.py", cwd=tmp_path).stderr
    traceback, _, diagnosis = stderr.partition("\nongpu: why this was raised\n")
    assert traceback.startswith(f'Traceback (most recent call last):\n  File "{tmp_path}/train.py", line 1')
    assert "ongpu" not in traceback.replace(str(tmp_path), "")
    assert f"error: {slug}" in diagnosis, diagnosis
    assert seen in diagnosis


def test_ipython(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script(*CASES["attribute"][:3]))
    (tmp_path / "cells.py").write_text(
        f"CELLS = {CELLS!r}\n"
        + textwrap.dedent(
            """
            from IPython.core.interactiveshell import InteractiveShell
            shell = InteractiveShell.instance()
            mine = []
            shell.set_custom_exc((KeyError,), lambda *a, **k: print("custom handler"))
            shell.events.register("post_run_cell", mine.append)
            shell.run_cell("%load_ext ongpu")
            for cell in CELLS:
                print("CELL", cell)
                shell.run_cell(cell)
            shell.run_cell("%unload_ext ongpu")
            print("CELL unloaded")
            shell.run_cell("net(x)")
            print("CELL", len(mine))
            """
        )
    )
    done = run(with_modules("torch", "IPython"), "cells.py", cwd=tmp_path, IPYTHONDIR=str(tmp_path / "ipython"))
    assert done.returncode == 0, done.stderr
    cells = done.stdout.split("CELL ")
    diagnosed = [number for number, cell in enumerate(cells) if "why this was raised" in cell]
    assert diagnosed == [4, 5], done.stdout
    assert "custom handler" in cells[2]
    assert cells[4].index("Tensor on device") < cells[4].index("ongpu: why")
    assert "input-not-moved" in cells[4]
    assert "self.mask: cpu, float32 [4]" in cells[5]
    assert cells[8].strip() == "9"
