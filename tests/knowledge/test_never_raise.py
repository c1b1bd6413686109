"""Whatever text a look-up is given, it answers."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.knowledge import cuda, errors, gpus, jax, libs, nvcc, others, pci, tensorflow, torch, xids

versions = st.from_regex(r"v?[0-9]{1,4}(\.[0-9]{0,3}){0,3}(\+cu[0-9]{2,3})?", fullmatch=True)
gpu_like = st.lists(
    st.sampled_from(
        ["NVIDIA", "GeForce", "RTX", "GTX", "3090", "Ti", "A100", "80GB", "...", "Laptop", "[", "]", "TITAN", "X", "MIG", "Quadro", "…"]
    )
).map(" ".join)
anything = st.one_of(st.text(max_size=60), versions, gpu_like)

LOOK_UPS: list[Callable[[str], object]] = [
    gpus.compute_capability,
    gpus.model,
    gpus.find_names,
    gpus.chip_capability,
    gpus.architecture,
    pci.architecture_of_device_id,
    cuda.oldest_driver_for,
    cuda.cuda_of_driver,
    cuda.branch,
    cuda.newest_branch_for,
    cuda.oldest_driver_for_gpu,
    cuda.open_modules,
    cuda.cuda_of_build,
    errors.look_up,
    errors.by_name,
    torch.release,
    torch.build_of,
    torch.companions,
    tensorflow.release,
    tensorflow.newest_for_python,
    tensorflow.gpu_platforms,
    jax.release,
    jax.lines_of,
    jax.line_of_plugin,
    libs.library,
    libs.is_stub_wheel,
    nvcc.host_limits,
    nvcc.oldest_cuda_for_gcc,
    others.package,
]
PAIRS: list[Callable[[str, str], object]] = [
    cuda.toolkit_supports,
    torch.archs,
    torch.default_build,
    torch.python_ok,
    torch.torch_for_companion,
    tensorflow.python_ok,
    nvcc.accepts_gcc,
    nvcc.accepts_clang,
    others.line,
    others.torch_spec,
    others.releases_for_torch,
]


@pytest.mark.parametrize("look_up", LOOK_UPS, ids=lambda f: f"{f.__module__.rpartition('.')[2]}.{f.__name__}")
@settings(max_examples=40, deadline=None)
@given(text=anything)
def test_one_text(look_up: Callable[[str], object], text: str) -> None:
    look_up(text)


@pytest.mark.parametrize("look_up", PAIRS, ids=lambda f: f"{f.__module__.rpartition('.')[2]}.{f.__name__}")
@settings(max_examples=40, deadline=None)
@given(one=st.one_of(anything, st.sampled_from(["xformers", "vllm", "2.5.1", "12.4"])), other=anything)
def test_two_texts(look_up: Callable[[str, str], object], one: str, other: str) -> None:
    look_up(one, other)


@settings(max_examples=60, deadline=None)
@given(st.lists(anything, max_size=5), anything, st.none() | versions)
def test_runs(archs: list[str], capability: str, cuda_version: str | None) -> None:
    torch.runs(archs, capability, cuda_version)


@given(st.integers(), st.integers())
@settings(max_examples=60, deadline=None)
def test_numbers(code: int, mask: int) -> None:
    xids.xid(code)
    xids.sxid(code)
    errors.code("cuda", code)
    errors.clock_reasons_of(abs(mask))


@given(st.sampled_from([a.capability for a in gpus.architectures()]))
def test_a_gpu_runs_code_built_for_itself(capability: str) -> None:
    assert torch.runs([capability], capability)
    assert torch.runs([f"sm_{capability.replace('.', '')}"], capability)


@given(st.sampled_from(gpus.models()))
def test_brand_and_case_do_not_matter(one: gpus.Model) -> None:
    assert gpus.compute_capability(one.name.upper()) == gpus.compute_capability(one.name)
    assert gpus.compute_capability(f"NVIDIA {one.name}") == gpus.compute_capability(one.name)
