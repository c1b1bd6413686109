"""torch's larger features on the pretend card: flags of backends, compilation, save and load."""

from __future__ import annotations

import torch

from .mode import Mode


def install(mode: Mode) -> None:
    """Answer for these features."""
    _backends(mode)
    from . import compiler, device_numbers, distributed, saving

    compiler.install(mode)
    saving.install(mode)
    distributed.install(mode)
    device_numbers.install(mode)


def _backends(mode: Mode) -> None:
    capability = tuple(mode.world.card["capability"])
    cudnn = torch.backends.cudnn
    cudnn.is_available = lambda: True
    cudnn.version = lambda: 91002
    cudnn.is_acceptable = lambda tensor: False  # only asked before weights are laid out anew, which changes no size
    torch.backends.cuda.is_built = lambda: True
    cuda = torch.backends.cuda
    if hasattr(cuda, "is_flash_attention_available"):
        cuda.is_flash_attention_available = lambda: capability >= (8, 0)
    mha = getattr(torch.backends, "mha", None)
    if mha is not None:
        mha.set_fastpath_enabled(False)  # the fused inference path of nn.TransformerEncoder has no shape rule
