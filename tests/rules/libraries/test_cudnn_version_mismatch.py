# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0.  CuDNN library"
            " needs to have matching major version and equal or higher minor version.",
        ),
        (
            "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 9, 2) but"
            " found runtime version (8, 7, 0). PyTorch already comes bundled with cuDNN.",
        ),
        (
            "Could not load library libcudnn_ops_infer.so.8\n"
            "nvidia-cudnn-cu12==9.1.0.70\n"
            "ctranslate2==4.4.0\n"
            "torch==2.4.0",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["cudnn-version-mismatch"]


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot"
            " open shared object file: No such file or directory",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "cudnn-version-mismatch" not in slugs(*texts)


def test_the_loaders_cache_tells_which_cudnn_is_there() -> None:
    error = "Could not load library libcudnn_cnn_infer.so.8. Error: libcudnn_cnn_infer.so.8: cannot open shared object file: No such file or directory"
    cache = "$ ldconfig -p | grep cudnn\n\tlibcudnn_graph.so.9 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcudnn_graph.so.9\n\tlibcudnn.so.9 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcudnn.so.9"
    first = explain(error, cache).findings[0]
    assert (first.slug, first.variant, first.values["have"], first.values["want"]) == ("cudnn-version-mismatch", "file", "9", "8")
    assert "cudnn-version-mismatch" not in slugs(cache)
