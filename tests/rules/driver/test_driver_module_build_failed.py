# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "Error! Bad return status for module build on kernel: 6.8.0-40-generic (x86_64)\n"
        "Consult /var/lib/dkms/nvidia/535.54.03/build/make.log for more information.",
        "Error! Your kernel headers for kernel 5.10.0-28-amd64 cannot be found.\n"
        "$ dkms status\n"
        "nvidia/525.147.05: added\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "ERROR: Unable to find the kernel source tree for the currently running kernel. Please make sure "
        "you have installed the kernel source files for your kernel\n"
        "nvidia-installer log file '/var/log/nvidia-installer.log'",
        "==> ERROR: Missing 6.9.1-arch1-1 kernel headers for module nvidia/550.78.\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'",
        "dpkg: error processing package nvidia-dkms-470 (--configure):\n"
        " installed nvidia-dkms-470 package post-installation script subprocess returned error exit "
        "status 10",
        "$ dkms status\n"
        "nvidia/535.171.04, 5.15.0-101-generic, x86_64: installed\n"
        "$ uname -r\n"
        "6.5.0-35-generic\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["driver-module-build-failed"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "$ dkms status\n"
        "nvidia/535.183.01, 6.8.0-40-generic, x86_64: installed\n"
        "$ uname -r\n"
        "6.8.0-40-generic\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "error: command '/usr/bin/nvcc' failed with exit code 1\n"
        "build/temp.linux/x.cu:1:10: fatal error: torch/extension.h: No such file",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "driver-module-build-failed" not in slugs(text)


def test_an_autoinstall_that_was_skipped() -> None:
    assert slugs("dkms: autoinstall for kernel 6.8.0-40-generic was skipped since the kernel headers for this kernel do not seem to be installed.")[:1] == ["driver-module-build-failed"]


def test_the_kernel_is_named_by_the_lines_of_make() -> None:
    for line in ("make[1]: Leaving directory '/usr/src/linux-headers-6.6.15-x64v3-xanmod1'", "make[1]: Entering directory '/usr/src/kernels/6.8.5-301.fc40.x86_64'"):
        told = explain(f"ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol '__rcu_read_lock'\n{line}").findings[0]
        assert told.slug == "driver-module-build-failed"
        assert told.values["kernel"] in line


def test_a_build_by_hand_without_the_kernels_tree() -> None:
    stop = "make[2]: *** /lib/modules/5.10.0-20-arm64/build: No such file or directory.  Stop."
    assert slugs("make -C kernel-open modules\n" + stop) == ["driver-module-build-failed"]
    assert slugs("make -C rtl8812au modules\n" + stop) == []


def test_the_hook_of_void_linux_names_driver_and_kernel() -> None:
    told = explain("Building DKMS module 'nvidia-367.35' for kernel-4.7.2_1... FAILED!").findings[0]
    assert (told.slug, told.values["version"], told.values["kernel"]) == ("driver-module-build-failed", "367.35", "4.7.2_1")
    assert slugs("Building DKMS module 'nvidia-367.35' for kernel-4.7.2_1... done.") == []
    assert slugs("Building DKMS module 'r8168-8.042' for kernel-4.7.2_1... FAILED!") == []
