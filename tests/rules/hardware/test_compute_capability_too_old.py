import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "Found GPU0 GeForce GTX 770 which is of cuda capability 3.0.\n"
        "PyTorch no longer supports this GPU because it is too old.",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\nGPU: Quadro RTX 5000",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your "
        "Tesla V100-SXM2-32GB GPU has compute capability 7.0.",
        "CUDA error: no kernel image is available for execution on the device\n"
        "  Device 0: Tesla M40, compute capability 5.2, VMM: yes",
        "nvcc fatal   : Unsupported gpu architecture 'compute_35'",
        "[E] Target GPU SM 61 is not supported by this TensorRT release.",
        "NVRM: The NVIDIA GeForce GT 650M GPU installed in this system is\n"
        "NVRM:  supported through the NVIDIA 470.xx Legacy drivers.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["compute-capability-too-old"]


@pytest.mark.parametrize(
    "text",
    [
        "FlashAttention only supports Ampere GPUs or newer.\nGPU: NVIDIA A100",
        "GTX 1080, torch==2.1.0+cu118",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "compute-capability-too-old" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        '"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"',
        "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal seek for GPU arch : gfx1031",
        "RuntimeError: HIP error: invalid device function",
    ],
)
def test_a_rocm_build_without_code_for_the_card(text: str) -> None:
    told = explain(text).findings[0]
    assert (told.slug, told.variant) == ("compute-capability-too-old", "hip")
