import pytest
from asking import slugs


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
