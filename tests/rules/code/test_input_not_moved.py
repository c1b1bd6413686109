
import pytest
from asking import lint, linted, slugs

from ongpu.model import Severity


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument index in method wrapper_CUDA__index_select)",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument mat1 in method wrapper_addmm)",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument target in method wrapper_CUDA_nll_loss_forward)",
        "RuntimeError: Expected object of backend CUDA but got backend CPU for argument #2 'target'",
        "RuntimeError: Expected object of device type cuda but got device type cpu for argument #3 'index' "
        "in call to _th_index_select",
        "RuntimeError: Tensor for argument #2 'mat1' is on CPU, but expected it to be on GPU (while checking "
        "arguments for addmm)",
        "RuntimeError: Input and parameter tensors are not at the same device, found input tensor at cpu and "
        "parameter tensor at cuda:0",
        "RuntimeError: Expected object of type torch.cuda.LongTensor but found type torch.LongTensor for "
        "argument #3 'index'",
        'dgl._ffi.base.DGLError: Cannot assign node feature "h" on device cpu to a graph on device cuda:0. '
        "Call DGLGraph.to() to copy the graph to the same device.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "input-not-moved"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be "
        "the same",
    ],
)
def test_neighbours(text: str) -> None:
    assert "input-not-moved" not in slugs(text)


HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8)), batch_size=2)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("for x, y in loader:\n    model(x)", 9),
        ("for i, (x, y) in enumerate(loader):\n    y = y.to(device)\n    model(x)", 10),
        ("for batch in loader:\n    model(batch[0])", 9),
        ("def train(net, data):\n    for x, y in data:\n        net(x)\ntrain(model, loader)", 10),
        ("for x, y in loader:\n    x = x.to(device)\n    loss = nn.functional.cross_entropy(model(x), y)", 10),
        ("crit = nn.CrossEntropyLoss()\nfor x, y in loader:\n    x = x.to(device)\n    loss = crit(model(x), y)", 11),
    ],
)
def test_found_in_source(text: str, line: int) -> None:
    (finding,) = [f for f in lint(HEAD + text).findings if f.weight > Severity.NOTE and f.slug == "input-not-moved"]
    assert finding.refs[0].line == line


