# ruff: noqa: E501  printed lines stand in one piece
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.code import Traceback
from ongpu.model import Evidence
from ongpu.sources import traceback


def read(text: str) -> list[Traceback]:
    return [fact for fact in traceback.read(Evidence("pasted", text, "p")) if isinstance(fact, Traceback)]


PIECES = [
    "Traceback (most recent call last):\n", '  File "a.py", line 3, in f\n',
    "    x()\n", "RuntimeError: y\n", "----> 2 y\n", "│ ❱ 4 │ z │\n",
]


PLAIN = """[rank0]: Traceback (most recent call last):
[rank0]:   File "/a/train.py", line 3, in <module>
[rank0]:     main()
[rank0]:   File "/usr/lib/python3.8/site-packages/torch/nn/modules/linear.py", line 12, in forward
[rank0]:     return F.linear(input)
[rank0]:            ^^^^^
[rank0]: RuntimeError: mat1 foo
[rank0]: Compile with TORCH_USE_CUDA_DSA
"""
IPYTHON = """---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
<ipython-input-3-abc> in <module>()
      1 x = 2
----> 2 y(x)

/usr/lib/python3/dist-packages/torch/nn/modules/module.py in __call__(self, *input)
    487     else:
--> 488         result = self.forward(x)

RuntimeError: hello world
"""
RICH = """╭─────────────────────────────── Traceback (most recent call last) ────────────────────────────────╮
│ /home/x/train.py:42 in main                                                                      │
│                                                                                                  │
│   39 │   ...                                                                                     │
│ ❱ 42 │   loss.backward()                                                                         │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
OutOfMemoryError: CUDA out of memory.
"""
CELL = """Cell In[3], line 2
      1 x
----> 2 y(x)
File ~/x/torch/nn/modules/module.py:1501, in Module._call_impl(self, *args)
-> 1501     return forward_call(*args)
ValueError: zz
"""
CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 5, in <module>
    h()
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
"""


def test_plain_with_the_prefix_of_a_rank() -> None:
    raised = read(PLAIN)[0].raised[0]
    assert raised.error == "RuntimeError"
    assert raised.message.startswith("mat1 foo")
    assert [(f.line, f.function, f.code) for f in raised.frames] == [(3, "<module>", "main()"), (12, "forward", "return F.linear(input)")]
    assert [f.file for f in raised.own()] == ["/a/train.py"]


def test_ipython_rich_and_cells() -> None:
    assert read(IPYTHON)[0].raised[0].frames[0].code == "y(x)"
    assert read(RICH)[0].raised[0].frames[0].code == "loss.backward()"
    assert [f.line for f in read(CELL)[0].raised[0].frames] == [2, 1501]


def test_chained_exceptions_are_all_told() -> None:
    fact = read(CHAINED)[0]
    assert [r.error for r in fact.raised] == ["KeyError", "torch.cuda.OutOfMemoryError"]
    assert fact.raised[1].frames[0].code == "h()"


def test_two_ranks_interleaved() -> None:
    text = PLAIN.replace("rank0", "rank1").splitlines()
    mixed = "\n".join(line for pair in zip(PLAIN.splitlines(), text, strict=True) for line in pair).replace("foo", "bar", 1)
    assert [len(r.frames) for r in read(mixed)[0].raised] == [2, 2]


def test_a_line_alone_and_prose() -> None:
    assert read("RuntimeError: CUDA error: x")[0].error == "RuntimeError"
    assert read("I get an Error: what should I do?") == []


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    traceback.looks_like(Evidence("pasted", text, "p")) if hasattr(traceback, "looks_like") else None
    read(text)


def test_frames_of_colab_copied_as_links() -> None:
    text = "[/usr/local/lib/python3.10/dist-packages/x/trainer.py](https://localhost:8080/#) in pad(a, b)\n     86 \n---> 88     result = a.new_full(shape, b)\n\nOutOfMemoryError: CUDA out of memory."
    fact = next(f for f in traceback.read(Evidence("pasted", text, "p")) if isinstance(f, Traceback))
    assert [(frame.function, frame.line) for frame in fact.frames] == [("pad", 88)]


def test_frames_without_their_error_are_looked_at() -> None:
    assert traceback.looks_like(Evidence("pasted", ".../torch/cuda/memory.py in empty_cache()\n--> 114         torch._C._cuda_emptyCache()", "p"))
    assert not traceback.looks_like(Evidence("pasted", "a -> b", "p"))
