# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '$ docker run --gpus all nvidia/cuda:11.0-base nvidia-smi\ndocker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        'docker: Error response from daemon: OCI runtime create failed: unable to retrieve OCI runtime error: fork/exec /usr/bin/nvidia-container-runtime: no such file or directory: unknown.',
        '$ sudo docker run --runtime=nvidia x\nunknown or invalid runtime name: nvidia\n$ nvidia-ctk --version\nnvidia-ctk: command not found',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "container-toolkit-missing"


@pytest.mark.parametrize(
    "text",
    [
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n$ nvidia-ctk --version\nNVIDIA Container Toolkit CLI version 1.14.3',
        '$ nvidia-ctk --version\nNVIDIA Container Toolkit CLI version 1.14.3',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "container-toolkit-missing" not in slugs(text)


def test_nvidia_docker_1_without_its_plugin() -> None:
    assert slugs("docker: Error response from daemon: create nvidia_driver_367.57: Error looking up volume plugin nvidia-docker: plugin not found.")[:1] == ["container-toolkit-missing"]