@pytest.mark.parametrize(
    "text",
    [
        "for x, y in loader:\n    model(x.to(device))",
        "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n    nn.functional.cross_entropy(model(x), y)",
        "for batch in loader:\n    x, y = [t.to(device) for t in batch]\n    model(x)",
        "for batch in loader:\n    batch = {k: v.to(device) for k, v in batch.items()}\n    model(batch['x'])",
        "for batch in loader:\n    batch = tuple(t.to(device) for t in batch)\n    model(batch[0])",
        "def move(b):\n    return [t.cuda() for t in b]\nfor batch in loader:\n    x, y = move(batch)\n    model(x)",
        "for x, y in DataLoader(data, collate_fn=to_gpu):\n    model(x)",
        "for x, y in Prefetcher(loader):\n    model(x)",
        "net = nn.DataParallel(model)\nfor x, y in loader:\n    net(x)",
        "for batch in loader:\n    batch['x'] = batch['x'].to(device)\n    model(batch['x'])",
        "model = model.cpu()\nfor x, y in loader:\n    model(x)",
        "from accelerate import Accelerator\nmodel, loader = Accelerator().prepare(model, loader)\nfor x, y in loader:\n    model(x)",
        "x = torch.rand(8, 4, device=device)\nfor a, in DataLoader(TensorDataset(x), batch_size=2):\n    model(a)",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "input-not-moved" not in linted(HEAD + text)


NAMED = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.rand(8, 4), torch.rand(8)), batch_size=2)
lstm_input = torch.rand(3, 8, 4, device="cuda")
"""


@pytest.mark.parametrize(
    ("text", "variant", "moved"),
    [
        ("net = nn.Linear(4, 2).cuda()\nfor a, b in loader:\n    F.mse_loss(net(a), b)", "sources", "a, b = a.cuda(), b.cuda()"),
        (
            "dev = 'cuda'\nnet = nn.Linear(4, 2).to(dev)\nfor a, b in loader:\n    out = net(a)\n    nn.MSELoss()(out, b)",
            "sources",
            "a, b = a.to(dev), b.to(dev)",
        ),
        ("net = nn.Linear(4, 2).to('cuda')\nfor a, b in loader:\n    net(a)", "source", "a = a.to('cuda')"),
        ("net = nn.Linear(4, 2).cuda()\nfor a, b in loader:\n    F.mse_loss(net(a.cuda()), b)", "target-source", "b = b.cuda()"),
        (
            "net = nn.Linear(4, 2).cuda()\nfor a, b in loader:\n    a = a.cuda()\n    F.mse_loss(net(a), b)",
            "target-source",
            "b = b.cuda()",
        ),
        (
            "def build(where):\n    return nn.Linear(4, 2).to(where)\nnet = build('cuda')\nfor a, b in loader:\n    net(a)",
            "source",
            'a = a.to("cuda")',
        ),
        ("net = nn.Linear(4, 2).cuda()\nfor batch in loader:\n    net(batch['x'])", "source", "batch['x'] = batch['x'].cuda()"),
        (
            "net = nn.LSTM(4, 2).cuda()\nh, c = torch.zeros(1, 8, 2), torch.zeros(1, 8, 2)\nnet(lstm_input, (h, c))",
            "sources",
            "h, c = h.cuda(), c.cuda()",
        ),
        (
            "dev1 = torch.device('cuda:1')\nx = torch.rand(3).to(dev1)\nnet = nn.GRU(4, 2).to('cuda')\n"
            "h = torch.zeros(1, 8, 2)\nnet(lstm_input, h)",
            "source",
            "h = h.to('cuda')",
        ),
    ],
)
def test_the_repair_is_in_the_words_of_the_script(text: str, variant: str, moved: str) -> None:
    (finding,) = [f for f in lint(NAMED + text).findings if f.slug == "input-not-moved"]
    assert (finding.variant, finding.values["moved"]) == (variant, moved)


def test_a_model_of_another_file_and_nothing_moved_is_one_finding() -> None:
    model = "from torch import nn\ndef build(device):\n    m = nn.Linear(4, 2)\n    m.to(device)\n    return m\n"
    text = "from model import build\ndevice = 'cuda'\nnet = build(device)\nfor x, y in loader:\n    F.mse_loss(net(x), y)\n"
    (finding,) = [f for f in lint(NAMED + text, model=model).findings if f.slug == "input-not-moved"]
    assert finding.values["first"] == "x"
    assert finding.values["last"] == "y"
    assert finding.values["moved"] == "x, y = x.to(device), y.to(device)"


@pytest.mark.parametrize(
    "text",
    [
        "net = nn.LSTM(4, 2).cuda()\nh, c = (torch.zeros(1, 8, 2, device='cuda') for _ in range(2))\nnet(lstm_input, (h, c))",
        "net = nn.LSTM(4, 2).cuda()\nh = torch.zeros(1, 8, 2).cuda()\nnet(lstm_input, (h, h))",
        "net = nn.LSTM(4, 2)\nh = torch.zeros(1, 8, 2)\nnet(torch.rand(3, 8, 4), (h, h))",
    ],
)
def test_states_that_lie_where_the_layer_does(text: str) -> None:
    assert "input-not-moved" not in linted(NAMED + text)


def test_a_batch_whose_entries_are_moved_one_by_one_is_moved() -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom data import Set\nloader = torch.utils.data.DataLoader(Set(), batch_size=4)\n"
        "model = nn.Linear(3, 3).to('cuda')\nfor batch in loader:\n    for name in batch:\n        batch[name] = batch[name].to('cuda')\n"
        "    model(batch['x'])\n"
    )
    assert linted(text) == []
    assert linted(text.replace(".to('cuda')\n    model(", ".float()\n    model(")) == ["input-not-moved"]
