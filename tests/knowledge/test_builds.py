import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.knowledge import torch
from ongpu.knowledge.builds import FRAMEWORKS, Here, pick, pick_driver

TODAY = "2026-11-30"


@pytest.mark.parametrize(
    ("here", "build"),
    [
        (Here(("12.0",), "570", "3.12"), "cu129"),  # the newest with sm_120 that a CUDA 12 driver runs
        (Here(("12.0",), "580.95.05", "3.12"), "cu132"),
        (Here(("6.1",), "580.95.05", "3.11"), "cu126"),  # Pascal: no CUDA 13 build holds it, whatever the driver
        (Here(("8.6",), "535.183.01", "3.10"), "cu126"),
        (Here(("8.6", "6.1"), "580", "3.12"), "cu126"),  # two cards: a build for both
    ],
)
def test_torch_build(here: Here, build: str) -> None:
    choice = pick("torch", here)
    assert choice.chosen is not None
    assert choice.chosen.build == build
    archs = torch.archs(choice.chosen.version, build)
    assert archs is not None
    assert all(torch.runs(archs, capability) for capability in here.capabilities)


def test_the_plain_install_is_told_why_it_does_not_serve() -> None:
    plain = pick("torch", Here(("12.0",), "570", "3.12")).rejected[0]
    assert (plain.problem, plain.need) == ("driver", "580.65.06")
    assert "--index-url" not in plain.install


def test_windows_needs_an_index() -> None:
    choice = pick("torch", Here(("8.6",), "580", "3.12", "windows_x86_64"))
    assert choice.chosen is not None
    assert "--index-url" in choice.chosen.install
    assert choice.rejected[0].problem == "cpu"


def test_no_build_is_none_not_a_guess() -> None:
    assert pick("torch", Here(("8.9",), "450.80.02", "3.11")).chosen is None
    assert pick("torch", Here(platform="macos_arm64")).chosen is None
    assert pick("tensorflow", Here(("8.6",), "580", "3.12", "windows_x86_64")).chosen is None


def test_a_named_version_only() -> None:
    choice = pick("torch", Here(("8.6",), "535.183.01", "3.10"), "2.1.2")
    assert choice.chosen is not None
    assert choice.chosen.version == "2.1.2"
    assert pick("torch", Here(("12.0",), "580", "3.12"), "2.4.1").chosen is None


@pytest.mark.parametrize(
    ("framework", "here", "part"),
    [
        ("jax", Here(("8.0",), "535.183.01", "3.12"), "jax[cuda12]"),
        ("jax", Here(("8.0",), "580.95.05", "3.12"), "jax[cuda13]"),
        ("onnxruntime", Here(("8.0",), "535.183.01", "3.12"), "onnxruntime-gpu>=1.24.0,<1.27"),
        ("cupy", Here(("8.0",), "535.183.01", "3.12"), "cupy-cuda12x"),
        ("tensorflow", Here(("8.0",), "535.183.01", "3.12"), "tensorflow[and-cuda]"),
        ("vllm", Here(("8.0",), "535.183.01", "3.12"), "vllm==0.19.1"),
        ("pytorch", Here(("8.0",), "535.183.01", "3.12"), "torch=="),
    ],
)
def test_other_frameworks(framework: str, here: Here, part: str) -> None:
    choice = pick(framework, here)
    assert choice.chosen is not None
    assert part in choice.chosen.install


def test_unknown_framework_names_the_known() -> None:
    with pytest.raises(ValueError, match="torch, tensorflow"):
        pick("caffe", Here())


def test_drivers() -> None:
    pascal = pick_driver(("6.1",), TODAY)
    assert pascal.branch is not None
    assert (pascal.branch.number, pascal.modules, pascal.last) == ("580", "proprietary", "580")
    blackwell = pick_driver(("12.0",), TODAY, offered=("580", "570"))
    assert blackwell.branch is not None
    assert (blackwell.branch.number, blackwell.modules) == ("580", "open")
    kepler = pick_driver(("3.7",), TODAY)
    assert kepler.branch is not None
    assert (kepler.branch.number, kepler.ended) == ("470", True)


def test_no_driver_serves_pascal_and_cuda_14_or_a_blackwell_beside_it() -> None:
    assert pick_driver(("12.0", "6.1"), TODAY).branch is None
    assert pick_driver(("3.7",), TODAY, cuda="13.0").branch is None


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.sampled_from(FRAMEWORKS),
    st.lists(st.sampled_from(["3.5", "5.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0", "12.1", "99.0"]), max_size=2),
    st.sampled_from([None, "390", "450.80.02", "470.82.01", "525.60.13", "535", "570.86.10", "580.65.06", "620"]),
    st.sampled_from([None, "2.7", "3.6", "3.8", "3.10", "3.12", "3.14", "4.0"]),
    st.sampled_from(torch.PLATFORMS),
)
def test_what_is_chosen_has_no_problem(framework: str, cards: list[str], driver: str | None, python: str | None, platform: str) -> None:
    choice = pick(framework, Here(tuple(cards), driver, python, platform))
    assert choice.chosen is None or choice.chosen.problem in ("", "unknown")
    assert all(one.problem for one in choice.rejected)
    assert not platform.startswith("macos") or choice.chosen is None
