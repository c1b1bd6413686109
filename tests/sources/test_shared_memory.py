
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts import pasted
from ongpu.model import Evidence, Fact
from ongpu.sources import shared_memory as MODULE

SEED = 'shm 64M 1M 63M 1% /dev/shm\n'


def facts(text: str) -> list[Fact]:
    return [fact for item in pasted.read_text(text, "paste") if MODULE.looks_like(item) for fact in MODULE.read(item)]


def test_sizes() -> None:
    shown = "$ df -h /dev/shm\nFilesystem      Size  Used Avail Use% Mounted on\nshm              64M   64M     0 100% /dev/shm"
    found = facts(shown)[0]
    assert (found.shm_bytes, found.shm_used) == (64 << 20, 64 << 20)  # type: ignore[attr-defined]
    assert facts("because /dev/shm has only 67108864 bytes available.")[0].shm_bytes == 67108864  # type: ignore[attr-defined]
    assert facts("shm on /dev/shm type tmpfs (rw,nosuid,size=65536k)")[0].shm_bytes == 64 << 20  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=400))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", SEED + text, "x", command=text[:80] or None)
    if MODULE.looks_like(evidence):
        list(MODULE.read(evidence))
