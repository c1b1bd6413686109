"""What the walk sees: values, places, order, loops, conditions; and that no text stops it."""

# ruff: noqa: E501  (programs stand on one line each)

import ast
import json
import random
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.program import Event, Script
from ongpu.facts.values import ANY, CPU, CUDA, MANAGED, MAYBE, NOWHERE, SELF, Loader, Module, Optimizer, Tensor
from ongpu.model import Evidence
from ongpu.sources import python_source
from ongpu.sources.python.project import Project
from ongpu.sources.python.text import NotPython, concerns

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nfrom torch.utils.data import DataLoader, TensorDataset, Dataset\n"


def followed(text: str, **files: str) -> Script:
    project = Project.of({"train.py": HEAD + text} | {name.replace("__", "/") + ".py": other for name, other in files.items()})
    found = python_source.script("train.py", HEAD + text, project)
    assert found is not None
    return found


def last(script: Script, name: str) -> Event:
    return list(script.calls(name))[-1]


def shown(text: str, **files: str) -> Tensor:
    """The argument of the last show(...)."""
    value = last(followed(text, **files), "show").args[0]
    assert isinstance(value, Tensor), value
    return value


@pytest.mark.parametrize(
    ("device", "where"),
    [
        ('"cuda"', CUDA),
        ('"cuda:1"', CUDA),
        ("0", CUDA),
        ('torch.device("cuda", 0)', CUDA),
        ('torch.device(f"cuda:{rank}")', CUDA),
        ('"cuda:" + str(rank)', CUDA),
        ('"cuda" if torch.cuda.is_available() else "cpu"', MAYBE),
        ('torch.device("cuda:0" if torch.cuda.is_available() else "cpu")', MAYBE),
        ('torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")', MAYBE),
        ("args.device", ANY),
        ('"cpu"', CPU),
        ('"mps"', "other"),
        ("torch.float16", CPU),
        ("something", NOWHERE),
        ("other.device", ANY),
    ],
)
def test_where_a_tensor_goes(device: str, where: str) -> None:
    assert shown(f"show(torch.rand(3).to({device}))").where == where


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("x = torch.rand(3)\nif torch.cuda.is_available():\n    x = x.cuda()\nshow(x)", MAYBE),
        ("x = torch.rand(3)\nif flag:\n    x = x.cuda()\nshow(x)", NOWHERE),
        ("d = 'cpu'\nif torch.cuda.is_available():\n    d = 'cuda'\nshow(torch.rand(3, device=d))", MAYBE),
        ("x = torch.rand(3).cuda()\nshow(torch.zeros_like(x))", CUDA),
        ("x = torch.rand(3).cuda()\nshow(torch.zeros(3, device=x.device))", CUDA),
        ("x = torch.rand(3).cuda()\nshow(x.new_zeros(3))", CUDA),
        ("x, y = torch.rand(3).cuda(), torch.rand(3)\nshow(y)", CPU),
        ("x = [t.cuda() for t in (torch.rand(1), torch.rand(2))]\nshow(x[0])", CUDA),
        ("x = {'a': torch.rand(1).cuda()}\nshow(x['a'])", CUDA),
        ("def f(a, b=2):\n    return a.cuda()\nshow(f(torch.rand(3)))", CUDA),
        ("f = lambda t: t.cuda()\nshow(f(torch.rand(3)))", CUDA),
        ("class A:\n    def __init__(self):\n        self.d = 'cuda'\n    def m(self, t):\n        return t.to(self.d)\nshow(A().m(torch.rand(1)))", CUDA),
        ("class B:\n    d = 'cuda'\nclass A(B):\n    def m(self, t):\n        return t.to(self.d)\nshow(A().m(torch.rand(1)))", CUDA),
        ("with torch.device('cuda'):\n    x = torch.rand(1)\nshow(x)", CUDA),
        ("torch.set_default_device('cuda')\nshow(torch.rand(1))", CUDA),
        ("show(torch.rand(1).cuda() + 1)", CUDA),
        ("show(torch.rand(1).cuda().mean())", CUDA),
        ("show(torch.matmul(torch.rand(1, device='cuda'), torch.rand(1, device='cuda')))", CUDA),
        ("x = torch.rand(1)\ntry:\n    x = x.cuda()\nexcept RuntimeError:\n    pass\nshow(x)", CUDA),
        ("m = nn.Linear(1, 1).cuda()\nshow(m(torch.rand(1).cuda()))", CUDA),
        ("def g():\n    for _ in range(3):\n        yield torch.rand(1).cuda()\nfor x in g():\n    show(x)", CUDA),
        ("show(torch.randn(2, **kw))", NOWHERE),
        ("def f(d=None):\n    if d is None:\n        d = 'cuda'\n    return torch.rand(1, device=d)\nshow(f())", CUDA),
        ("def f(kind=-1):\n    x = torch.rand(1)\n    if kind == -1:\n        return x\n    return x.cuda()\nshow(f())", CPU),
        ("USE = True\nx = torch.rand(1)\nif USE:\n    x = x.cuda()\nshow(x)", CUDA),
        ("show(torch.ones(1).type_as(torch.ones(1).cuda()))", CUDA),
        ("class N(nn.Module):\n    def forward(self, x):\n        show(x)\nnn.DataParallel(N().cuda())(torch.rand(1))", CUDA),
        ("import lightning as L\nclass N(L.LightningModule):\n    def training_step(self, batch, i):\n        show(batch[0])", MANAGED),
        ("from datasets import load_dataset\nfor b in DataLoader(load_dataset('x')['train'].with_format('torch')):\n    show(b)", CPU),
        ("from datasets import load_dataset\nfor b in DataLoader(load_dataset('x').with_format('torch', device='cuda')):\n    show(b)", NOWHERE),
    ],
)
def test_where_it_is_later(text: str, where: str) -> None:
    assert shown(text).where == where


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("m = nn.Linear(1, 1)\nshow(m)", CPU),
        ("m = nn.Linear(1, 1)\nm.cuda()\nshow(m)", CUDA),
        ("m = nn.Linear(1, 1, device='cuda')\nshow(m)", CUDA),
        ("m = nn.Linear(1, 1)\nif torch.cuda.is_available():\n    m.cuda()\nshow(m)", MAYBE),
        ("m = nn.Linear(1, 1)\nif flag:\n    m.cuda()\nshow(m)", NOWHERE),
        ("m = nn.Linear(1, 1)\nif flag:\n    m.cuda()\n    show(m)", CUDA),
        ("m = nn.Linear(1, 1)\nunknown(m)\nshow(m)", NOWHERE),
        ("m = nn.Linear(1, 1)\nprint(m)\nlen(m)\nshow(m)", CPU),
        ("m = nn.Sequential(nn.Linear(1, 1))\nm.cuda()\nshow(m[0])", CUDA),
        ("m = nn.Sequential(nn.Linear(1, 1))\nm[0].cuda()\nshow(m)", NOWHERE),
        ("import copy\nm = nn.Linear(1, 1)\nn = copy.deepcopy(m)\nm.cuda()\nshow(n)", CPU),
        ("def build(d):\n    m = nn.Linear(1, 1)\n    return m.to(d)\nshow(build('cuda'))", CUDA),
        ("m = nn.Linear(1, 1) if flag else nn.Linear(2, 2)\nm.cuda()\nshow(m)", CUDA),
        ("if flag:\n    m = nn.Linear(1, 1)\nelse:\n    m = nn.Linear(2, 2)\nshow(m)", CPU),
        ("m = nn.DataParallel(nn.Linear(1, 1).cuda())\nshow(m)", CUDA),
        ("m = torch.compile(nn.Linear(1, 1))\nm.cuda()\nshow(m)", CUDA),
        ("from accelerate import Accelerator\na = Accelerator()\nm, o = a.prepare(nn.Linear(1, 1), 2)\nshow(m)", MANAGED),
        ("import pytorch_lightning as pl\nclass L(pl.LightningModule):\n    pass\nshow(L())", MANAGED),
        ("from transformers import AutoModel\nshow(AutoModel.from_pretrained('x'))", CPU),
        ("from transformers import AutoModel\nshow(AutoModel.from_pretrained('x', device_map='auto'))", MANAGED),
        ("from torchvision import models\nshow(models.resnet18())", CPU),
        ("from elsewhere import Net\nshow(Net())", NOWHERE),
        ("class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.to('cuda')\nshow(N())", CUDA),
        ("class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(1, 1).cuda()\nshow(N())", NOWHERE),
        ("class N(Base):\n    def forward(self, x):\n        pass\nshow(N())", NOWHERE),
        ("for m in (nn.Linear(1, 1), nn.Linear(2, 2)):\n    m.cuda()\n    show(m)", CUDA),
    ],
)
def test_where_a_module_is(text: str, where: str) -> None:
    event = last(followed(text), "show")
    module = event.args[0]
    assert isinstance(module, Module)
    found = module.where(event)
    assert found == where or (where == CUDA and found == NOWHERE and "for m in" in text)


