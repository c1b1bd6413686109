# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        'nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver to a newer version, or use an earlier cuda container: unknown.',
        'ERROR: This container was built for NVIDIA Driver Release 535.86 or later, but\n       version 470.82.01 was detected and compatibility mode is UNAVAILABLE.',
        '$ docker run --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04 ./app\nCUDA driver version is insufficient for CUDA runtime version\n| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "container-image-cuda-too-new"


@pytest.mark.parametrize(
    "text",
    [
        '$ docker run --gpus all nvidia/cuda:11.8.0-base-ubuntu22.04 nvidia-smi\n| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "container-image-cuda-too-new" not in slugs(text)


def test_nvidia_docker_1_names_both_versions() -> None:
    first = explain("nvidia-docker | 2016/06/07 18:49:33 Error: unsupported CUDA version: driver 7.5 < image 8.0").findings[0]
    assert (first.slug, first.values["able"], first.values["need"]) == ("container-image-cuda-too-new", "7.5", "8.0")


def test_a_condition_that_the_terminal_broke() -> None:
    first = explain("nvidia-container-cli: requirement error: unsatisfied condi\ntion: cuda >= 12.4", "driver version 525.60.13").findings[0]
    assert (first.slug, "12.4" in first.text("en").title) == ("container-image-cuda-too-new", True)


def test_no_driver_that_drops_the_card() -> None:
    refused = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.1, please update your driver to a newer version"
    for card, variant in (("Tesla K80", "barred"), ("Tesla T4", "refused")):
        listed = f"| NVIDIA-SMI 470.199.02   Driver Version: 470.199.02   CUDA Version: 11.4 |\n|   0  {card}           Off  | 00000000:00:04.0 Off |"
        root = explain(listed, refused).findings[0]
        assert (root.slug, root.variant) == ("container-image-cuda-too-new", variant)
        assert ("Update" in root.text("en").fix) is (variant == "refused")
