import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        "modprobe: ERROR: could not insert 'nvidia_current_drm': Required key not available",
        "$ mokutil --sb-state\n"
        "SecureBoot enabled\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "$ mokutil --sb-state\n"
        "SecureBoot enabled\n"
        "$ sudo modprobe nvidia\n"
        "modprobe: ERROR: could not insert 'nvidia': Operation not permitted",
        "Loading of unsigned module is rejected\n"
        "ERROR: The kernel module failed to load. Secure boot is enabled on this system, so this is "
        "likely because it was not signed by a key that is trusted by the kernel.",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["secure-boot-unsigned-module"]


@pytest.mark.parametrize(
    "text",
    [
        "$ mokutil --sb-state\n"
        "SecureBoot disabled\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
        "$ mokutil --sb-state\n"
        "SecureBoot enabled\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "secure-boot-unsigned-module" not in slugs(text)


def test_a_kernel_that_is_locked_down_by_its_configuration() -> None:
    locked = "[    0.000000] Kernel is locked down from Kernel configuration; see man kernel_lockdown.7\n"
    down = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert "secure-boot-unsigned-module" not in slugs(locked + down)
