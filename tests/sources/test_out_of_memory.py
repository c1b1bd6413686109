from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.code import OutOfMemory
from ongpu.model import Evidence
from ongpu.sources import out_of_memory


def read(text: str) -> list[OutOfMemory]:
    return [fact for fact in out_of_memory.read(Evidence("pasted", text, "p")) if isinstance(fact, OutOfMemory)]


PIECES = [
    "CUDA out of memory. ", "Tried to allocate 2.00 GiB ", "(GPU 0; ",
    "total capacity of 1e9 GiB", "Limit: 99999999\n", "shape[1,2]", "\n",
]


NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity of 31.47 GiB of which 12.73 GiB"
    " is free. Including non-PyTorch memory, this process has 18.73 GiB memory in use. Of the allocated memory 9.08 GiB is allocated by"
    " PyTorch, and 9.35 GiB is reserved by PyTorch but unallocated."
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 216.00 MiB (GPU 0; 7.92 GiB total capacity; 69.17 MiB already allocated;"
    " 24.56 MiB free; 86.00 MiB reserved in total by PyTorch)"
)


def test_new_words() -> None:
    error = read(NEW)[0].errors[0]
    assert (error.wanted, error.total, error.free, error.allocated, error.unallocated) == (22.78, 31.47, 12.73, 9.08, 9.35)
    assert error.holdable is not None
    assert error.wanted is not None
    assert error.holdable < error.wanted


def test_old_words_and_who_holds_the_rest() -> None:
    error = read(OLD)[0].errors[0]
    assert error.held_by_others is not None
    assert 7.7 < error.held_by_others < 7.9


def test_a_container_does_not_know_its_own_pid() -> None:
    text = NEW.replace("Including non-PyTorch memory, this process has 18.73", "Process 26 has 18.73").replace("9.08 GiB is", "18.0 GiB is")
    assert read(text.replace("12.73", "0.20"))[0].errors[0].others is None


def test_other_frameworks() -> None:
    texts = {
        "OOM when allocating tensor with shape[32,256,128,128] and type float on /device:GPU:0 by allocator GPU_0_bfc": 0.5,
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12884901888 bytes.": 12.0,
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1024.00 MiB on device 0: cudaMalloc failed: out of memory": 1.0,
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4,294,967,296 bytes (allocated so far: 0 bytes).": 4.0,
        "Out of memory error on GPU 0. Cannot allocate 2.0GB memory on GPU 0, 10.5GB memory has been allocated.": 2.0,
    }
    for text, wanted in texts.items():
        assert read(text)[0].errors[0].wanted == wanted


def test_host_memory_and_advice_are_not_it() -> None:
    for text in (
        "Out of memory: Killed process 12 (python)", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "ran out of memory trying to allocate 4.12GiB with freed_by_count=0. The caller indicates that this is not a failure",
        "except torch.cuda.OutOfMemoryError:",
    ):
        assert read(text) == []


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    out_of_memory.looks_like(Evidence("pasted", text, "p")) if hasattr(out_of_memory, "looks_like") else None
    read(text)
