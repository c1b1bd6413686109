# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs

from ongpu.report.recipes import commands


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: The NVIDIA driver on your system is too old (found version 10010). Please update "
        "your GPU driver",
        "CUDA driver version is insufficient for CUDA runtime version",
        "PyTorch version: 2.1.0+cu121\n"
        "Is debug build: False\n"
        "CUDA used to build PyTorch: 12.1\n"
        "Is CUDA available: False\n"
        "Nvidia driver version: 470.82.01",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver "
        "version is insufficient for CUDA runtime version",
        "Please NOTE: device: 0, GPU Compute Capability: 7.5, Driver API Version: 10.1, Runtime API "
        "Version: 10.2",
        "NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
        "cudaGetDeviceCount returned 35\n"
        "-> CUDA driver version is insufficient for CUDA runtime version\n"
        "Result = FAIL",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["driver-too-old-for-cuda"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "PyTorch version: 2.1.0+cu121\n"
        "CUDA used to build PyTorch: 12.1\n"
        "Is CUDA available: True\n"
        "Nvidia driver version: 525.85.12",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 0)\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
        "the latest NVIDIA driver is installed and running.",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "driver-too-old-for-cuda" not in slugs(text)


KEPLER = """\
| NVIDIA-SMI 470.199.02   Driver Version: 470.199.02   CUDA Version: 11.4 |
|   0  Tesla K80           Off  | 00000000:00:04.0 Off |                    0 |
PyTorch version: 2.3.1+cu121
CUDA used to build PyTorch: 12.1
Is CUDA available: False
Python version: 3.10.12
"""
PASCAL = KEPLER.replace("Tesla K80", "GeForce GTX 1080").replace("470.199.02", "535.183.01")


@pytest.mark.parametrize(
    ("text", "card"),
    [
        (KEPLER, "Tesla K80"),
        (KEPLER.replace("Tesla K80", "GeForce GTX 580").replace("470.199.02", "390.157"), "GTX 580"),
        (PASCAL.replace("2.3.1+cu121", "2.9.1+cu130").replace("12.1", "13.0"), "GTX 1080"),
    ],
)
@pytest.mark.parametrize("system", ["", 'ID=debian\nVERSION_ID="12"\n', "ID=arch\n", "ID=fedora\n", "ID=rhel\n", "ID=ubuntu\n"])
def test_no_driver_that_drops_the_card(text: str, card: str, system: str) -> None:
    report = explain(text, *([system] if system else []))
    root = report.findings[0]
    assert (root.slug, root.variant) == ("driver-too-old-for-cuda", "barred")
    assert card in root.text("en").title
    runs = [command.run for command in commands(root, report)]
    assert all("pip" in run for run in runs)
    assert not any("cu12" in run for run in runs) or "1080" in card


def test_a_newer_driver_where_the_card_has_one() -> None:
    report = explain(KEPLER.replace("Tesla K80", "GeForce GTX 1080"))
    assert report.findings[0].variant != "barred"
    assert any("nvidia-driver-535" in command.run for command in commands(report.findings[0], report))


@pytest.mark.parametrize(("text", "told"), [
    ("torch.cuda.is_available() returning False. My Nvidia driver is not supported for the pytorch-gpu version that was requested.", True),
    ("torch.cuda.is_available() returns False. My driver was too old for this pytorch.", True),
    ("The old driver was too old for my taste.", False),
    ("The amdgpu driver is not supported by this kernel.", False),
])
def test_a_reporter_who_names_the_old_driver_is_heard(text: str, told: bool) -> None:
    assert ("driver-too-old-for-cuda" in slugs(text)) is told


@pytest.mark.parametrize(("pin", "told"), [("cudatoolkit=10.2", True), ("pytorch-cuda=12.1", True), ("cudatoolkit=10.1", False), ("cpuonly", False)])
def test_the_cuda_that_a_conda_install_asked_for(pin: str, told: bool) -> None:
    install = f"conda install pytorch torchvision {pin} -c pytorch"
    table = "| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |\n"
    assert ("driver-too-old-for-cuda" in slugs(install, table + "GPU available: False")) is told
    assert "driver-too-old-for-cuda" not in slugs(install, table + "GPU available: True")
