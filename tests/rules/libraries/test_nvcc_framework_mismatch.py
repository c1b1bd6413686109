# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "RuntimeError: \n"
            "The detected CUDA version (12.1) mismatches the version that was used to compile\n"
            "PyTorch (11.8). Please make sure to use the same CUDA versions.",
        ),
        (
            "RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not"
            " match the version used to compile Pytorch binaries.  Pytorch binaries were compiled with"
            " Cuda 10.2.",
        ),
        (
            "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder:"
            " Installed CUDA version 12.3 does not match the version torch was compiled with 11.8,"
            " unable to compile cuda/cpp extensions without a matching cuda version.",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["nvcc-framework-mismatch"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "/usr/include/crt/host_config.h:138:2: error: #error -- unsupported GNU version! gcc"
            " versions later than 8 are not supported!",
        ),
        ("/bin/sh: 1: nvcc: not found\nninja: build stopped: subcommand failed.",),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "nvcc-framework-mismatch" not in slugs(*texts)


def test_both_versions_are_told_where_the_message_is_broken_over_lines() -> None:
    text = "RuntimeError:\n    The detected CUDA version (12.8) mismatches the version that was used to compile\n    PyTorch (11.8). Please make sure to use the same CUDA versions."
    first = explain(text).findings[0]
    assert (first.slug, first.values["have"], first.values["want"]) == ("nvcc-framework-mismatch", "12.8", "11.8")
