import pytest
from asking import found, slugs
from parts import profiles
from parts.dryruns import answer
from parts.dryruns import notes as run_notes

from ongpu.model import Certainty


@pytest.mark.parametrize(
    "text",
    [
        "You are using a CUDA device ('NVIDIA A100-SXM4-40GB') that has Tensor Cores. To properly utilize "
        "them, you should set `torch.set_float32_matmul_precision('medium' | 'high')` which will trade-off "
        "precision for performance.",
        "UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication available but not "
        "enabled. Consider setting `torch.set_float32_matmul_precision('high')` for better performance.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "no-mixed-precision"


def test_a_trace_of_float32_products() -> None:
    finding = found("no-mixed-precision", profiles.text(profiles.kineto(names=(profiles.SGEMM, profiles.ELEMENTWISE))))
    assert finding
    assert (finding.variant, finding.values["share"], finding.values["cores"]) == ("trace", "50", "0")
    assert finding.certainty is Certainty.LIKELY


def test_tensor_cores_in_use_are_fine_in_a_trace() -> None:
    assert found("no-mixed-precision", profiles.text(profiles.kineto())) is None


def test_a_card_without_tensor_cores_has_none_to_use() -> None:
    old = {**profiles.CARD, "name": "Tesla P100", "computeMajor": 6}
    assert found("no-mixed-precision", profiles.text(profiles.kineto(names=(profiles.SGEMM,), card=old))) is None


def test_without_a_card_it_is_merely_possible() -> None:
    finding = found("no-mixed-precision", profiles.text(profiles.kineto(names=(profiles.SGEMM,), card=None)))
    assert finding
    assert finding.certainty is Certainty.POSSIBLE


def test_a_dry_run_with_much_work_in_float32_is_a_note() -> None:
    devices = answer()["devices"]
    heavy = {**devices, "flop": {"cuda": 3e12}}
    assert run_notes(devices=heavy) == ["no-mixed-precision"]
    assert run_notes(devices=heavy, calls={"autocast": [{"dtype": "bfloat16", "place": None}]}) == []
