"""Host compilers of nvcc."""

from ongpu.knowledge import cuda, nvcc


def test_gcc() -> None:
    assert nvcc.accepts_gcc("11.8", "11.4.0") is True
    assert nvcc.accepts_gcc("11.8", "12") is False
    assert nvcc.accepts_gcc("12.4.131", "13.3.0") is True
    assert nvcc.accepts_gcc("12.4", "14") is False
    assert nvcc.accepts_gcc("99", "14") is None
    assert nvcc.accepts_gcc("12.4", "?") is None
    assert nvcc.oldest_cuda_for_gcc("14.2") == "12.8"
    assert nvcc.oldest_cuda_for_gcc("99") is None


def test_clang_and_msvc() -> None:
    assert nvcc.accepts_clang("13.0", "20.1.0") is True
    assert nvcc.accepts_clang("13.0", "21") is False
    assert nvcc.accepts_msvc("12.3", 1941) is False
    assert nvcc.accepts_msvc("12.4", 1941) is True
    assert nvcc.accepts_msvc("10.0", 1941) is None


def test_limits_only_rise() -> None:
    assert [one.gcc_max for one in nvcc.limits()] == sorted(one.gcc_max for one in nvcc.limits())
    assert nvcc.limits()[-1].cuda == cuda.newest_toolkit()
