from ongpu.knowledge.driver_choice import pick_driver

TODAY = "2026-11-30"


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


def test_of_a_card_whose_support_has_ended_the_last_branch() -> None:
    for card, branch in (("2.0", "390"), ("3.7", "470"), ("5.2", "580"), ("6.1", "580"), ("7.0", "580")):
        made = pick_driver((card,), TODAY)
        assert made.branch is not None
        assert made.branch.number == branch
