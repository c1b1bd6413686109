import pytest
from asking import linted, slugs
from parts.programs import HEAD, START


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
        "import random\n" + START + """\
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
        "import random\n" + START + """\
torch.backends.cudnn.benchmark = True
model = nn.Conv2d(3, 8, 3).to(device)
size = random.randint(60, 120)
for _ in range(9):
    model(torch.randn(1, 3, size, size, device=device))
""",
        "import random\n" + START + """\
model = nn.Conv2d(3, 8, 3).to(device)
for _ in range(9):
    size = random.randint(60, 120)
    model(torch.randn(1, 3, size, size, device=device))
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "cudnn-benchmark-variable-shapes" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
import random
torch.backends.cudnn.benchmark = True
model = nn.Conv2d(3, 8, 3).to(device)
for i in range(100):
    s = random.choice([224, 256, 288])
    model(torch.randn(4, 3, s, s, device=device))
""",
        HEAD
        + """
import random
def main():
    torch.backends.cudnn.benchmark = True
    net = nn.Conv2d(3, 8, 3).cuda()
    for x, y in DataLoader(dataset, 4, num_workers=2):
        size = random.randint(320, 640)
        x = F.interpolate(x.cuda(), size=(size, size))
        net(x)
main()
""",
        HEAD
        + """
import numpy as np
torch.backends.cudnn.benchmark = True
net = nn.Conv1d(1, 8, 3).cuda()
while True:
    n = np.random.randint(100, 1000)
    net(torch.randn(1, 1, n, device="cuda"))
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "cudnn-benchmark-variable-shapes" in linted(text)
