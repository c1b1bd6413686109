from asking import explain, slugs

from ongpu.model import Severity

CALL = """========= COMPUTE-SANITIZER
========= Program hit {code} (error 1) due to "invalid argument" on CUDA API call to {call}.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: {host} [0x8a94] in demo
=========
========= ERROR SUMMARY: 1 error
"""


def test_a_call_that_failed() -> None:
    finding = explain(CALL.format(code="cudaErrorInvalidValue", call="cudaMemcpy", host="upload(int) in a.cu:4")).findings[0]
    assert (finding.slug, finding.weight) == ("cuda-api-call-failed", Severity.WARNING)
    assert (finding.values["code"], finding.values["call"], finding.values["host"]) == (
        "cudaErrorInvalidValue",
        "cudaMemcpy",
        "upload(int) in a.cu:4",
    )


def test_errors_that_programs_expect_are_notes() -> None:
    for code, call, host in (
        ("cudaErrorPeerAccessAlreadyEnabled", "cudaDeviceEnablePeerAccess", "main"),
        ("cudaErrorInvalidValue", "cudaPointerGetAttributes", "main"),
        ("cudaErrorNoKernelImageForDevice", "cudaFuncGetAttributes", "ncclInitKernelsForDevice(int, int) in enqueue.cc:87"),
    ):
        assert "cuda-api-call-failed" not in slugs(CALL.format(code=code, call=call, host=host))


def test_what_follows_from_a_bad_kernel_is_not_told_again() -> None:
    text = (
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n"
        "=========     at k(int *)+0x1 in k.cu:8\n=========\n"
        + CALL.format(code="cudaErrorLaunchFailure", call="cudaFree", host="main")
    )
    assert slugs(text) == ["illegal-memory-access"]
