# ruff: noqa: E501  programs stand in one piece
import pytest
from asking import linted, slugs


@pytest.mark.parametrize(
    "text",
    [
        "InvalidArgumentError: Cannot assign a device for operation 'a': Could not satisfy explicit device "
        "specification '/device:GPU:0' because no supported kernel for GPU devices is available.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "tf-op-without-gpu-kernel"


@pytest.mark.parametrize(
    "text",
    [
        "InvalidArgumentError: Cannot assign a device for operation 'a': Operation was explicitly assigned "
        "to /device:GPU:0 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ].",
    ],
)
def test_neighbours(text: str) -> None:
    assert "tf-op-without-gpu-kernel" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\ntf.config.set_soft_device_placement(False)\nwith tf.device('/GPU:0'):\n    x = tf.strings.length(names)\n",
        "import tensorflow as tf\nwith tf.device('/gpu:0'):\n    step = tf.Variable(0, name='global_step', trainable=False)\nwith tf.Session() as s:\n    s.run(step)\n",
        "import tensorflow.compat.v1 as tf\nwith tf.device('/device:GPU:0'):\n    p = tf.io.decode_jpeg(tf.io.read_file(f))\ntf.Session().run(p)\n",
    ],
)
def test_found_in_source(text: str) -> None:
    assert linted(text) == ["tf-op-without-gpu-kernel"]


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\nwith tf.device('/GPU:0'):\n    x = tf.strings.length(names)\n",
        "import tensorflow as tf\ntf.config.set_soft_device_placement(False)\nwith tf.device('/GPU:0'):\n    x = tf.matmul(a, b)\n",
        "import tensorflow as tf\ntf.config.set_soft_device_placement(False)\nwith tf.device('/CPU:0'):\n    x = tf.strings.length(names)\n",
        "import tensorflow as tf\nwith tf.device('/gpu:0'):\n    step = tf.Variable(0)\nwith tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as s:\n    s.run(step)\n",
        "import tensorflow as tf\nwith tf.device('/gpu:0'):\n    w = tf.Variable(tf.zeros([3]))\nwith tf.Session() as s:\n    s.run(w)\n",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "tf-op-without-gpu-kernel" not in linted(text)
