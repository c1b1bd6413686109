from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.sanitizer import Sanitizer
from ongpu.model import Evidence
from ongpu.sources import stream_sanitizer

REPORT = """============================
CSAN detected a possible data race on tensor with data pointer 139719969079296
Access by stream 94646435460352 during kernel:
aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
writing to argument(s) self, out, and to the output
With stack trace:
  File "/opt/env/lib/python3.11/site-packages/torch/utils/_python_dispatch.py", line 76, in wrapped
    return f(self, *args, **kwargs)
  File "/home/u/project/example_error.py", line 6, in <module>
    torch.mul(a, 5, out=a)

Previous access by stream 0 during kernel:
aten::rand(int[] size, *, int? dtype=None, Device? device=None) -> Tensor
writing to the output
With stack trace:
  File "/home/u/project/example_error.py", line 3, in <module>
    a = torch.rand(10000, device="cuda")

Tensor was allocated with stack trace:
  File "/home/u/project/example_error.py", line 3, in <module>
    a = torch.rand(10000, device="cuda")
"""


def read(text: str) -> list[Sanitizer]:
    return [fact for fact in stream_sanitizer.read(Evidence("pasted", text, "p")) if isinstance(fact, Sanitizer)]


def test_two_streams_and_one_tensor() -> None:
    (fault,) = read(REPORT)[0].faults
    assert (fault.kind, fault.kernel, fault.host, fault.what) == ("streams", "aten::mul.out", "aten::rand", "write / write")
    assert fault.place == "project/example_error.py:6"
    assert len(read(REPORT * 3)[0].faults) == 3


PIECES = [
    "CSAN detected a possible data race on tensor with data pointer 1",
    "Access by stream 1 during kernel:", "aten::mul(", "writing to", "\n", '  File "a.py", line 3, in f', "x",
]  # fmt: skip


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    read(text)
