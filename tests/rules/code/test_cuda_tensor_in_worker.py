import pytest
from asking import slugs


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