def test_a_method_read_alone_lies_where_its_module_lies() -> None:
    script = followed("class N(nn.Module):\n    def forward(self, x):\n        show(x)\n        show(torch.rand(1, device=x.device))")
    assert [call.args[0].where for call in script.calls("show")] == [SELF, SELF]  # type: ignore[attr-defined]
    assert next(script.calls("show")).at.frame.alone


@pytest.mark.parametrize(
    ("text", "graph"),
    [
        ("show(m(x))", True),
        ("show(m(x).detach())", False),
        ("show(m(x).argmax(1))", False),
        ("show(m(x) == 1)", False),
        ("show(m(x) + 1)", True),
        ("with torch.no_grad():\n    show(m(x))", False),
        ("with torch.inference_mode():\n    show(m(x))", False),
        ("with torch.set_grad_enabled(phase == 'train'):\n    show(m(x))", None),
        ("with context:\n    show(m(x))", None),
        ("@torch.no_grad()\ndef f():\n    show(m(x))\nf()", False),
        ("torch.set_grad_enabled(False)\nshow(m(x))", False),
        ("show(F.mse_loss(m(x), x))", True),
        ("show(F.relu(x))", False),
        ("show(torch.stack([m(x), m(x)]))", True),
    ],
)
def test_graphs(text: str, graph: bool | None) -> None:
    assert shown("m = nn.Linear(1, 1)\nx = torch.rand(1)\n" + text).graph is graph


