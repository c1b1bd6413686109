import pytest
from asking import lint, slugs


@pytest.mark.parametrize(
    "text",
    [
        "WARNING:tensorflow:Layer lstm will not use cuDNN kernels since it doesn't meet the criteria. It "
        "will use a generic GPU kernel as fallback when running on GPU.",
        "depthwise conv fp32: 12.1 ms\n"
        "depthwise conv fp16: 30.2 ms",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "cudnn-kernel-fallback"


@pytest.mark.parametrize(
    "text",
    [
        "depthwise conv fp32: 12.1 ms\n"
        "depthwise conv fp16: 6.2 ms",
    ],
)
def test_neighbours(text: str) -> None:
    assert "cudnn-kernel-fallback" not in slugs(text)


TRAINS = """\
import torch
import torchvision
from torch import nn
model = torchvision.models.resnet50().cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    opt.step()
"""
OWN = TRAINS.replace("torchvision.models.resnet50()", "nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.LazyLinear(2))")
LSTM = "import keras\nmodel = keras.Sequential([keras.layers.LSTM(8, {})])\nmodel.fit(x, y)\n"


def _variants(text: str) -> list[tuple[str, str]]:
    return [(f.variant, f.weight.name) for f in lint(text).findings if f.slug == "cudnn-kernel-fallback"]


@pytest.mark.parametrize("text", [TRAINS, OWN])
def test_the_layout_under_autocast_is_a_note(text: str) -> None:
    assert _variants(text) == [("layout", "NOTE")]


def test_settings_in_source() -> None:
    text = TRAINS.replace("model = ", "torch.backends.cudnn.{} = {}\nmodel = ").replace("import torch\n", "import torch  # channels_last\n")
    assert _variants(text.format("enabled", False)) == [("choice", "WARNING")]
    assert _variants(text.format("deterministic", True)) == [("choice", "NOTE")]
    assert _variants(text.format("deterministic", False)) == []
    assert _variants(text.format("benchmark", False)) == []


@pytest.mark.parametrize("argument", ["recurrent_dropout=0.2", "activation='relu'", "unroll=True", "use_bias=False"])
def test_keras_layers_without_cudnn(argument: str) -> None:
    assert _variants(LSTM.format(argument)) == [("recurrent", "WARNING")]


@pytest.mark.parametrize(
    "text",
    [
        TRAINS.replace("resnet50().cuda()", "resnet50().to('cuda', memory_format=torch.channels_last)"),
        TRAINS.replace('    with torch.autocast("cuda", dtype=torch.bfloat16):\n    ', ""),
        TRAINS.replace("resnet50()", "vit_b_16()"),
        TRAINS.replace("torchvision.models.resnet50()", "nn.Linear(4, 2)"),
        TRAINS.replace("    loss.backward()\n    opt.step()\n", ""),
        "import torch\ntorch.backends.cudnn.enabled = False\n",
        LSTM.format("return_sequences=True"),
        LSTM.format("dropout=0.2"),
        LSTM.format("recurrent_dropout=0.0, activation='tanh'"),
        LSTM.format("activation=args.activation"),
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert _variants(text) == []


def test_a_complaint_makes_a_warning_of_deterministic_kernels() -> None:
    text = TRAINS.replace("model = ", "torch.backends.cudnn.deterministic = True\nmodel = ")
    assert "cudnn-kernel-fallback" not in slugs(text)
    assert "cudnn-kernel-fallback" in slugs(text, "The training became very slow, 3 times slower than before")
