"""torch.cuda's memory figures, from the simulated allocator."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

from .current import index_of
from .mode import Mode
from .patch import put


def install(mode: Mode) -> None:
    """Answer from the simulated allocator."""
    world, cuda = mode.world, torch.cuda

    def of(device: Any) -> Any:
        return world.cards[index_of(world, device)].memory

    def empty() -> None:
        place = world.where.here()
        world.called("empty_cache")
        world.row("empty_cache", place, place=place)
        for ledger in world.cards:
            ledger.memory.empty_cache()

    def statistics(device: Any = None) -> Dict[str, Any]:
        m = of(device)
        found: Dict[str, Any] = {}
        for pool in ("all", "small_pool", "large_pool"):
            for name, now, peak in (("allocated_bytes", m.allocated, m.peak_allocated), ("reserved_bytes", m.reserved, m.peak_reserved),
                                    ("active_bytes", m.allocated, m.peak_allocated), ("requested_bytes", m.requested, m.peak_requested),
                                    ("allocation", m.mallocs, m.mallocs), ("segment", m.segments_made, m.segments_made),
                                    ("active", 0, 0), ("inactive_split", 0, 0), ("inactive_split_bytes", 0, 0)):  # fmt: skip
                for part, value in (("current", now), ("peak", peak), ("allocated", now), ("freed", 0)):
                    found["%s.%s.%s" % (name, pool, part)] = value
        found.update({"num_alloc_retries": m.retries, "num_ooms": m.ooms, "max_split_size": -1, "num_sync_all_streams": 0,
                      "num_device_alloc": m.segments_made, "num_device_free": 0})  # fmt: skip
        return found

    def info(device: Any = None) -> Any:
        m = of(device)
        return max(0, min(m.capacity, world.capacity) - m.reserved), int(world.card["total"])

    answers: Dict[str, Callable[..., Any]] = {
        "memory_allocated": lambda device=None: of(device).allocated, "max_memory_allocated": lambda device=None: of(device).peak_allocated,
        "memory_reserved": lambda device=None: of(device).reserved, "max_memory_reserved": lambda device=None: of(device).peak_reserved,
        "memory_cached": lambda device=None: of(device).reserved, "max_memory_cached": lambda device=None: of(device).peak_reserved,
        "reset_peak_memory_stats": lambda device=None: of(device).reset_peaks(),
        "reset_max_memory_allocated": lambda device=None: of(device).reset_peaks(),
        "reset_max_memory_cached": lambda device=None: of(device).reset_peaks(), "reset_accumulated_memory_stats": lambda device=None: None,
        "empty_cache": empty, "mem_get_info": info, "memory_stats": statistics, "memory_stats_as_nested_dict": statistics,
        "memory_summary": lambda device=None, abbreviated=False: "(a dry run: %d bytes allocated)" % of(device).allocated,
        "memory_snapshot": lambda *args, **kwargs: [],
        "set_per_process_memory_fraction": lambda fraction, device=None: _fraction(world, of(device), fraction),
        "list_gpu_processes": lambda device=None: "no processes", "_record_memory_history": lambda *args, **kwargs: None,
        "_dump_snapshot": lambda *args, **kwargs: None, "_snapshot": lambda *args, **kwargs: {"segments": [], "device_traces": []},
        "memory_usage": lambda device=None: 0,
    }  # fmt: skip
    for name, answer in answers.items():
        put(cuda, name, answer)
        put(cuda.memory, name, answer)
    accelerator = getattr(torch, "accelerator", None)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "empty_cache", "memory_stats",
                 "reset_peak_memory_stats", "reset_accumulated_memory_stats"):  # fmt: skip
        if accelerator is not None and hasattr(accelerator, name):
            put(accelerator, name, answers[name])


def _fraction(world: Any, memory: Any, fraction: float) -> None:
    memory.capacity = min(memory.capacity, int(float(fraction) * int(world.card["total"])))
