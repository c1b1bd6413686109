import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "crw-rw---- 1 root vglusers 195, 0 Jan  3 10:00 /dev/nvidia0\n"
        "crw-rw---- 1 root vglusers 195, 255 Jan  3 10:00 /dev/nvidiactl\n"
        "uid=1000(ann) gid=1000(ann) groups=1000(ann),27(sudo)",
        "openat(AT_FDCWD, \"/dev/nvidiactl\", O_RDWR) = -1 EACCES (Permission denied)",
        "Failed to initialize NVML: Insufficient Permissions",
        "NVRM: could not open device file /dev/nvidia0 (Permission denied)",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["device-permission-denied"]


@pytest.mark.parametrize(
    "text",
    [
        "crw-rw-rw- 1 root root 195, 0 Jan  3 10:00 /dev/nvidia0\n"
        "crw-rw-rw- 1 root root 195, 255 Jan  3 10:00 /dev/nvidiactl\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "docker: Got permission denied while trying to connect to the Docker daemon socket at "
        "unix:///var/run/docker.sock",
        "crw-rw---- 1 root video 195, 0 Jan  3 10:00 /dev/nvidia0\n"
        "uid=1000(ann) gid=1000(ann) groups=1000(ann),44(video)",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "device-permission-denied" not in slugs(text)


def test_a_user_of_whom_no_name_is_known_is_no_variable_of_a_shell() -> None:
    (found, *_) = explain("NVRM: could not open device file /dev/nvidia0 (Permission denied)").findings
    assert found.text("en").title.startswith("This user may not open /dev/nvidia")
    assert found.text("zh").title.startswith("此用户没有权限打开 /dev/nvidia")
    (found, *_) = explain(
        "crw-rw---- 1 root vglusers 195, 0 Jan  3 10:00 /dev/nvidia0\n"
        "crw-rw---- 1 root vglusers 195, 255 Jan  3 10:00 /dev/nvidiactl\n"
        "uid=1000(ann) gid=1000(ann) groups=1000(ann),27(sudo)"
    ).findings
    assert found.text("en").title.startswith("ann may not open /dev/nvidia")
    assert found.text("zh").title.startswith("ann 没有权限打开 /dev/nvidia")


def test_as_root_it_works() -> None:
    assert slugs("As root it works, but as my user: RuntimeError: No CUDA GPUs are available") == ["device-permission-denied"]
    assert slugs("As root user it works") == []
