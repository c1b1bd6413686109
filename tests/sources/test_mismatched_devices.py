from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.mismatch import Mismatches
from ongpu.model import Evidence
from ongpu.sources import mismatched_devices


def read(text: str) -> list[Mismatches]:
    return [fact for fact in mismatched_devices.read(Evidence("pasted", text, "p")) if isinstance(fact, Mismatches)]


PIECES = ["Expected all tensors to be on the same device, ", "found at least two devices, ", "cuda:0 and ", "cpu!", "Input type (", "\n"]


SAME = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "


def test_what_stands_apart() -> None:
    told = {
        SAME + "cuda:0 and cpu! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)": ("input", "cpu"),
        SAME + "cpu and cuda:0! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)": ("weight", "cpu"),
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same": ("input", "cpu"),
        "RuntimeError: Expected object of backend CPU but got backend CUDA for argument #2 'weight'": ("input", "cpu"),
        "RuntimeError: Expected object of device type cuda but got device type cpu for argument #3 'index' in call to _th_index_select":
            ("input", "cpu"),
        "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor": ("lengths", "cuda:0"),
        SAME + "cuda:0 and cuda:1!": (None, "cuda:1"),
    }
    for text, (odd, on) in told.items():
        found = read(text)[0].found[0]
        assert (found.odd, found.odd_on) == (odd, on)


def test_types_alone_are_not_devices() -> None:
    assert read("RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same") == []


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    mismatched_devices.looks_like(Evidence("pasted", text, "p")) if hasattr(mismatched_devices, "looks_like") else None
    read(text)
