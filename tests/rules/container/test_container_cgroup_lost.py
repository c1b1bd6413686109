
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '$ docker exec app nvidia-smi\nFailed to initialize NVML: Unknown Error\nSep 14 06:46:53 host systemd[1]: Reloading.',
        '$ kubectl exec -it pod -- nvidia-smi\nFailed to initialize NVML: Unknown Error',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "container-cgroup-lost"


@pytest.mark.parametrize(
    "text",
    [
        'Failed to initialize NVML: Driver/library version mismatch',
        '$ docker exec app nvidia-smi\nFailed to initialize NVML: Driver Not Loaded',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "container-cgroup-lost" not in slugs(text)


def test_the_error_told_without_its_colon() -> None:
    assert slugs("docker, after few hours nvidia-smi gives failed to initialize nvml unknown error") == ["container-cgroup-lost"]
