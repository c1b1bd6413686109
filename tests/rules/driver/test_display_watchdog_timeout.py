import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: the launch timed out and was terminated",
        "Display driver nvlddmkm stopped responding and has successfully recovered.",
        "cudaErrorLaunchTimeout: the launch timed out and was terminated\n"
        "Run time limit on kernels: Yes",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["display-watchdog-timeout"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ncclInternalError: watchdog caught collective operation timeout",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "display-watchdog-timeout" not in slugs(text)


def test_where_the_system_is_not_told_both_remedies_are() -> None:
    first = explain("RuntimeError: CUDA error: the launch timed out and was terminated").findings[0]
    assert "TdrDelay" in first.text("en").fix
    assert "xorg.conf" in first.text("en").fix
