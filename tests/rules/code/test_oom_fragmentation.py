# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import found, slugs
from parts import profiles
from parts.dryruns import GIB, full
from parts.dryruns import slugs as run_slugs

from ongpu.model import Certainty


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 2.93 GiB (GPU 0; 23.80 GiB total capacity; "
        "12.04 GiB already allocated; 2.82 GiB free; 19.69 GiB reserved in total by PyTorch)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB of which 500.00 MiB is free. Including non-PyTorch memory, this process has 78.60 GiB "
        "memory in use. Of the allocated memory 50.00 GiB is allocated by PyTorch, and 28.00 GiB is reserved "
        "by PyTorch but unallocated.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-fragmentation"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 22.78 GiB (GPU 0; 31.47 GiB total capacity; "
        "9.08 GiB already allocated; 12.73 GiB free; 18.43 GiB reserved in total by PyTorch)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-fragmentation" not in slugs(text)


def test_a_snapshot_with_room_in_pieces_only() -> None:
    finding = found("oom-fragmentation", profiles.pickled(profiles.snapshot(oom=50 << 20, scattered=True)))
    assert finding
    assert (finding.variant, finding.values["wanted"], finding.values["largest"]) == ("snapshot", "50.0 MiB", "2.0 MiB")
    assert finding.certainty is Certainty.CERTAIN


def test_a_snapshot_with_less_room_than_was_asked_for_is_not_scattered() -> None:
    assert found("oom-fragmentation", profiles.pickled(profiles.snapshot(oom=5 << 30, scattered=True))) is None


def test_a_dry_run_whose_reserve_is_in_pieces() -> None:
    changes = full("forward", weight=GIB, activation=13 * GIB)
    changes["memory"].update(peak_reserved=23 * GIB, fragmentation=0.39)
    assert run_slugs(**changes) == ["oom-fragmentation"]


CONTAINER = (
    "CUDA out of memory. Tried to allocate 35.60 GiB. GPU 0 has a total capacity of 79.33 GiB of which {free} GiB is free. Process 76883 has {held} GiB "
    "memory in use. Of the allocated memory {mine} GiB is allocated by PyTorch, and {idle} GiB is reserved by PyTorch but unallocated."
)


def test_the_process_that_a_container_does_not_know_is_the_program_itself() -> None:
    assert slugs(CONTAINER.format(free=26.16, held=53.16, mine=11.97, idle=40.69))[0] == "oom-fragmentation"
    assert slugs(CONTAINER.format(free=0.16, held=53.16, mine=11.97, idle=12.69))[0] == "oom-other-process"


def test_more_is_free_than_was_asked_for() -> None:
    text = "CUDA out of memory. Tried to allocate 9.91 GiB (GPU 0; 31.75 GiB total capacity; {} GiB already allocated; 10.04 GiB free; 20.70 GiB reserved in total by PyTorch)"
    assert slugs(text.format("12.11"))[0] == "oom-fragmentation"
    assert slugs(text.format("20.11"))[0] != "oom-fragmentation"
