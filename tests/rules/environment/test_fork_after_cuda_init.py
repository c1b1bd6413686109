# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import linted, slugs
from parts.dryruns import CALL
from parts.dryruns import slugs as run_slugs
from parts.programs import HEAD, START


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: CUDA error: initialization error\n"
            '  File "/usr/lib/python3.8/multiprocessing/popen_fork.py", line 75, in _launch',
        ),
        (
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with"
            " multiprocessing, you must use the 'spawn' start method",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["fork-after-cuda-init"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ echo $CUDA_VISIBLE_DEVICES\n-1",
            "torch.cuda.is_available() False",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "fork-after-cuda-init" not in slugs(*texts)


def test_a_dry_run_that_saw_cuda_in_a_forked_process() -> None:
    assert run_slugs(forked=[{"place": CALL, "what": "Tensor.cuda"}]) == ["fork-after-cuda-init"]


@pytest.mark.parametrize(
    "text",
    [
        START + """\
import torch.multiprocessing as mp

def work(net):
    net(torch.ones(2, 4).cuda())

model = nn.Linear(4, 2).cuda()
mp.Process(target=work, args=(model,)).start()
""",
        """\
import multiprocessing
import torch

def work(i):
    return torch.ones(3, device="cuda") * i

x = torch.ones(3, device="cuda")
p = multiprocessing.Process(target=work, args=(1,))
p.start()
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "fork-after-cuda-init" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + """\
import torch.multiprocessing as mp

def work(net):
    net(torch.ones(2, 4).cuda())

mp.set_start_method("spawn")
model = nn.Linear(4, 2).cuda()
mp.Process(target=work, args=(model,)).start()
""",
        """\
import multiprocessing
import torch

def work(i):
    return i * 2

x = torch.ones(3, device="cuda")
multiprocessing.Process(target=work, args=(1,)).start()
""",
        """\
import multiprocessing
import torch

def work(i):
    return torch.ones(3, device="cuda") * i

multiprocessing.Process(target=work, args=(1,)).start()
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "fork-after-cuda-init" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
import multiprocessing as mp
def work(q):
    print(torch.zeros(3, device="cuda"))
x = torch.zeros(4).cuda()
p = mp.Process(target=work, args=(None,))
p.start()
""",
        HEAD
        + """
import torch.multiprocessing as mp
def work(model, i):
    model(torch.randn(2, 64).cuda())
if __name__ == "__main__":
    model = Net().cuda()
    ps = [mp.Process(target=work, args=(model, i)) for i in range(4)]
    for p in ps:
        p.start()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "fork-after-cuda-init" in linted(text)


def test_a_servers_workers_are_no_loaders() -> None:
    said = "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
    worker = "(VllmWorkerProcess pid=13359) ERROR 08-05 multiproc_worker_utils.py:226] Exception in worker VllmWorkerProcess while processing method init_device: "
    assert slugs(worker + said) == ["fork-after-cuda-init"]
    assert slugs("RuntimeError: Caught RuntimeError in DataLoader worker process 0.\n" + said) == ["cuda-tensor-in-worker"]
    assert slugs("with num_workers > 0 and data moved to cuda in __getitem__\n" + said) == ["cuda-tensor-in-worker"]