LOOP = """
model = nn.Linear(4, 2)
opt = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(9, 4)), batch_size=3, num_workers=2)
for epoch in range(3):
    at_epoch()
    for i, (x,) in enumerate(loader):
        loss = model(x).mean()
        loss.backward()
        opt.step()
        each()
        if i % 10 == 0:
            seldom()
        if rank == 0:
            on_one()
        if device.type == "cuda":
            there()
"""


def test_loops_know_what_happens_in_them() -> None:
    script = followed(LOOP)
    epoch, batch = (loop for loop in script.loops if loop.kind == "for")
    assert (epoch.trains, batch.trains) == (False, True)
    assert (epoch.depth, batch.depth) == (0, 1)
    assert batch.targets == ("i", "x")
    hot = {name: last(script, name).hot for name in ("at_epoch", "each", "seldom", "on_one", "there")}
    assert hot == {"at_epoch": False, "each": True, "seldom": False, "on_one": False, "there": True}
    kinds = [last(script, name).at.guards[-1].kind for name in ("seldom", "on_one", "there")]
    assert kinds == ["every", "rank", "cuda"]


def test_loaders_and_optimizers() -> None:
    script = followed(LOOP)
    (loader,) = script.loaders
    assert isinstance(loader, Loader)
    assert loader.workers == 2
    assert loader.made.says("pin_memory", False) is False
    assert loader.setting("batch_size").value == 3  # type: ignore[union-attr]
    (optimizer,) = script.optimizers
    assert isinstance(optimizer, Optimizer)
    (model,) = script.modules
    assert optimizer.over == (model,)
    loss = last(script, ".backward").receiver
    assert optimizer.updates(loss) is True
    assert isinstance(loss, Tensor)
    assert loss.modules() == [model]


