"""Model names as people and tools write them."""

import pytest

from ongpu.knowledge import gpus


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GeForce RTX 3090", "8.6"),
        ("RTX 5090", "12.0"),
        ("rtx3090ti", "8.6"),
        ("2080Ti", "7.5"),
        ("4090", "8.9"),
        ("RTX4090D", "8.9"),
        ("GTX 1050ti", "6.1"),
        ("rtx 4070tis", "8.9"),
        ("GeForce RTX 4090 Laptop GPU", "8.9"),
        ("GeForce GTX 1080 with Max-Q Design", "6.1"),
        ("NVIDIA GeForce RTX 2050", "8.6"),
        ("GeForce GTX 1060 6GB", "6.1"),
        ("GeForce GTX 750", "5.0"),
        ("GeForce GTX TITAN X", "5.2"),
        ("NVIDIA TITAN X (Pascal)", "6.1"),
        ("Tesla V100-SXM2-32GB", "7.0"),
        ("Tesla P100-PCIE-16GB", "6.0"),
        ("Tesla M40 24GB", "5.2"),
        ("M40", "5.2"),
        ("Tesla K40m", "3.5"),
        ("K80", "3.7"),
        ("Tesla T4", "7.5"),
        ("GRID T4-8Q", "7.5"),
        ("NVIDIA A10-24Q", "8.6"),
        ("A100-SXM4-80GB", "8.0"),
        ("A100 40GB", "8.0"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA H200", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"),
        ("NVIDIA B200", "10.0"),
        ("NVIDIA GB10", "12.1"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"),
        ("Quadro RTX 6000", "7.5"),
        ("NVIDIA RTX A6000", "8.6"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("NVIDIA RTX 4000 Ada Generation Laptop GPU", "8.9"),
        ("Orin (nvgpu)", "8.7"),
        ("NVIDIA Thor", "11.0"),
        ("NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)", "8.9"),
        ("NVIDIA Corporation GA107BM / GN20-P0-R-K2", "8.6"),
        ("GeForce RTX 208...", "7.5"),
        ("NVIDIA GeForce RTX 309...", "8.6"),
        ("NVIDIA GeForce ...", None),
        ("GeForce GTX TIT...", None),
        ("RTX 6000", None),  # Turing, Ada and Blackwell boards bear it
        ("TITAN X", None),
        ("GeForce GT 730", None),
        ("GTX 860M", None),
        ("RTX 9090", None),
        ("GeForce", None),
        ("AMD Radeon RX 7900 XTX", None),
        ("Intel(R) UHD Graphics 630", None),
        ("", None),
    ],
)
def test_compute_capability(name: str, capability: str | None) -> None:
    assert gpus.compute_capability(name) == capability


def test_model_of_one_row() -> None:
    found = gpus.model("NVIDIA GeForce RTX 4090 Laptop GPU")
    assert found is not None
    assert (found.name, found.chip, found.memory_gib, found.laptop) == ("GeForce RTX 4090 Mobile", "AD103", 16, True)
    assert found.pcie == (4, 16)
    assert found.architecture is not None
    assert found.architecture.name == "Ada Lovelace"


def test_model_of_several_rows_keeps_what_they_share() -> None:
    found = gpus.model("A100 40GB")
    assert found is not None
    assert (found.name, found.memory_gib, found.power_w) == ("A100", 40, None)


def test_model_of_a_bare_chip_is_unknown() -> None:
    assert gpus.compute_capability("AD102") == "8.9"
    assert gpus.model("AD102") is None


def test_names_that_mean_nothing_alone() -> None:
    assert gpus.model("RTX 6000") is None


def test_every_row_is_found_by_its_own_name() -> None:
    ambiguous = {"GeForce GT 630", "GeForce GT 640", "GeForce GT 730", "GeForce GT 720M", "GeForce GT 730M", "GeForce 820M"}
    lost = []
    for one in gpus.models():
        found = gpus.compute_capability(one.name)
        if found != one.capability and one.name not in ambiguous | {"GeForce GTX 860M"}:
            lost.append((one.name, one.capability, found))
    assert lost == []


def test_find_names_in_prose() -> None:
    text = "I have an RTX 3090 and 2x A100-SXM4-80GB; 我的4090显卡报错，另有 Tesla T4。port 4090, 1080 pixels, RTX 3090"
    assert gpus.find_names(text) == ["RTX 3090", "A100-SXM4-80GB", "4090", "Tesla T4"]


def test_find_names_drops_words_that_made_no_model() -> None:
    assert gpus.find_names("GeForce RTX 4070 Ti SUPER Laptop GPU") == ["GeForce RTX 4070 Ti SUPER"]


@pytest.mark.parametrize(
    ("chip", "capability"), [("AD102", "8.9"), ("ga107bm", "8.6"), ("TU104GLM", "7.5"), ("GB20B", "12.1"), ("XX999", None), ("", None)]
)
def test_chip_capability(chip: str, capability: str | None) -> None:
    assert gpus.chip_capability(chip) == capability


def test_architecture_facts() -> None:
    pascal, blackwell = gpus.architecture("6.1"), gpus.architecture("sm_120")
    assert pascal is not None
    assert blackwell is not None
    assert (pascal.cuda_last, pascal.last_driver, pascal.open_modules) == ("12.9", "580", "unsupported")
    assert (blackwell.cuda_first, blackwell.first_driver, blackwell.open_modules) == ("12.8", "570", "required")
    assert gpus.architecture("99.9") is None


def test_memory_at_least() -> None:
    found = gpus.models_with_memory_at_least(24, kind="consumer")
    assert found[0].memory_gib == 24
    assert {"GeForce RTX 3090", "GeForce RTX 4090", "GeForce RTX 5090"} <= {m.name for m in found}
    assert "A100 PCIe 80 GB" not in {m.name for m in found}


def test_all_models_have_a_capability_of_the_table() -> None:
    known = {a.capability for a in gpus.architectures()}
    assert [m.name for m in gpus.models() if m.capability not in known] == []
