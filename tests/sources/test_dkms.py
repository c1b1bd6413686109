"""`dkms status` in its old and new forms."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Kernel
from ongpu.model import Evidence, Fact
from ongpu.sources.dkms import read


def facts(text: str, command: str | None = None) -> dict[type[Fact], Fact]:
    return {type(fact): fact for fact in read(Evidence("pasted", text, "x", command))}


def test_new_and_old_form() -> None:
    text = (
    "nvidia/535.183.01, 6.1.0-18-amd64, x86_64: installed\nnvidia, 470.86, 5.13.0-21-generic, x86_64: "
        "installed\nnvidia/550.78: added"
)
    kernel = facts(text, "dkms status")[Kernel]
    assert isinstance(kernel, Kernel)
    assert len(kernel.dkms) == 3
    assert kernel.dkms_listed


def test_headers_that_are_missing() -> None:
    kernel = facts("Error! Your kernel headers for kernel 5.10.0-28-amd64 cannot be found.")[Kernel]
    assert isinstance(kernel, Kernel)
    assert kernel.headers is False


def test_other_modules_are_not_ours() -> None:
    kernel = facts("virtualbox/7.0.14, 6.8.0-40-generic, x86_64: installed", "dkms status")[Kernel]
    assert isinstance(kernel, Kernel)
    assert kernel.dkms == ()


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("nvidia/, 0123.:installedbg\n-"), max_size=400),
    command=st.sampled_from((None, 'dkms status')),
)
def test_no_text_makes_it_crash(text: str, command: str | None) -> None:
    list(read(Evidence("pasted", text, "x", command)))
