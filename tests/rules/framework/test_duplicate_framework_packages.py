# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs

from ongpu.model import Certainty


@pytest.mark.parametrize(
    "texts",
    [
        (
            "$ pip list | grep onnx\nonnxruntime 1.16.3\nonnxruntime-gpu 1.16.3",
            "get_available_providers() only shows ['AzureExecutionProvider', 'CPUExecutionProvider']",
        ),
        (
            "UserWarning: \n"
            "--------------------------------------------------------------------------------\n"
            "  CuPy may not function correctly because multiple CuPy packages are installed\n"
            "  in your environment:\n"
            "    cupy-cuda11x, cupy-cuda12x",
        ),
        ("tensorflow==2.4.1\ntensorflow-gpu==2.4.1\nNum GPUs Available:  0\n",),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["duplicate-framework-packages"]


@pytest.mark.parametrize(
    "texts",
    [
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
    assert "duplicate-framework-packages" not in slugs(*texts)


@pytest.mark.parametrize(
    ("driver", "keep"), [("580.95.05", "cupy-cuda13x"), ("535.183.01", "cupy-cuda12x"), ("470.199.02", "cupy-cuda12x")]
)
def test_the_one_that_the_driver_runs_is_kept(driver: str, keep: str) -> None:
    listed = "$ pip list\nPackage      Version\n------------ -------\ncupy-cuda12x 13.6.0\ncupy-cuda13x 13.6.0\nnumpy        2.1.0\n"
    found = explain(f"| NVIDIA-SMI {driver}   Driver Version: {driver} |", listed).findings
    root = next(f for f in found if f.slug == "duplicate-framework-packages")
    assert root.values["keep"] == keep
    assert root.values["pinned"] == f"{keep}==13.6.0"
    assert "back" not in root.values  # a list does not say where a wheel came from


def test_every_pair_is_told_and_another_frameworks_error_is_no_ground_of_it() -> None:
    listed = "$ pip list\nPackage Version\n------- -------\n" + "".join(
        f"{name} {version}\n"
        for name, version in (
            ("cupy-cuda11x", "13.3.0"), ("cupy-cuda12x", "13.3.0"), ("numpy", "1.26.4"), ("paddlepaddle", "2.6.2"), ("paddlepaddle-gpu", "2.6.2"),
            ("tensorflow", "2.17.0"), ("tensorflow-cpu", "2.17.0"), ("torch", "2.5.1+cpu"),
        )
    )  # fmt: skip
    error = "AssertionError: Torch not compiled with CUDA enabled"
    found = explain(listed, error)
    pairs = [f for f in (*found.findings, *found.hidden) if f.slug == "duplicate-framework-packages"]
    assert {f.values["module"] for f in pairs} == {"cupy", "paddle", "tensorflow"}
    assert not [f for f in pairs if f.certainty is Certainty.CERTAIN or any("Torch" in ref.quote for ref in f.refs)]
    assert found.findings[0].slug == "cpu-only-build"
