"""Shared libraries."""

import pytest

from ongpu.knowledge import libs


@pytest.mark.parametrize(
    ("name", "component", "majors"),
    [
        ("libcublas.so.11", "cublas", (11,)),
        ("/usr/lib/x86_64-linux-gnu/libcudart.so.11.0", "cuda_runtime", (11,)),
        ("libcudart-d0da41ae.so.11.0", "cuda_runtime", (11,)),
        ("libcudart.so.10.1", "cuda_runtime", (10,)),
        ("libcufft.so.11", "cufft", (12,)),
        ("libcufft.so.12", "cufft", (13,)),
        ("libcusparse.so.12", "cusparse", (12, 13)),
        ("libcurand.so.10", "curand", (10, 11, 12, 13)),
        ("libnvJitLink.so.12", "nvjitlink", (12,)),
        ("libnvrtc.so.11.2", "cuda_nvrtc", (11,)),
        ("libcupti.so.11.8", "cuda_cupti", (11,)),
        ("libcudnn_ops_infer.so.8", "cudnn", (10, 11, 12)),
        ("cudart64_110.dll", "cuda_runtime", (11,)),
        ("cublasLt64_12.dll", "cublas", (12,)),
        (r"C:\cuda\bin\cudnn64_8.dll", "cudnn", (10, 11, 12)),
        ("nvrtc64_112_0.dll", "cuda_nvrtc", (11,)),
        ("nvJitLink_120_0.dll", "nvjitlink", (12,)),
        ("libcuda.so.1", "driver", ()),
        ("libnvidia-ml.so.535.104.05", "nvml", ()),
        ("nvcuda.dll", "driver", ()),
    ],
)
def test_library(name: str, component: str, majors: tuple[int, ...]) -> None:
    found = libs.library(name)
    assert found is not None
    assert (found.component, found.cuda_majors) == (component, majors)
    assert found.from_driver is (component in ("driver", "nvml"))


@pytest.mark.parametrize("name", ["libm.so.6", "libtorch_cuda.so", "kernel32.dll", "", "libcublas", "libcublas.so.x"])
def test_not_ours(name: str) -> None:
    assert libs.library(name) is None


def test_what_to_install() -> None:
    cublas, cudnn = libs.library("libcublas.so.11"), libs.library("libcudnn.so.8")
    assert cublas is not None
    assert cudnn is not None
    assert cublas.wheels == {11: "nvidia-cublas-cu11"}
    assert cublas.cuda_major == 11
    assert cudnn.wheels == {11: "nvidia-cudnn-cu11==8.*", 12: "nvidia-cudnn-cu12==8.*"}
    assert (cudnn.own_major, cudnn.cuda_major, cudnn.apt) == (8, None, "libcudnn8")


def test_wheels_and_folders() -> None:
    assert libs.wheel_folder("cublas", 12) == "nvidia/cublas/lib"
    assert libs.wheel_folder("cublas", 13) == "nvidia/cu13/lib"
    assert libs.wheel_folder("cudnn", 13) == "nvidia/cudnn/lib"
    assert libs.wheel_folder("cublas", 10) is None
    assert libs.is_stub_wheel("nvidia_cublas_cu13")
    assert not libs.is_stub_wheel("nvidia-cublas")
