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


GRAPH = """\
import numpy as np
import tensorflow as tf

images = tf.placeholder(tf.float32, [1, None, None, 3])
loss = tf.reduce_mean(tf.layers.conv2d(images, 64, 3))
step = tf.train.AdamOptimizer().minimize(loss)
with tf.Session() as session:
    for turn in range(1000):
        h, w = np.random.randint(240, 900), np.random.randint(240, 900)
        session.run(step, feed_dict={images: np.random.rand(1, h, w, 3)})
"""
KERAS = """\
import random
import numpy as np
from tensorflow.keras import Model, layers

image = layers.Input(shape=(None, None, 3))
model = Model(image, layers.GlobalAveragePooling2D()(layers.Conv2D(64, 3)(image)))
model.compile(loss="mse", optimizer="adam")


def batches():
    while True:
        side = random.randint(5, 20) * 32
        yield np.zeros((8, side, side, 3)), np.zeros((8, 64))


model.fit(batches(), steps_per_epoch=100)
"""


@pytest.mark.parametrize("text", [GRAPH, GRAPH.replace("[1, None, None, 3]", "[None, 3, None, None]"), KERAS])
def test_tensorflow_that_tunes_for_each_size_that_is_drawn(text: str) -> None:
    assert linted(text) == ["cudnn-benchmark-variable-shapes"]


SAID = ["each new image size is slow", "With one fixed size it is very fast, else 10x slower", "尺寸不同时每一步都很慢"]


@pytest.mark.parametrize("said", SAID)
def test_tensorflow_whose_sizes_are_told_to_vary(said: str) -> None:
    text = KERAS[: KERAS.index("def batches")] + "model.fit(pictures())\n"
    assert linted(text) == []
    assert slugs(said, text) == ["cudnn-benchmark-variable-shapes"]


@pytest.mark.parametrize(
    "text",
    [
        GRAPH.replace("[1, None, None, 3]", "[None, 224, 224, 3]"),
        GRAPH.replace("import tensorflow", "import os\nos.environ['TF_CUDNN_USE_AUTOTUNE'] = '0'\nimport tensorflow"),
        GRAPH.replace("np.random.rand(1, h, w, 3)", "np.random.rand(1, 64, 64, 3)"),
        GRAPH.replace("[1, None, None, 3]", "[None, None, 300]").replace("conv2d", "dense"),
        KERAS.replace("random.randint(5, 20) * 32", "320"),
    ],
)
def test_tensorflow_with_sizes_that_stay(text: str) -> None:
    assert linted(text) == []


def test_sizes_that_are_drawn_beside_benchmark_mode() -> None:
    times = "$ python test.py   # {}\n3.12\n0.67\n2.32\n0.59\n"
    switch = "$ grep -h benchmark test.py\ncudnn.benchmark = {}"
    assert slugs(times.format("h, w = randint(400, 600)"), switch.format("True"))[:1] == ["cudnn-benchmark-variable-shapes"]
    assert not slugs(times.format("h, w = randint(400, 600)"), switch.format("False"))
    assert not slugs(times.format("h = w = 600, seed 1234"), switch.format("True"))
