# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import lint, slugs

from ongpu.model import Severity


@pytest.mark.parametrize(
    "text",
    [
        "torch._dynamo hit config.cache_size_limit (64)\n"
        "   function: 'forward' (model.py:12)\n"
        "   last reason: tensor 'L['x']' size mismatch at index 0. expected 2, actual 3",
        "[__recompiles] Recompiling function f in x.py:1\n"
        "[__recompiles] Recompiling function f in x.py:1\n"
        "[__recompiles] Recompiling function f in x.py:1\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "torch-compile-recompiles"


HEAD = "import torch\nfrom torch import nn\nmodel = nn.Linear(4, 2).cuda()\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
STEP = "    opt.zero_grad()\n    model(x.cuda()).mean().backward()\n    opt.step()\n"
COUNTER = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        return self.fc(x)
model = torch.compile(Net().cuda())
for x in data:
    model(x.cuda()).mean().backward()
"""


def _variants(text: str) -> list[tuple[str, int, bool]]:
    return [(f.variant, f.refs[0].line, f.weight > Severity.NOTE) for f in lint(text).findings if f.slug == "torch-compile-recompiles"]


@pytest.mark.parametrize(
    ("text", "variant", "line"),
    [
        (HEAD + "for x in data:\n    fast = torch.compile(model)\n    opt.zero_grad()\n    fast(x.cuda()).mean().backward()\n    opt.step()\n", "loop", 6),
        (HEAD + "for epoch in range(9):\n    model = torch.compile(model)\n    for x in data:\n" + STEP.replace("    ", "        "), "loop", 6),
        (HEAD + "with torch.no_grad():\n    for x in data:\n        y = torch.compile(model, mode='max-autotune')(x.cuda())\n", "loop", 7),
        (HEAD + "def step(x):\n    torch.compile(model)(x).mean().backward()\n    opt.step()\nfor x in data:\n    step(x)\n", "loop", 6),
        (HEAD + "def f(x):\n    return model(x)\nwhile True:\n    x = next(it)\n    g = torch.compile(f)\n    g(x).mean().backward()\n    opt.step()\n", "loop", 9),
        ("import torch\nfrom torch import nn\nclass N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 2)\n    def forward(self, x):\n        def f(x):\n            return self.fc(x)\n        return torch.compile(f)(x)\nN()(x)\n", "forward", 10),
        (COUNTER, "attribute", 9),
    ],
)
def test_found_in_source(text: str, variant: str, line: int) -> None:
    assert _variants(text) == [(variant, line, True)]


NUMBER = HEAD + "@torch.compile\ndef step(x, i):\n    return model(x) * i\nfor i, x in enumerate(data):\n    step(x.cuda(), i).mean().backward()\n"


def test_a_counter_as_argument_is_a_note() -> None:
    assert _variants(NUMBER) == [("number", 9, False)]
    fast = HEAD + "fast = torch.compile(model{})\nfor i in range(9):\n    fast(x, i * 2).mean().backward()\n"
    assert _variants(fast.format("")) == [("number", 7, False)]
    assert _variants(fast.format(", dynamic=False")) == [("number", 7, True)]
    assert _variants(fast.format(", dynamic=True")) == []


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "model = torch.compile(model)\nfor x in data:\n" + STEP,
        HEAD + "for mode in ('default', 'max-autotune'):\n    fast = torch.compile(model, mode=mode)\n    for x in data:\n        fast(x.cuda())\n",
        "import torch\nfrom torch import nn\nfor seed in range(3):\n    model = nn.Linear(4, 2).cuda()\n    model = torch.compile(model)\n    for x in data:\n        model(x.cuda()).mean().backward()\n",
        "import torch\nfrom torchvision.models import vit_b_16\nmodel = vit_b_16().cuda()\nfor i, layer in enumerate(model.encoder.layers):\n    model.encoder.layers[i] = torch.compile(layer)\nfor x in data:\n    model(x)\n",
        HEAD + "fast = None\nfor x in data:\n    if fast is None:\n        fast = torch.compile(model)\n    fast(x.cuda()).mean().backward()\n",
        HEAD + "for i, x in enumerate(data):\n    if i == 0:\n        model = torch.compile(model)\n" + STEP,
        HEAD + "import re\nfor word in words:\n    p = re.compile(word)\n    model(x)\n",
        "import keras\nfor lr in (1, 2):\n    model = keras.Sequential([keras.layers.Dense(2)])\n    model.compile(optimizer='adam')\n    model.fit(x)\n",
        COUNTER.replace("self.calls += 1", "self.calls = 1"),
        COUNTER.replace("torch.compile(Net().cuda())", "Net().cuda()"),
        COUNTER.replace("self.calls = 0", "self.register_buffer('calls', torch.zeros(()))"),
        "import torch\ntorch._dynamo.config.allow_unspec_int_on_nn_module = True\n" + COUNTER,
        NUMBER.replace("step(x.cuda(), i)", "step(x.cuda(), torch.tensor(i))"),
        NUMBER.replace("step(x.cuda(), i)", "step(x.cuda(), 3)"),
        NUMBER.replace("@torch.compile\n", ""),
        NUMBER.replace("@torch.compile", "@torch.compile(dynamic=True)"),
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert _variants(text) == []


GROWS = HEAD + "fast = torch.compile(model{})\nfor n in range(8, 99):\n    fast(x[:, :n])\n"
DRAWN = HEAD + "import random\nfast = torch.compile(model{})\nfor _ in range(99):\n    n = random.randint(8, 99)\n    batch = torch.randn(4, n).cuda()\n    fast(batch)\n"


@pytest.mark.parametrize("text", [GROWS, DRAWN])
def test_sizes_that_change_are_a_note_unless_they_are_fixed(text: str) -> None:
    assert [(v, bad) for v, _, bad in _variants(text.format(""))] == [("size", False)]
    assert [(v, bad) for v, _, bad in _variants(text.format(", dynamic=False"))] == [("size", True)]
    assert [(v, bad) for v, _, bad in _variants(text.format(", mode='reduce-overhead'"))] == [("size", True)]
    assert _variants(text.format(", dynamic=True")) == []
    assert _variants(text.replace("torch.compile(model{})", "model")) == []


def test_fixed_windows_are_no_change_of_size() -> None:
    assert _variants(HEAD + "fast = torch.compile(model)\nfor i in range(99):\n    fast(x[i : i + 32])\n    fast(x[i])\n    fast(torch.randn(4, 8))\n") == []
