# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '$ docker context ls\nNAME              DESCRIPTION     DOCKER ENDPOINT\ndefault           Current         unix:///var/run/docker.sock\ndesktop-linux *   Docker Desktop  unix:///home/u/.docker/desktop/docker.sock\n$ docker run --gpus all x\ndocker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "docker-desktop-vm"


@pytest.mark.parametrize(
    "text",
    [
        '$ docker context ls\nNAME        DESCRIPTION   DOCKER ENDPOINT\ndefault *   Current       unix:///var/run/docker.sock\n$ docker run --gpus all x\ndocker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "docker-desktop-vm" not in slugs(text)


@pytest.mark.parametrize(("shown", "vm"), [("desktop-linux", True), ("default", False), ("rootless", False)])
def test_docker_context_show_names_the_active_one(shown: str, vm: bool) -> None:
    text = f'$ docker run --gpus all ubuntu nvidia-smi\ndocker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n$ docker context show\n{shown}'
    assert ("docker-desktop-vm" in slugs(text)) is vm
