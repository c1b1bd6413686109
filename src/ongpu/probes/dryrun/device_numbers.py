"""A bare number for a device (`model.to(local_rank)`, `device=0`): a CPU-only build refuses it while it parses the arguments."""

from __future__ import annotations

from typing import Any, Dict

import torch

from . import pretend
from .mode import Mode
from .patch import put

MAKERS = (
    "arange", "blackman_window", "empty", "empty_like", "empty_strided", "eye", "full", "full_like", "hamming_window", "hann_window",
    "kaiser_window", "linspace", "logspace", "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "tril_indices", "triu_indices", "zeros", "zeros_like",
)  # fmt: skip


def named(device: Any) -> Any:
    """torch.device("cuda", n) for a number n; anything else as it is."""
    return torch.device("cuda", device) if isinstance(device, int) and not isinstance(device, bool) else device


def install(mode: Mode) -> None:
    """Let the functions that make tensors, and Module.to, take numbers."""
    from torch.utils import _device

    _device._device_constructors()  # `with torch.device(...)` knows them by their identity: before they are wrapped
    for name in MAKERS:
        put(torch, name, _maker(getattr(torch, name)))
    old = torch.nn.Module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        return old(self, *(named(a) for a in args[:1]), *args[1:], **_named(kwargs))

    torch.nn.Module.to = to


def _named(kwargs: Dict[str, Any]) -> Dict[str, Any]:
    return dict(kwargs, device=named(kwargs["device"])) if "device" in kwargs else kwargs


def _maker(old: Any) -> Any:
    def make(*args: Any, **kwargs: Any) -> Any:
        if type(kwargs.get("device")) is int:
            kwargs = _named(kwargs)
        generator = kwargs.get("generator")
        if generator is not None and getattr(generator.device, "type", "") == "cpu":
            device = kwargs.get("device")
            if pretend.card_of(torch.get_default_device() if device is None else device, 0) is not None:
                raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        return old(*args, **kwargs)

    return make
