import pytest
from asking import explain, slugs

from ongpu.model import Certainty, Severity, Verdict


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call",
        "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        "cudaErrorIllegalAddress: an illegal memory access was encountered",
        "RuntimeError: CUDA 错误：遇到非法内存访问",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "illegal-memory-access"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: device-side assert triggered",
    ],
)
def test_neighbours(text: str) -> None:
    assert "illegal-memory-access" not in slugs(text)


SANITIZED = """========= COMPUTE-SANITIZER
========= Invalid __global__ {access} of size 16 bytes
=========     at void at::native::<unnamed>::my_kernel<float>(T1 *, int)+0xec0 in my.cu:43
=========     by thread (18,0,0) in block (0,0,0)
=========     {where}
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch_it(int) in my.cpp:12 [0x8a81] in my_ext.so
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.
=========
RuntimeError: CUDA error: an illegal memory access was encountered
========= ERROR SUMMARY: 2 errors
"""
BEYOND = "Access to 0x7 is out of bounds\n=========     and is 161 bytes after the nearest allocation at 0x5 of size 1,024 bytes"
INSIDE = "Access to 0x7 is out of bounds\n=========     and is inside the nearest allocation at 0x5 of size 20971520 bytes"


def test_a_sanitizer_names_kernel_and_access() -> None:
    report = explain(SANITIZED.format(access="write", where=BEYOND))
    finding = report.findings[0]
    assert [f.slug for f in report.findings if f.weight > Severity.NOTE] == ["illegal-memory-access"]
    assert (finding.variant, finding.certainty) == ("sanitizer", Certainty.CERTAIN)
    assert (finding.values["kernel"], finding.values["place"], finding.values["after"]) == ("my_kernel", "my.cu:43", "161")
    assert finding.values["access"] == "__global__ write of size 16 bytes"
    assert finding.values["host"] == "launch_it(int) in my.cpp:12"
    assert "161 bytes after the nearest allocation of 1,024 bytes" in finding.text("en").title


def test_a_misaligned_access() -> None:
    finding = explain(SANITIZED.format(access="read", where="Address 0x7 is misaligned")).findings[0]
    assert (finding.slug, finding.variant) == ("illegal-memory-access", "misaligned")


def test_an_access_inside_an_allocation_may_be_a_false_alarm() -> None:
    finding = explain(SANITIZED.format(access="write", where=INSIDE)).findings[0]
    assert (finding.slug, finding.variant, finding.certainty) == ("illegal-memory-access", "inside", Certainty.POSSIBLE)


def test_a_sanitizer_that_finds_nothing_is_clear() -> None:
    assert explain("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n").verdict is Verdict.CLEAR


def test_with_launch_blocking_the_line_is_the_guilty_one() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 31, in <module>\n'
        "    y = my_ext.gather(x, idx)\n"
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    finding = explain("$ CUDA_LAUNCH_BLOCKING=1 python train.py\n" + text).findings[0]
    assert (finding.slug, finding.variant, finding.values["code"]) == ("illegal-memory-access", "blocking", "y = my_ext.gather(x, idx)")
    assert explain(text).findings[0].variant == ""
    assert explain("$ CUDA_LAUNCH_BLOCKING=0 python train.py\n" + text).findings[0].variant == ""
