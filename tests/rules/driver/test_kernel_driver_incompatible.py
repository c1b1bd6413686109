# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "Kernel: 5.9.1-arch1-1\nNvidia driver version: 455.23.04\nRuntimeError: CUDA unknown error",
        "BUG: unable to handle page fault for address: 0000000000002a04\n"
        "RIP: 0010:_nv011234rm+0x1b/0x90 [nvidia]",
        "traps: Missing ENDBR: _nv013192rm+0x0/0x10 [nvidia]\n"
        "kernel BUG at arch/x86/kernel/traps.c:253!",
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[:1] == ["kernel-driver-incompatible"]


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
        "Kernel: 6.8.0-40-generic\n"
        "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |",
    ],
)
def test_is_not_it(text: str) -> None:
    assert "kernel-driver-incompatible" not in slugs(text)


def test_the_oops_line_is_shown() -> None:
    text = "[ 2.6] BUG: kernel NULL pointer dereference, address: 0000000000000fa8\n[ 2.6] Oops: 0002 [#1] PREEMPT SMP NOPTI\n[ 2.7] RIP: 0010:os_acquire_spinlock+0x6/0xd0 [nvidia]"
    first = explain(text).findings[0]
    assert first.slug == "kernel-driver-incompatible"
    assert any("NULL pointer" in ref.quote for ref in first.refs)


def test_a_task_of_the_driver_hangs_on_one_kernel_and_not_on_another() -> None:
    hung = "INFO: task nvidia-modeset/:883 blocked for more than 122 seconds."
    here = "kernel 6.16.3-generic, nvidia-driver-570-open 570.172.08."
    assert slugs(f"{here} With kernel 6.12 and the same driver all is well.", hung) == ["kernel-driver-incompatible"]
    assert "kernel-driver-incompatible" not in slugs(here, hung)
    assert "kernel-driver-incompatible" not in slugs(here, "INFO: task jbd2/sda1-8:883 blocked for more than 122 seconds.")
