# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n$ nvidia-ctk --version\nNVIDIA Container Toolkit CLI version 1.14.3',
        'docker: Error response from daemon: unknown or invalid runtime name: nvidia.',
        'Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all',
        'Failed to create pod sandbox: rpc error: failed to get sandbox runtime: no runtime for "nvidia" is configured',
        'nvidia-container-cli: mount error: failed to add device rules: unable to find any existing device filters attached to the cgroup: bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "container-runtime-unconfigured"


@pytest.mark.parametrize(
    "text",
    [
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "container-runtime-unconfigured" not in slugs(text)
