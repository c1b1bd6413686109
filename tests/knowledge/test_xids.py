"""Xid and SXid codes."""

import pytest

from ongpu.knowledge import xids


@pytest.mark.parametrize("code", [8, 11, 13, 25, 31, 32, 39, 43, 45, 60, 68, 69, 137])
def test_an_application_xid_condemns_no_gpu(code: int) -> None:
    found = xids.xid(code)
    assert found is not None
    assert found.category == "app"
    assert found.drain is False
    assert not found.condemns


def test_no_application_xid_drains() -> None:
    assert [x.code for x in xids.xids() if x.category == "app" and x.drain is not False] == []


@pytest.mark.parametrize("code", [46, 48, 54, 62, 64, 74, 79, 95, 119, 120, 140, 143])
def test_these_take_a_gpu_out_of_service(code: int) -> None:
    found = xids.xid(code)
    assert found is not None
    assert found.condemns


@pytest.mark.parametrize("code", [63, 92, 94, 154])
def test_these_do_not_alone(code: int) -> None:
    found = xids.xid(code)
    assert found is not None
    assert not found.condemns


def test_ninety_four_is_uncorrectable() -> None:
    contained = xids.xid(94)
    assert contained is not None
    assert "uncorrectable" in str(contained.meaning)
    assert "不可纠正" in str(contained.meaning_zh)


def test_codes_without_meaning() -> None:
    found = xids.xid(2)
    assert found is not None
    assert found.meaning is None
    assert found.old_cards_only
    assert not found.condemns
    assert xids.xid(0) is None
    assert xids.xid(9999) is None


def test_sxids() -> None:
    always, never = xids.sxid(12020), xids.sxid(20001)
    assert always is not None
    assert never is not None
    assert (always.fatal, always.drain) == ("always", True)
    assert (never.fatal, never.drain) == ("never", False)
    assert xids.sxid(1) is None
    assert len(xids.sxids()) == 93


def test_all_codes_once() -> None:
    codes = [x.code for x in xids.xids()]
    assert codes == sorted(set(codes))
    assert codes == list(range(1, 177))