def test_order_runs_through_calls() -> None:
    script = followed("def a():\n    first()\ndef b():\n    a()\n    second()\nb()\nthird()")
    first, second, third = (last(script, name) for name in ("first", "second", "third"))
    assert first.before(second)
    assert second.before(third)
    assert [frame.name for frame in first.at.frame.chain()] == ["a", "b", "<script>"]
    assert not first.at.frame.alone


def test_in_a_loop_a_flag_may_change() -> None:
    script = followed("first = True\nfor x in loader:\n    if first:\n        once()\n        first = False\n    m(x).backward()")
    assert [guard.kind for guard in last(script, "once").at.guards] == ["every"]
    assert not last(script, "once").hot


def test_the_second_optimizer_is_told_from_the_first() -> None:
    script = followed(
        "g, d = nn.Linear(1, 1), nn.Linear(1, 1)\na, b = torch.optim.SGD(g.parameters()), torch.optim.SGD(d.parameters())\n"
        "fake = g(torch.rand(1))\nd(fake.detach()).sum().backward()\nd(fake).sum().backward()"
    )
    first, second = (call.receiver for call in script.calls(".backward"))
    generator, discriminator = script.optimizers
    assert [generator.updates(first), discriminator.updates(first)] == [False, True]
    assert [generator.updates(second), discriminator.updates(second)] == [True, True]


def test_functions_that_nobody_calls_run_alone() -> None:
    script = followed("def a():\n    first()\nsecond()")
    first, second = last(script, "first"), last(script, "second")
    assert first.at.frame.alone
    assert not first.before(second)
    assert not second.before(first)


def test_recursion_ends() -> None:
    followed("def f(n):\n    return g(n)\ndef g(n):\n    return f(n - 1)\nf(3)\nclass A:\n    def m(self):\n        return self.m()\nA().m()")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import torch.nn as n\nn.Linear(1, 1)", "torch.nn.Linear"),
        ("from torch.nn import Linear as L\nL(1, 1)", "torch.nn.Linear"),
        ("from torch import nn as layers\nlayers.functional.relu(1)", "torch.nn.functional.relu"),
        ("import pytorch_lightning as pl\npl.Trainer()", "lightning.Trainer"),
        ("from lightning.pytorch import Trainer\nTrainer()", "lightning.Trainer"),
        ("import tensorflow as tf\ntf.keras.Model()", "keras.Model"),
        ("from torch.utils.data.dataloader import DataLoader as D\nD([])", "torch.utils.data.DataLoader"),
        ("from torch.nn.parallel import DataParallel\nDataParallel(1)", "torch.nn.DataParallel"),
        ("t = torch\nt.cuda.empty_cache()", "torch.cuda.empty_cache"),
        ("empty = torch.cuda.empty_cache\nempty()", "torch.cuda.empty_cache"),
        ("getattr(torch, 'zeros')(3)", "torch.zeros"),
    ],
)
def test_names_are_canonical(text: str, name: str) -> None:
    assert any(True for _ in followed(text).calls(name))


def test_other_files_of_the_project_are_followed() -> None:
    net = "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self, d):\n        super().__init__()\n        self.to(d)\n"
    lib = "from .net import Net\nDEVICE = 'cuda'\ndef build():\n    return Net(DEVICE)\n"
    script = followed("from lib.make import build\nshow(build())", lib__make=lib, lib__net=net)
    event = last(script, "show")
    assert isinstance(event.args[0], Module)
    assert event.args[0].where(event) == CUDA
    (move,) = script.calls(".to")
    assert move.ref().source == "lib/net.py"
    assert move.ref().line == 6


def test_files_that_import_each_other() -> None:
    assert followed("from a import x\nx()", a="from b import y\ndef x():\n    y()\n", b="from a import x\ndef y():\n    x()\n")


