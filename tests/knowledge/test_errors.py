"""Error numbers and names."""

import pytest

from ongpu.knowledge import errors


def named(term: str) -> list[tuple[str, int]]:
    return [(code.family, code.number) for code in errors.look_up(term)]


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("803", [("cuda", 803)]),
        ("0x2bc", [("cuda", 700)]),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", [("cuda", 700)]),
        ("cudaerrornodevice", [("cuda", 100)]),
        ("NVML_ERROR_LIB_RM_VERSION_MISMATCH", [("nvml", 18)]),
        ("CUBLAS_STATUS_NOT_INITIALIZED", [("cublas", 1)]),
        ("CUDNN_STATUS_NOT_INITIALIZED", [("cudnn9", 1001), ("cudnn8", 1)]),
        ("ncclSystemError", [("nccl", 2)]),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_MAPPING_ERROR", [("cudnn8", 7)]),
        ("Error 804: forward compatibility was attempted", [("cuda", 804)]),
        ("NVML error 9", [("nvml", 9)]),
        ("CUDA error (77)", [(errors.OLD_RUNTIME, 77)]),
        ("99999", []),
        ("no such thing", []),
        ("", []),
    ],
)
def test_look_up(term: str, found: list[tuple[str, int]]) -> None:
    assert named(term) == found


def test_seventy_seven_is_an_old_runtime_number() -> None:
    (code,) = errors.look_up("77")
    assert code.family == errors.OLD_RUNTIME
    assert code.number_now == 700
    assert "cudaErrorIllegalAddress" in code.names
    assert code.sticky
    assert code.note is not None
    assert "700" in code.note


def test_nine_has_many_meanings() -> None:
    assert [family for family, _ in named("9")] == ["cuda", "nvml", "cudnn8", "cusparse", "cusolver", "cufft"]
    first = errors.look_up("9")[0]
    assert first.names == ("cudaErrorInvalidConfiguration",)


def test_driver_and_runtime_share_a_meaning() -> None:
    driver, runtime = errors.by_name("CUDA_ERROR_ASSERT"), errors.by_name("cudaErrorAssert")
    assert driver is runtime
    assert driver is not None
    assert driver.sticky
    assert driver.layer == "code"


def test_code_of_a_family() -> None:
    nvml = errors.code("nvml", 15)
    assert nvml is not None
    assert nvml.names == ("NVML_ERROR_GPU_IS_LOST",)
    assert errors.code("nvml", 700) is None


def test_clock_reasons() -> None:
    assert [r.name for r in errors.clock_reasons_of(0x44)] == ["SwPowerCap", "HwThermalSlowdown"]
    assert [r.bad for r in errors.clock_reasons_of(0x44)] == [False, True]
    assert errors.clock_reasons_of(0) == []


def test_families() -> None:
    assert set(errors.families()) == {code.family for number in range(10001) for code in errors.look_up(str(number))}
