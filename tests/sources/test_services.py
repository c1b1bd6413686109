"""systemctl in its many forms."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Services
from ongpu.model import Evidence, Fact
from ongpu.sources.services import read


def facts(text: str, command: str | None = None) -> dict[type[Fact], Fact]:
    return {type(fact): fact for fact in read(Evidence("pasted", text, "x", command))}


def states(text: str, command: str | None = None) -> dict[str, str]:
    found = facts(text, command).get(Services)
    return dict(found.states) if isinstance(found, Services) else {}


def test_status() -> None:
    text = (
        "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
        "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled)\n     Active: failed "
        "(Result: exit-code) since Mon"
    )
    assert states(text) == {"nvidia-fabricmanager": "failed"}


def test_missing_and_short_forms() -> None:
    assert states("Unit nvidia-fabricmanager.service could not be found.") == {"nvidia-fabricmanager": "missing"}
    assert states("inactive", "systemctl is-active nvidia-gridd") == {"nvidia-gridd": "inactive"}
    assert states("nvidia-persistenced is not running") == {"nvidia-persistenced": "inactive"}
    assert states("docker compose up") == {}


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("nvidia-fabricmgedkrto. ●Active:\n()"), max_size=400),
    command=st.sampled_from((None, 'systemctl status nvidia-fabricmanager', 'systemctl is-active docker')),
)
def test_no_text_makes_it_crash(text: str, command: str | None) -> None:
    list(read(Evidence("pasted", text, "x", command)))
