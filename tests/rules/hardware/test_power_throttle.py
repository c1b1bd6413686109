import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "    Clocks Event Reasons\n"
        "        SW Power Cap                      : Active\n"
        "    GPU Power Readings\n"
        "        Power Draw                        : 588.00 W\n"
        "        Current Power Limit               : 35.00 W",
        "    Clocks Event Reasons\n"
        "        HW Slowdown                       : Active\n"
        "            HW Power Brake Slowdown       : Active",
        "    Clocks Event Reasons\n"
        "        SW Power Cap                      : Active\n"
        "    Power Readings\n"
        "        Power Draw                        : 149.00 W\n"
        "        Power Limit                       : 150.00 W\n"
        "        Default Power Limit               : 300.00 W",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["power-throttle"]


@pytest.mark.parametrize(
    "text",
    [
        "    Clocks Event Reasons\n"
        "        SW Power Cap                      : Active\n"
        "    Power Readings\n"
        "        Power Draw                        : 399.00 W\n"
        "        Power Limit                       : 400.00 W\n"
        "        Default Power Limit               : 400.00 W\n"
        "    Clocks\n"
        "        SM                                : 1300 MHz\n"
        "    Max Clocks\n"
        "        SM                                : 1410 MHz",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "power-throttle" not in slugs(text)
