# ruff: noqa: E501  (programs stand on one line each)
import pytest
from asking import lint, linted, slugs
from parts.dryruns import CALL, judged
from parts.dryruns import slugs as run_slugs

from ongpu.model import Severity, Verdict


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the "
        "same or input should be a MKLDNN tensor and weight is a dense tensor",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu "
        "and cuda:0! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)",
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but "
        "found one of them on device: cpu",
        "RuntimeError: Tensor for 'out' is on CPU, Tensor for argument #1 'self' is on CPU, but expected "
        "them to be on GPU (while checking arguments for addmm)",
        "RuntimeError: Expected object of backend CPU but got backend CUDA for argument #4 'mat1'",
        "RuntimeError: Expected object of type torch.FloatTensor but found type torch.cuda.FloatTensor for "
        "argument #4 'mat1'",
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, "
        "and module parameters {device(type='cpu')}.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "model-not-moved"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same",
    ],
)
def test_neighbours(text: str) -> None:
    assert "model-not-moved" not in slugs(text)


HEAD = """
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model = Net()\nmodel(torch.rand(1, 4).to(device))", 12),
        ("model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())\nx = torch.rand(1, 4, device='cuda')\nmodel(x)", 13),
        ("def run(net, x):\n    return net(x)\nrun(Net(), torch.rand(1, 4).cuda())", 12),
        ("model = Net().to(device)\nmodel.fc = nn.Linear(4, 3)\nmodel(torch.rand(1, 4).to(device))", 12),
        (
            "model = Net()\nopt = torch.optim.SGD(model.parameters())\nfor x, y in torch.utils.data.DataLoader([], 2):\n"
            "    loss = (model(x) - y).sum()\n    loss.backward()\n    opt.step()",
            14,
        ),
        (
            "class Trainer:\n    def __init__(self, model):\n        self.model = model\n    def fit(self, x):\n        self.model(x)\n"
            "Trainer(Net()).fit(torch.rand(1, 4).cuda())",
            15,
        ),
    ],
)
def test_found_in_source(text: str, line: int) -> None:
    (finding,) = [f for f in lint(HEAD + text).findings if f.slug == "model-not-moved"]
    assert (finding.weight, finding.refs[0].line) == (Severity.ERROR, line)


@pytest.mark.parametrize(
    "text",
    [
        "model = Net().to(device)\nmodel(torch.rand(1, 4).to(device))",
        "model = Net()\nif torch.cuda.is_available():\n    model.cuda()\nmodel(torch.rand(1, 4).to(device))",
        "model = Net()\nprepare(model)\nmodel(torch.rand(1, 4).to(device))",
        "model = Net()\nfor m in [model, Net()]:\n    m.to(device)\nmodel(torch.rand(1, 4).to(device))",
        "model = Net().to(device)\nmodel.fc = nn.Linear(4, 3)\nmodel.to(device)\nmodel(torch.rand(1, 4).to(device))",
        "model = Net().to(device)\nmodel.fc = nn.Linear(4, 3).to(device)\nmodel(torch.rand(1, 4).to(device))",
        "from accelerate import Accelerator\nmodel = Accelerator().prepare(Net())\nmodel(torch.rand(1, 4).to(device))",
        "loss = nn.CrossEntropyLoss()\nloss(torch.rand(1, 4).to(device), torch.rand(1, 4).to(device))",
        "def build():\n    return Net().to(device)\nbuild()(torch.rand(1, 4).to(device))",
        "torch.set_default_device('cuda')\nNet()(torch.rand(1, 4))",
        "with torch.device('cuda'):\n    model = Net()\nmodel(torch.rand(1, 4, device='cuda'))",
        "model = Net()\nmodel(torch.rand(1, 4))",
        "from elsewhere import Model\nmodel = Model()\nmodel(torch.rand(1, 4).to(device))",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "model-not-moved" not in linted(HEAD + text)


def test_a_model_of_another_file() -> None:
    other = "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(1, 1)\n"
    text = "import torch\nfrom model import Net\nnet = Net()\nnet(torch.rand(1, 1).cuda())"
    assert "model-not-moved" in linted(text, model=other)
    assert "model-not-moved" not in linted(text)


def test_a_dry_run_that_never_used_the_gpu() -> None:
    devices = {"ops": {"cpu": 900}, "flop": {"cpu": 5e10}, "by_line": [{"place": CALL, "device": "cpu", "ops": 9, "flop": 5e10}]}
    report = judged(devices=devices, memory={})
    assert [f.slug for f in report.findings] == ["model-not-moved"]
    assert report.findings[0].refs[0].line == CALL["line"]


def test_a_dry_run_of_which_a_heavy_part_ran_on_the_cpu() -> None:
    devices = {"ops": {"cuda": 900, "cpu": 90}, "flop": {"cuda": 1e11, "cpu": 5e10}}
    assert run_slugs(devices=devices) == ["model-not-moved"]
    assert run_slugs(devices={**devices, "flop": {"cuda": 1e14, "cpu": 5e9}}) == []


def test_a_dry_run_that_could_not_be_followed_is_unknown_not_clear() -> None:
    report = judged(outcome="unsupported", unsupported=[{"op": "my::op", "why": "no fake kernel", "went_on": False}])
    assert report.verdict is Verdict.UNKNOWN
    assert "my::op" in report.unknown[0].because
    assert judged().verdict is Verdict.CLEAR


def test_a_pipeline_that_says_it_is_on_the_cpu() -> None:
    said = "Hardware accelerator e.g. GPU is available in the environment, but no `device` argument is passed to the `Pipeline` object. Model will be on CPU."
    assert slugs(said) == ["model-not-moved"]
    assert slugs("Device set to use cuda:0") == []


EMBED = """\
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModel.from_pretrained("bert-base-cased").eval()
vectors = []
with torch.no_grad():
    for line in open("corpus.txt"):
        batch = tokenizer(line, return_tensors="pt")
        vectors.append(model(**batch)[0].mean(1).numpy())
