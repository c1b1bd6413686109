import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "$ lsmod | grep nvidia\n"
        "nvidia 56717312 0\n"
        "$ ls -l /dev/nvidia*\n"
        "ls: cannot access '/dev/nvidia*': No such file or directory",
        "nvidia-container-cli: initialization error: open failed: /dev/nvidiactl: no such file or "
        "directory",
        "docker: Error response from daemon: error gathering device information while adding custom "
        "device \"/dev/nvidia0\": no such file or directory",
        "NVRM: could not open device file /dev/nvidiactl (No such file or directory).",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["device-node-missing"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ ls /dev/nvidia*\n"
        "/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-uvm\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "device-node-missing" not in slugs(text)
