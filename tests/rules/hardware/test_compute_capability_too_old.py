# ruff: noqa: E501  printed lines stand in one piece
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


@pytest.mark.parametrize(
    "line",
    [
        "transformer.py:20: UserWarning: Flash Attention is disabled as it requires a GPU with Ampere (8.0) CUDA capability.",
        "WARNING: bf16 is not supported on this GPU (requires Ampere), falling back to fp16",
    ],
)
def test_a_feature_that_is_left_out_in_a_run_that_goes_on(line: str) -> None:
    assert slugs(line) == []
    assert slugs(line + "\nRuntimeError: No available kernel. Aborting execution.")[0] == "compute-capability-too-old"


def test_the_span_of_a_build() -> None:
    line = "UserWarning:\n    Found GPU0 {} which is of cuda capability {}.\n    Minimum and Maximum cuda capability supported by this version of PyTorch is\n    ({}) - (12.0)\n"
    assert slugs(line.format("GeForce GTX 960M", "5.0", "7.0")) == ["compute-capability-too-old"]
    assert slugs(line.format("NVIDIA GB10", "12.1", "8.0")) == []
