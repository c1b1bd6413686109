"""What the report says of its own course: that something is meant so, or that the run goes on."""

from ongpu.facts.symptoms import Symptoms
from ongpu.model import Ref


def on_purpose(symptoms: Symptoms | None) -> bool:
    """Whether the reporter says that the setting (CPU, an error provoked by a test) is meant so."""
    return bool(symptoms and symptoms.has("told-on-purpose"))


def goes_on(symptoms: Symptoms | None) -> bool:
    """Whether the run is shown, or said, to go on past its warnings, and nothing ends it."""
    return bool(symptoms and symptoms.has("run-goes-on", "told-goes-on") and not symptoms.has("run-ends", "slow-told-plainly"))


def lines(symptoms: Symptoms | None) -> tuple[Ref, ...]:
    """The lines that say so."""
    return symptoms.cite("told-on-purpose", "run-goes-on", "told-goes-on", most=1) if symptoms else ()
