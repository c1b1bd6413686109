import pytest
from asking import explain, slugs

from ongpu.report.recipes import commands


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: An alternate method of installing the NVIDIA driver was detected. (This is usually a "
        "package provided by your distributor.)",
        "dpkg: error processing archive "
        "/var/cache/apt/archives/libnvidia-compute-525_525.60.11-0ubuntu1_amd64.deb (--unpack):\n"
        " trying to overwrite '/usr/lib/x86_64-linux-gnu/libnvidia-ml.so', which is also in package "
        "libnvidia-compute-515",
        "$ ls /usr/bin/nvidia-uninstall\n"
        "/usr/bin/nvidia-uninstall\n"
        "$ dpkg -l | grep nvidia-driver\n"
        "ii  nvidia-driver-535  535.183.01-0ubuntu0.22.04.1  amd64  NVIDIA driver metapackage\n"
        "$ nvidia-smi\n"
        "Failed to initialize NVML: Driver/library version mismatch",
        "$ ls /usr/lib/x86_64-linux-gnu/libcuda.so.*.*\n"
        "/usr/lib/x86_64-linux-gnu/libcuda.so.525.147.05\n"
        "/usr/lib/x86_64-linux-gnu/libcuda.so.535.54.03\n"
        "$ nvidia-smi\n"
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["mixed-driver-installs"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ ls /usr/bin/nvidia-uninstall\n"
        "ls: cannot access '/usr/bin/nvidia-uninstall': No such file or directory\n"
        "ii  nvidia-driver-535 535.183.01-0ubuntu0 amd64 x\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "mixed-driver-installs" not in slugs(text)


def test_the_package_that_is_installed_is_the_one_to_reinstall() -> None:
    listed = "$ dpkg -l\nii  nvidia-driver-535-server  535.183.01-0ubuntu0.22.04.1  amd64  NVIDIA Server Driver\n"
    report = explain(listed, "$ ls /usr/bin/nvidia-uninstall\n/usr/bin/nvidia-uninstall\n")
    assert report.findings[0].slug == "mixed-driver-installs"
    assert any("--reinstall nvidia-driver-535-server " in command.run for command in commands(report.findings[0], report))
