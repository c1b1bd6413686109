import pytest
from asking import linted, slugs


@pytest.mark.parametrize(
    "text",
    [
        "torch.backends.cudnn.benchmark = True\n"
        "Every image has a different size, and each iteration is slow",
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n"
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n"
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n"
        "Running performance tests to find the best convolution algorithm, this can take a while... (set the "
        "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT to 0 to disable)\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "cudnn-benchmark-variable-shapes"


@pytest.mark.parametrize(
    "text",
    [
        "torch.backends.cudnn.benchmark = True",
    ],
)
def test_neighbours(text: str) -> None:
    assert "cudnn-benchmark-variable-shapes" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.backends.cudnn.benchmark = True
model = nn.Conv2d(3, 8, 3).to(device)
for _ in range(9):
    size = random.randint(60, 120)
    model(torch.randn(1, 3, size, size, device=device))
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "cudnn-benchmark-variable-shapes" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.backends.cudnn.benchmark = True
model = nn.Conv2d(3, 8, 3).to(device)
size = random.randint(60, 120)
for _ in range(9):
    model(torch.randn(1, 3, size, size, device=device))
""",
        """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Conv2d(3, 8, 3).to(device)
for _ in range(9):
    size = random.randint(60, 120)
    model(torch.randn(1, 3, size, size, device=device))
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "cudnn-benchmark-variable-shapes" not in linted(text)
