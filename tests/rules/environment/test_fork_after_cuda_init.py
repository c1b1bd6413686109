import pytest
from asking import slugs


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
