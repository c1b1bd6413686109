"""dxdiag, the device manager, PowerShell and wmic."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpus
from ongpu.model import Evidence, Fact
from ongpu.sources.windows import read


def facts(text: str, command: str | None = None) -> dict[type[Fact], Fact]:
    return {type(fact): fact for fact in read(Evidence("pasted", text, "x", command))}


def test_version_numbers() -> None:
    driver = facts("Card name: NVIDIA GeForce RTX 3060\nDriver Version: 31.0.15.3699")[Driver]
    assert isinstance(driver, Driver)
    assert driver.version == "536.99"


def test_codes() -> None:
    for text in (
        "Windows has stopped this device because it has reported problems. (Code 43)",
        "FriendlyName : NVIDIA GeForce RTX 3060\nProblem : CM_PROB_FAILED_POST_START",
        "ConfigManagerErrorCode  DriverVersion   Name                          Status\n43                      "
        "31.0.15.3623    NVIDIA GeForce GTX 1070       Error",
    ):
        gpus = facts(text)[Gpus]
        assert isinstance(gpus, Gpus)
        assert gpus.gpus[0].problem_code == 43


def test_no_problem() -> None:
    gpus = facts("Card name: NVIDIA GeForce RTX 3060\nDevice Problem Code: No Problem")[Gpus]
    assert isinstance(gpus, Gpus)
    assert gpus.gpus[0].problem_code is None


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("NVIDIA GeForcdpblm:(C4310)\n,."), max_size=400),
    command=st.sampled_from((None, 'dxdiag', 'wmic path win32_videocontroller get name')),
)
def test_no_text_makes_it_crash(text: str, command: str | None) -> None:
    list(read(Evidence("pasted", text, "x", command)))
