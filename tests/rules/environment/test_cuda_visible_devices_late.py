import pytest
from asking import linted, slugs
from parts.programs import START


@pytest.mark.parametrize(
    "texts",
    [
        (
            "import torch\n"
            "use_cuda = torch.cuda.is_available()\n"
            "import os\n"
            'os.environ["CUDA_VISIBLE_DEVICES"] = "3"\n'
            "net = torch.nn.Linear(4, 4).cuda()\n",
        ),
        ("When I added os.environ['CUDA_VISIBLE_DEVICES']='1' in train.py,\nthe code will always use cuda:0",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cuda-visible-devices-late"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
        ("CUDA_VISIBLE_DEVICES=0 but the process runs on GPU 1 in nvidia-smi\nGPU 0: GTX 1050\nGPU 1: RTX 3090",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cuda-visible-devices-late" not in slugs(*texts)


@pytest.mark.parametrize(
    "text",
    [
        "import os\n" + START + """\
os.environ["CUDA_VISIBLE_DEVICES"] = "3"
""",
        """\
import os
import torch
x = torch.ones(3).cuda()
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
""",
        """\
import os
import tensorflow as tf
print(tf.config.list_physical_devices("GPU"))
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "cuda-visible-devices-late" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "3"
""" + START,
        """\
import os
import torch
os.environ["CUDA_VISIBLE_DEVICES"] = "3"
x = torch.ones(3).cuda()
""",
        "import os\n" + START + """\
os.environ["OMP_NUM_THREADS"] = "3"
""",
        "import os\n" + START + """\
def worker(i):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(i)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "cuda-visible-devices-late" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        """\
import os
import torch
print(torch.cuda.is_available())
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
x = torch.zeros(3).cuda()
""",
        """\
import os, torch
n = torch.cuda.device_count()
os.environ["CUDA_VISIBLE_DEVICES"] = str(n - 1)
torch.zeros(3, device="cuda")
""",
        """\
import os
import tensorflow as tf
print(tf.config.list_physical_devices("GPU"))
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
""",
        """\
import os
import torch
model = torch.nn.Linear(2, 2).cuda()
def pick():
    os.environ["CUDA_VISIBLE_DEVICES"] = "2"
pick()
""",
        """\
import os
import torch
torch.cuda.set_device(0)
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "3")
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "cuda-visible-devices-late" in linted(text)


AFTER = "import torch\nimport os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nmodel = torch.nn.Linear(2, 2).cuda()\n"
FIRST = "it always uses the first card; CUDA_VISIBLE_DEVICES=1 python train.py uses the second one\n"


def test_below_the_import_where_the_words_tell_that_the_shell_works() -> None:
    assert "cuda-visible-devices-late" in slugs(AFTER, FIRST)
    assert "cuda-visible-devices-late" not in slugs(AFTER)
    above = AFTER.replace("import torch\nimport os", "import os").replace("model", "import torch\nmodel")
    assert "cuda-visible-devices-late" not in slugs(above, FIRST)
