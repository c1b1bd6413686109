import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED\n"
        "|                               |                      |              Enabled |\n"
        "MIG mode: Enabled",
        "Unable to create a GPU instance on GPU  0 using profile 19: In use by another client",
        "| MIG devices:                                |\n"
        "|  No MIG devices found                       |\n"
        "RuntimeError: No CUDA GPUs are available",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["mig-misconfigured"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                    0 |\n"
        "| N/A   30C    P0              52W / 400W |      4MiB / 40960MiB |      0%      Default |\n"
        "|                                         |                      |             Disabled |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "mig-misconfigured" not in slugs(text)
