# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import linted, slugs
from parts.programs import HEAD, PICTURES, START


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
        "RuntimeError: Caught RuntimeError in DataLoader worker process 0.\n"
        "Original Traceback (most recent call last):\n"
        '  File "/x/torch/utils/data/_utils/worker.py", line 178, in _worker_loop\n'
        "    data = fetcher.fetch(index)\n"
        '  File "data.py", line 30, in __getitem__\n'
        "    return x.cuda()\n"
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method",
        "[W CudaIPCTypes.cpp:15] Producer process has been terminated before all shared CUDA tensors "
        "released. See Note [Sharing CUDA tensors]",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "cuda-tensor-in-worker"


@pytest.mark.parametrize(
    "text",
    [
        START + PICTURES + """\
        return torch.ones(3).cuda(), i

loader = DataLoader(Pictures(), 8, num_workers=4)
""",
        START + PICTURES + """\
        return torch.ones(3).to(device), i

loader = DataLoader(Pictures(), batch_size=8, num_workers=2, pin_memory=True)
""",
        START + PICTURES + """\
        return torch.ones(3), i

def collate(batch):
    return torch.stack([x for x, _ in batch]).to(device)

loader = DataLoader(Pictures(), 8, num_workers=4, collate_fn=collate)
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "cuda-tensor-in-worker" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + PICTURES + """\
        return torch.ones(3).cuda(), i

loader = DataLoader(Pictures(), 8, num_workers=0)
""",
        START + PICTURES + """\
        return torch.ones(3), i

for x, i in DataLoader(Pictures(), 8, num_workers=4):
    x.cuda()
""",
        START + PICTURES + """\
        return torch.ones(3).cuda(), i

loader = DataLoader(Pictures(), 8)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "cuda-tensor-in-worker" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
class D(Dataset):
    def __init__(self, xs):
        self.xs = xs
    def __len__(self):
        return len(self.xs)
    def __getitem__(self, i):
        return torch.tensor(self.xs[i]).cuda()
loader = DataLoader(D([1, 2]), batch_size=2, num_workers=4)
""",
        HEAD
        + """
class D(Dataset):
    def __getitem__(self, i):
        x = torch.randn(4)
        return x.to(device)
    def __len__(self):
        return 4
def main():
    for x in DataLoader(D(), num_workers=2):
        pass
main()
""",
        HEAD
        + """
def collate(items):
    xs = torch.stack(items)
    return xs.to("cuda")
loader = DataLoader(dataset, 8, num_workers=4, collate_fn=collate)
""",
        HEAD
        + """
class D(Dataset):
    def __init__(self):
        self.x = torch.randn(10, 4)
    def __len__(self):
        return 10
    def __getitem__(self, i):
        return self._load(i)
    def _load(self, i):
        return torch.zeros(4, device="cuda") + i
loader = DataLoader(D(), 2, num_workers=8, pin_memory=True)
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "cuda-tensor-in-worker" in linted(text)


ENDED = "[W CudaIPCTypes.cpp:15] Producer process has been terminated before all shared CUDA tensors released. See Note [Sharing CUDA tensors]\n"


def test_a_producer_that_ends_first_is_no_fault_where_the_run_did_its_work() -> None:
    done = "tracking frame: 100%|█████████| 99/99 [01:41<00:00,  1.02s/it]\n"
    assert not slugs(done + ENDED)
    assert slugs(done + ENDED + "RuntimeError: unable to open shared memory object\n")
    assert slugs("[W CudaIPCTypes.cpp:90] Producer process tried to deallocate over 1000 memory blocks referred by consumer processes.")[0] == "cuda-tensor-in-worker"


def test_the_echo_of_another_error_comes_after_it() -> None:
    assert slugs("Failed: Cuda error custom_all_reduce.cuh:307 'peer access is not supported between these two devices'\n" + ENDED)[0] == "nccl-p2p-broken"
