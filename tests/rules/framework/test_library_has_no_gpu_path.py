import pytest
from asking import slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "from sklearn.ensemble import RandomForestClassifier\n"
            "clf.fit(X, y)\n"
            "How can I use the GPU with this? GPU usage 0%",
        ),
        (
            "NotImplementedError: Could not run 'aten::_histogramdd_from_bin_cts' with arguments from"
            " the 'CUDA' backend. This could be because the operator doesn't exist for this backend,"
            " or was omitted during the selective/custom build process",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["library-has-no-gpu-path"]


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider"
            " names.Available providers: 'AzureExecutionProvider, CPUExecutionProvider'",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "library-has-no-gpu-path" not in slugs(*texts)
