# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, slugs


@pytest.mark.parametrize(
    "text",
    [
        "    Clocks Event Reasons\n"
        "        SW Power Cap                      : Not Active\n"
        "        HW Slowdown                       : Active\n"
        "            HW Thermal Slowdown           : Active",
        "    Temperature\n"
        "        GPU Current Temp                  : 93 C\n"
        "        GPU Slowdown Temp                 : 92 C",
        "training gets slower over time; after a pause it is fast again (cold machine)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["thermal-throttle"]


@pytest.mark.parametrize(
    "text",
    [
        "    Temperature\n"
        "        GPU Current Temp                  : 86 C\n"
        "        GPU Slowdown Temp                 : 97 C",
        "    Clocks Event Reasons\n"
        "        HW Slowdown                       : Not Active\n"
        "            HW Thermal Slowdown           : Not Active\n"
        "        SW Thermal Slowdown               : Not Active",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "thermal-throttle" not in slugs(text)


LIMITS = (
    "==============NVSMI LOG==============\nAttached GPUs : 1\nGPU 00000000:2D:00.0\n    Temperature\n        GPU Current Temp                  : {} C\n"
    "        GPU Shutdown Temp                 : 102 C\n        GPU Slowdown Temp                 : 97 C\n        GPU Max Operating Temp            : {} C\n"
)


def test_a_limit_that_firmware_lowered() -> None:
    told = explain("clocks fall to a fraction within a minute of load", LIMITS.format(56, 57)).findings[0]
    assert (told.slug, told.variant, told.values["limit"]) == ("thermal-throttle", "firmware", 57)


def test_limits_are_no_readings() -> None:
    assert slugs(LIMITS.format(56, 57)) == []
    assert slugs("clocks fall to a fraction within a minute of load", LIMITS.format(56, 93)) == []
