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