"""
CLASSIFY = """\
import torch
import torchvision
from PIL import Image

net = torchvision.models.resnet50(weights="DEFAULT")
net.eval()
prepare = torchvision.transforms.ToTensor()
for name in names:
    print(name, net(prepare(Image.open(name)).unsqueeze(0)).argmax().item())
"""
GENERATE = """\
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
print(tokenizer.decode(model.generate(**tokenizer("Hello", return_tensors="pt"), max_new_tokens=500)[0]))
"""
DRAW = """\
from diffusers import StableDiffusionPipeline
pipe = StableDiffusionPipeline.from_pretrained("runwayml/stable-diffusion-v1-5")
pipe("a cat").images[0].save("cat.png")
"""
UNUSED = [
    "Extracting is very slow. nvidia-smi shows no process on the GPU, torch.cuda.is_available() is True.",
    "The script runs on the CPU although torch.cuda.is_available() returns True (RTX 3090)",
    "torch sees my GPU but the GPU is not used at all, 0 % in nvidia-smi while it runs",
    "为什么显卡没有被使用？is_available 是 True",
]


@pytest.mark.parametrize("said", UNUSED)
@pytest.mark.parametrize("text", [EMBED, CLASSIFY, GENERATE, DRAW])
def test_a_program_that_never_names_the_gpu_that_is_told_to_idle(said: str, text: str) -> None:
    assert slugs(said, text)[:1] == ["model-not-moved"]
    assert "zombie-holds-memory" not in slugs(said, text)
    assert linted(text) == []  # it may well be meant for the CPU


@pytest.mark.parametrize(
    "text",
    [
        EMBED.replace(".eval()", ".eval().to('cuda')").replace("'pt')", "'pt').to('cuda')"),
        EMBED.replace('cased").eval', 'cased", device_map="auto").eval'),
        CLASSIFY.replace("net.eval()", "torch.set_default_device('cuda')"),
        DRAW + "pipe.to('cuda')\n",
        DRAW.replace("pipe(", "pipe.enable_model_cpu_offload()\npipe("),
        "from sentence_transformers import SentenceTransformer\nmodel = SentenceTransformer('all')\nmodel.encode(['a'])\n",  # takes the GPU by itself
    ],
)
def test_a_program_that_asks_for_the_gpu_is_not_to_blame_for_its_idling(text: str) -> None:
    assert "model-not-moved" not in slugs(UNUSED[0], text)


def test_a_file_that_tries_its_model_out_beside_a_script_that_moves_it() -> None:
    net = "import torchvision\nimport torch\nnet = torchvision.models.resnet18()\nif __name__ == '__main__':\n    print(net(torch.rand(1, 3, 64, 64)).shape)\n"
    assert slugs(UNUSED[1], net) == ["model-not-moved"]
    assert "model-not-moved" not in slugs(UNUSED[1], net, HEAD + "from net import net\nnet = net.to('cuda')\nfor x in []:\n    net(x.to('cuda'))\n")


def test_a_gpu_that_pytorch_does_not_see_comes_first() -> None:
    assert "model-not-moved" not in slugs("torch.cuda.is_available() is False, nvidia-smi shows no process", EMBED)
