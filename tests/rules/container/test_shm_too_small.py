# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: DataLoader worker (pid 47) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
        'include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device',
        'WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes available.',
        'RuntimeError: unable to open shared memory object </torch_29919_1396182366> in read-write mode: No space left on device (28)',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "shm-too-small"


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device: '/data/out.bin'",
        '$ df -h /dev/shm\nFilesystem Size Used Avail Use% Mounted on\nshm 64M 0 64M 0% /dev/shm',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "shm-too-small" not in slugs(text)
