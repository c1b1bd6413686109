# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, notes, slugs

from ongpu.engine import all_rules
from ongpu.rules.system.healthy import entries


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("E cuda_dnn.cc:9342] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN", "TensorFlow"),
        ("A matching Triton is not available, some optimizations will not be enabled.", "triton"),
        ("An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu.\nkohya LoRA training (PyTorch)\nsteps: 12% 1.20it/s", "JAX"),
        ("|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |    N/A |\n|  0%   41C    P8    12W / 240W |      1MiB /  8192MiB |      0%      Default |", "idle"),
        ("ldconfig: /usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link", "libcuda.so.1"),
        ("Used GPU Memory : Not available in WDDM driver model", "WDDM"),
        ("nvidia: module verification failed: signature and/or required key missing - tainting kernel", "taint"),
    ],
)
def test_a_note_and_no_more(text: str, word: str) -> None:
    assert slugs(text) == []
    said = " ".join(f.text("en").title + f.text("en").why for f in explain(text).findings if f.slug == "healthy")
    assert word in said


def test_it_never_hides_a_fault() -> None:
    text = "module verification failed: signature and/or required key missing - tainting kernel\nFailed to initialize NVML: Driver/library version mismatch"
    assert slugs(text)[0] == "driver-library-mismatch"
    assert "healthy" in notes(text)


def test_every_entry_has_a_symptom_or_facts_and_both_languages() -> None:
    rule = next(r for r in all_rules() if r.slug == "healthy")
    for name, entry in entries().items():
        assert "symptom" in entry or "facts" in entry, name
        assert name in rule.variants


def variants(*texts: str) -> list[str]:
    return [f.variant for f in explain(*texts).findings if f.slug == "healthy"]


def test_one_process_sees_one_mig_instance() -> None:
    cut = "$ nvidia-smi -L\nGPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: MIG-a)\n  MIG 3g.40gb     Device  1: (UUID: MIG-b)\n"
    count = ">>> torch.cuda.device_count()\n1\n"
    assert "mig-one-instance" in variants(cut, count)
    assert slugs(cut, count) == []
    assert "mig-one-instance" not in variants(count)


@pytest.mark.parametrize(
    "line",
    ["WARN: Can't get power for GPU #0, not supported", "NVML failed with code NotSupported. For 'nvmlDeviceGetFanSpeed'", "nvmlDeviceGetPowerUsage failed: Not Supported"],
)
def test_a_reading_that_the_card_lacks(line: str) -> None:
    assert "sensor-unsupported" in variants(line)


def test_no_processes_inside_a_container() -> None:
    assert "pid-namespace-told" in variants("nvidia-smi in a docker container does not show any processes, utilisation is 78 %")
    assert "pid-namespace-told" not in variants("nvidia-smi does not show any processes")


def test_a_banner_is_no_comfort_where_no_layer_went_to_the_card() -> None:
    assert "llama-banner" not in variants("llm_load_tensors: using CUDA for GPU acceleration\nllm_load_tensors: offloaded 0/35 layers to GPU")


def test_both_cuda_versions_are_told() -> None:
    smi, nvcc = "$ nvidia-smi\n| NVIDIA-SMI 535.161.08    Driver Version: 535.161.08   CUDA Version: 12.2     |\n", "$ nvcc --version\nCuda compilation tools, release {}\n"
    older, newer = (next(f for f in explain(smi, nvcc.format(v)).findings if f.variant == name) for v, name in (("11.8, V11.8.89", "cuda-version-differs"), ("12.4, V12.4.131", "cuda-minor-newer")))
    assert all(v in older.text("en").title for v in ("12.2", "11.8"))
    assert all(v in newer.text("zh").title for v in ("12.2", "12.4"))
    assert "cuda-minor-newer" not in variants(smi, nvcc.format("13.0, V13.0.48"))


def test_pids_that_a_container_does_not_show() -> None:
    told = "When I run any gpu process inside my podman container, the GPU is used but the pids are not visible in the output of `nvidia-smi`"
    assert [f.slug for f in explain(told).findings if "pid" in f.text("en").fix] == ["healthy"]
