# ruff: noqa: E501  printed lines stand in one piece
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts import pasted
from ongpu.model import Evidence, Fact
from ongpu.sources import docker as MODULE

SEED = 'docker info\nRuntimes: '


def facts(text: str) -> list[Fact]:
    return [fact for item in pasted.read_text(text, "paste") if MODULE.looks_like(item) for fact in MODULE.read(item)]


def container(text: str) -> Fact:
    return facts(text)[0]


def test_a_run_line() -> None:
    found = container("$ docker run -it --rm -p80:80 --shm-size=8g -e NVIDIA_DRIVER_CAPABILITIES=utility --gpus '\"device=0,1\"' nvcr.io/nvidia/pytorch:23.10-py3 python x.py")
    run = found.runs[0]  # type: ignore[attr-defined]
    assert (run.image, run.gpu, run.gpus, run.shm, run.argv) == ("nvcr.io/nvidia/pytorch:23.10-py3", True, "device=0,1", "8g", ("python", "x.py"))
    assert found.image_cuda == "12.2"  # type: ignore[attr-defined]
    assert found.capabilities == "utility"  # type: ignore[attr-defined]


def test_privileged_podman_and_apptainer() -> None:
    assert container("sudo docker run -t -i --privileged testimage bash").runs[0].privileged  # type: ignore[attr-defined]
    assert container("podman run --device nvidia.com/gpu=all x").gpu_requested  # type: ignore[attr-defined]
    run = container("singularity exec --bind /a:/b img.sif python t.py").runs[0]  # type: ignore[attr-defined]
    assert (run.program, run.image, run.gpu) == ("apptainer", "img.sif", False)


def test_docker_info_and_context() -> None:
    found = container("$ docker info\nServer Version: 24\n Runtimes: io.containerd.runc.v2 runc\n Default Runtime: runc\n")
    assert (found.default_runtime, found.toolkit_configured) == ("runc", False)  # type: ignore[attr-defined]
    shown = "$ docker context ls\nNAME TYPE\ndesktop-linux *  moby  unix:///home/u/.docker/desktop/docker.sock"
    assert container(shown).context == "desktop-linux"  # type: ignore[attr-defined]


def test_cuda_of_images() -> None:
    assert [MODULE.image_cuda(i) for i in ("nvidia/cuda:12.4.1-base", "pytorch/pytorch:2.1.0-cuda12.1-cudnn8", "x:torch-cu118", "ubuntu:22.04")] == ["12.4", "12.1", "11.8", None]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=400))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", SEED + text, "x", command=text[:80] or None)
    if MODULE.looks_like(evidence):
        list(MODULE.read(evidence))
