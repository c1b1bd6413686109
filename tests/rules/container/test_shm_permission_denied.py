# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '  File "/usr/lib/python3.8/multiprocessing/synchronize.py", line 57, in __init__\n    sl = self._semlock = _multiprocessing.SemLock(\nPermissionError: [Errno 13] Permission denied',
        'RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: Permission denied (13)',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "shm-permission-denied"


@pytest.mark.parametrize(
    "text",
    [
        "PermissionError: [Errno 13] Permission denied: '/data/out.bin'",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "shm-permission-denied" not in slugs(text)
