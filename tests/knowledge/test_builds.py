import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.knowledge import torch
from ongpu.knowledge.builds import FRAMEWORKS, Here, newest, pick


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
        ("onnxruntime", Here(("8.0",), "535.183.01", "3.12"), "onnxruntime-gpu[cuda,cudnn]>=1.24.0,<1.27"),
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
    assert not platform.startswith("macos") or choice.chosen is None or choice.chosen.build == "mps"


def test_a_card_that_the_newer_cudnn_dropped() -> None:
    kepler = pick("torch", Here(("3.7",), "470", "3.10"))
    assert kepler.chosen is not None
    assert (kepler.chosen.version, kepler.chosen.build) == ("2.3.1", "cu118")  # from 2.4 on its cuDNN is 9, which begins at 5.0
    newer = pick("torch", Here(("3.7",), "470", "3.10"), "2.7.1")
    assert newer.chosen is None
    assert "cudnn" in {one.problem for one in newer.rejected}


@pytest.mark.parametrize(("framework", "python"), [("jax", "3.12"), ("tensorflow", "3.12"), ("onnxruntime", "3.12")])
def test_pip_is_kept_from_a_cudnn_without_code_for_the_card(framework: str, python: str) -> None:
    for card, is_bound in (("6.1", True), ("7.0", True), ("7.5", False), ("8.6", False)):
        chosen = pick(framework, Here((card,), "535.183.01", python)).chosen
        assert chosen is not None
        assert ("nvidia-cudnn-cu12<9.11" in chosen.install) is is_bound, card


def test_jax_for_cuda_11() -> None:
    chosen = pick("jax", Here(("8.0",), "470", "3.10")).chosen
    assert chosen is not None
    assert chosen.install.endswith(" -f https://storage.googleapis.com/jax-releases/jax_cuda_releases.html")
    assert "nvidia-cudnn-cu11<9" in chosen.install  # built for cuDNN 8, bounded from below only
    assert pick("jax", Here(("3.7",), "470", "3.10")).chosen is None
    assert pick("jax", Here(("8.0",), "470", "3.13")).chosen is None  # no wheel of that age for 3.13


def test_the_bounds_of_bitsandbytes() -> None:
    assert pick("bitsandbytes", Here(("3.7",), "470", "3.9")).chosen is None
    maxwell = pick("bitsandbytes", Here(("5.2",), "535", "3.11")).chosen
    assert maxwell is not None
    assert maxwell.version == "0.45.5"
    assert all(one.problem == "python" for one in pick("bitsandbytes", Here(("8.6",), "535", "3.9"), "0.50.2").rejected)


def test_tensorflow_has_no_wheel_for_blackwell() -> None:
    assert pick("tensorflow", Here(("12.0",), "580", "3.12")).chosen is None
    assert pick("tensorflow", Here(("9.0",), "580", "3.12")).chosen is not None


@pytest.mark.parametrize(
    ("framework", "here", "brings"),
    [
        ("cupy", Here(("8.6",), "535", "3.12"), "cupy-cuda12x[ctk]"),
        ("cupy", Here(("8.6",), "580.95.05", "3.12"), "cupy-cuda13x[ctk]"),
        ("onnxruntime", Here(("8.6",), "580.95.05", "3.12"), "onnxruntime-gpu[cuda,cudnn]"),
        ("ctranslate2", Here(("8.6",), "535", "3.12"), " nvidia-cublas-cu12"),
        ("onnxruntime", Here(("8.6",), "535", "3.9"), " nvidia-cublas-cu12"),  # 1.19 has no such extra
    ],
)
def test_what_brings_the_cuda_libraries(framework: str, here: Here, brings: str) -> None:
    chosen = pick(framework, here).chosen
    assert chosen is not None
    assert brings in chosen.install


def test_a_card_older_than_what_builds_carry_is_not_promised() -> None:
    chosen = pick("onnxruntime", Here(("3.7",), "470", "3.9")).chosen
    assert chosen is not None
    assert chosen.problem == "unknown"


def test_metal_and_jetson() -> None:
    apple = pick("torch", Here(platform="macos_arm64", python="3.12")).chosen
    assert apple is not None
    assert (apple.build, "index-url" in apple.install) == ("mps", False)
    jetson = pick("torch", Here(("8.7",), None, "3.10", "linux_aarch64"))
    assert jetson.chosen is None
    assert "jetson" in {one.problem for one in jetson.rejected}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_release_that_does_not_exist(framework: str) -> None:
    choice = pick(framework, Here(("8.6",), "580.95.05", "3.12"), "99")
    assert (choice.chosen, choice.rejected) == (None, ())
    assert newest(framework)
    assert ".99" not in str(newest(framework))