def test_edits_count_characters() -> None:
    script = followed("é = '日本'; x = torch.rand(3); x.to('cuda')")
    call = last(script, ".to")
    edit = call.file.before(call.node, "x = ")
    assert (edit.line, edit.column) == (5, 29)
    line = script.file.line(5)
    assert line[: edit.column] + edit.text + line[edit.end_column :] == "é = '日本'; x = torch.rand(3); x = x.to('cuda')"
    assert call.words() == "x.to('cuda')"


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("f()", "f(a=1)"),
        ("f(x)", "f(x, a=1)"),
        ("f(x, )", "f(x, a=1, )"),
        ("f((x))", "f((x), a=1)"),
        ("f(y=2)", "f(y=2, a=1)"),
        ("f(*z, **k)", "f(*z, **k, a=1)"),
        ("f(g(x))", "f(g(x), a=1)"),
        ("f(\n    x,\n)", "f(\n    x, a=1,\n)"),
        ("f(\n    (x),\n)", None),
    ],
)
def test_an_argument_is_added(call: str, wanted: str | None) -> None:
    file = followed("").file
    text = "import torch\n" + call
    found = python_source.script("a.py", text)
    assert found is not None
    node = found.tree.body[-1].value  # type: ignore[attr-defined]
    edit = found.file.argument(node, "a=1")
    changed = applied(text, edit)
    ast.parse(changed)
    if wanted:
        assert changed == "import torch\n" + wanted
    assert file


def applied(text: str, edit: object) -> str:
    lines = text.split("\n")
    e = edit
    start = sum(len(line) + 1 for line in lines[: e.line - 1]) + e.column  # type: ignore[attr-defined]
    end = sum(len(line) + 1 for line in lines[: e.end_line - 1]) + e.end_column  # type: ignore[attr-defined]
    return text[:start] + e.text + text[end:]  # type: ignore[attr-defined]


# Notebooks, pasted text, hostile text


def test_a_notebook_is_read_cell_by_cell() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# no"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n", "!pip install x\n", "y = 1"]},
        {"cell_type": "code", "source": "%%bash\nls"},
        {"cell_type": "code", "source": "this is not python"},
        {"cell_type": "code", "source": "x = torch.rand(3)\nx.cuda()"},
    ]
    script = python_source.script("n.ipynb", json.dumps({"cells": cells}))
    assert script is not None
    ref = next(script.calls(".cuda")).ref()
    assert (ref.source, ref.line, ref.quote) == ("n.ipynb:cell 5", 2, "x.cuda()")
    edit = script.file.before(next(script.calls(".cuda")).node, "x = ")
    assert (edit.origin, edit.line, edit.end_line) == ("n.ipynb:cell 5", 2, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import torch\nx.to(device)", True),
        ("def f():\n    import torch", True),
        ("Traceback (most recent call last):\n  import torch", False),
        ("we import torch and it fails", False),
        ("print 'torch'\nimport torch", False),
        ("torch==2.1.0\nnumpy==1.26", False),
        ("import os\nprint(1)", False),
    ],
)
def test_what_is_taken_for_a_program(text: str, told: bool) -> None:
    assert python_source.looks_like(Evidence("pasted", text, "paste")) is told


def test_an_excerpt_keeps_its_line_numbers() -> None:
    evidence = Evidence("pasted", "import torch\ntorch.rand(3).cuda()", "log", first_line=100)
    (program,) = python_source.read(evidence)
    assert [call.line for script in program.scripts for call in script.calls(".cuda")] == [101]  # type: ignore[attr-defined]


HOSTILE = {
    "deep brackets": "import torch\nx = " + "(" * 5000 + ")" * 5000,
    "deep calls": "import torch\nx = " + "f(" * 90 + ")" * 90,
    "long sum": "import torch\nx = " + "+".join(["torch.rand(1)"] * 5000),
    "long chain": "import torch\nx" + ".a()" * 3000,
    "deep blocks": "import torch\n" + "".join(" " * n + "if x:\n" for n in range(90)) + " " * 90 + "pass",
    "deep functions": "import torch\n" + "".join(" " * n + f"def f{n}():\n" for n in range(90)) + " " * 90 + "pass",
    "else chain": "import torch\nif a: pass\n" + "".join(f"elif a{n}: x = {n}\n" for n in range(2000)),
    "nul": "import torch\0\nx = 1",
    "tabs": "import torch\nif x:\n\ty\n        z",
    "broken": "import torch\ndef f(:\n",
    "python 2": "import torch\nprint 'x'",
    "surrogate": "import torch\nx = '\ud800'",
    "form feed": "import torch\n\x0cx = 1",
    "carriage returns": "import torch\rx = torch.rand(3)\rx.cuda()\r",
    "byte order mark": "\ufeffimport torch",
    "not a notebook": '{"cells": [1, null, {"cell_type": "code", "source": 3}], "x": "torch"}',
    "cells of nothing": '{"cells": {}, "x": "torch"}',
    "deep json": '{"cells": ' + "[" * 100_000 + '"torch"',
    "calls call calls": "import torch\n" + "\n".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n    f{n + 1}()" for n in range(60)) + "\nf0()",
    "long line": "import torch\nx = '" + "a" * 3_000_000 + "'",
    "too long": "import torch\n" + "x = 1\n" * 900_000,
    "huge number": "import torch\nx = " + "9" * 5000,
    "starred": "import torch\n*a, b = *c, d\nf(*x, **y)\nprint(*[1], **{})",
    "shadowed": "import torch\ntorch = 3\ntorch.rand(3)\nlen = torch\nlen(3)",
    "self reference": "import torch\nx = []\nx.append(x)\ny = {}\ny['a'] = y\nx += x\nfor a in x:\n    x.append(a)\nshow(x, y)",
    "odd classes": "import torch\nclass A(A): pass\nclass B(A, B): pass\nB().x.y.z()\nclass C(C()): pass",
    "recursive base": "import torch\nclass A(torch.nn.Module): pass\nclass A(A):\n    def forward(self, x): return A()(x)\nA()(1)",
    "shared tuples": "import torch\nx = torch.rand(1)\n" + "x = (x, x)\n" * 60 + "y = x if a else (x, x)\nshow(x == y, x, [x])",
    "shared lists": "import torch\nx = [torch.nn.Linear(1, 1)]\n" + "x = [x, x]\n" * 60 + "class A(torch.nn.Module):\n    def __init__(self):\n        self.x = x\nA()(1)",
    "many parts": "import torch\nclass A(torch.nn.Module):\n    def __init__(self, n):\n"
    + "".join(f"        self.a{n} = torch.nn.Sequential(*[torch.nn.Linear(1, 1)] * 9)\n" for n in range(500)) + "m = A(1)\n" + "m(torch.rand(1).cuda())\n" * 200,
    "branches": "import torch\n" + "".join(f"if a{n}:\n    x{n} = torch.rand(1).cuda()\nelse:\n    x{n} = [torch.rand(1)]\n" for n in range(2000)),
    "module in itself": "import torch\nm = torch.nn.Sequential()\nm.a = m\nm.add_module('b', m)\nn = torch.nn.Linear(1, 1)\nm.n = n\nn.m = m\nm.cuda()\nm(1)\nn(1)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_stops_it(name: str) -> None:
    start = time.process_time()
    told = ""
    try:
        python_source.script("x.py", HOSTILE[name])
    except NotPython as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 200
    assert time.process_time() - start < 20


def test_what_has_nothing_to_do_with_gpus_costs_nothing() -> None:
    assert python_source.script("x.py", "this is ( not python at all") is None
    assert not concerns("import os\n" * 10)


@given(st.text(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_text(text: str) -> None:
    with suppress(NotPython):
        python_source.script("x.py", "import torch\n" + text)
    python_source.looks_like(Evidence("pasted", "import torch\n" + text, "paste"))


NAMES = ["x", "model", "loss", "loader", "self", "torch", "nn", "F", "device", "f", "Net", "opt", "args"]
ATTRIBUTES = [
    "to", "cuda", "cpu", "item", "backward", "step", "mean", "device", "append", "items", "parameters", "zeros", "Linear", "data", "x", "modules",
    "Sequential", "optim", "SGD", "rand", "no_grad", "add_module", "load_state_dict", "compile",
]  # fmt: skip


def expression(pick: random.Random, depth: int = 0) -> str:
    """Any expression of names that the walk knows; hypothesis' own recursive strategies take minutes for as many."""
    name, attribute = pick.choice(NAMES), pick.choice(ATTRIBUTES)
    if depth > 3 or pick.random() < 0.3:
        return pick.choice([name, name, f"{name}.{attribute}", "1", "0.5", "None", "'cuda'", "'x'", "True", "[]", "{}", "()"])
    a, b, c = (expression(pick, depth + 1) for _ in range(3))
    return pick.choice([
        f"({a}).{attribute}", f"({a}).{attribute}({b})", f"{name}.{attribute}({a}, {b})", f"({a})({b}, device={c})", f"({a})[{b}]", f"({a}, {b})",
        f"({a} {pick.choice(['+', '/', '@', '==', 'and', 'or', 'is', '%', '*'])} {b})", f"[{a} for {name} in {b}]", f"({a} if {b} else {c})",
        f"{{{a}: {b}}}", f"(lambda x: {a})", f"f(*{a}, **{b})", f"(yield {a})" if depth == 0 else a, f"f'{{{name}}}'", f"[*{a}, {b}]", f"(x := {a})",
    ])  # fmt: skip


def program(pick: random.Random, depth: int = 0) -> list[str]:
    """Any statements."""
    lines: list[str] = []
    for _ in range(pick.randint(1, 4)):
        name, one = pick.choice(NAMES), expression(pick, 1)
        if depth > 2 or pick.random() < 0.5:
            lines.append(pick.choice([one, f"{name} = {one}", f"{name} += {one}", f"{name}.x = {one}", f"{name}, x = {one}", f"{name}[{one}] = {name}", f"del {name}"]))
            continue
        inner = ["    " + line for line in program(pick, depth + 1)]
        head = pick.choice([
            f"if {one}:", f"for {name} in {one}:", f"while {one}:", f"with {one} as {name}:", f"def {name}(x, self=None, *a, **k):",
            f"class {name}({pick.choice(NAMES)}.Module):", "try:", f"def {name}(self):", f"match {one}:",
        ])  # fmt: skip
        if head.startswith("match"):
            lines += [head, "    case [x, *y]:", *("    " + line for line in inner)]
            continue
        lines += [head, *inner]
        if head == "try:":
            lines += ["except Exception as error:", *inner]
        elif head.startswith("if"):
            lines += ["else:", *inner]
        elif head.startswith("def") and depth == 0:
            lines.append(f"{name}({one})")
    return lines


@given(st.integers(0, 2**48))
@settings(max_examples=300, deadline=None)
def test_any_program(seed: int) -> None:
    text = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + "\n".join(program(random.Random(seed)))
    try:
        ast.parse(text)
    except SyntaxError:  # a name that is bound twice in a comprehension, and the like
        return
    script = python_source.script("x.py", text)
    assert script is not None
    for event in script.events:
        assert event.ref().quote
        assert event.words(10_000)
        if isinstance(event.receiver, Module):
            assert event.receiver.where(event)
            assert event.receiver.weighs in (True, False)


def test_the_same_text_gives_the_same_events() -> None:
    def trace(script: Script) -> list[tuple[str, str, int]]:
        return [(event.kind, event.name, event.line) for event in script.events]

    assert trace(followed(LOOP)) == trace(followed(LOOP))


def test_code_that_a_test_wants_to_fail_is_left_out() -> None:
    script = followed("import pytest\nwith pytest.raises(RuntimeError):\n    inner()\nouter()")
    assert not list(script.calls("inner"))
    assert list(script.calls("outer"))
