"""What `torch.Tensor` itself answers for pretend tensors: device, moves that change nothing, prints, numpy, pickling."""

from __future__ import annotations

import copy
from typing import Any, Callable, Optional, Tuple

import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from . import pretend, words
from .assumed import assumed
from .copies import values
from .mode import Mode
from .patch import put
from .pretend import CUDA, PLAIN_META, C, c_device, c_is_cuda, c_is_meta, inside, is_pretend


def install(mode: Mode) -> None:
    """Put the answers on torch.Tensor; all other tensors are answered as before."""
    _where(mode)
    _moves(mode)
    _makers(mode)
    _looks(mode)
    _leaves(mode)


def _where(mode: Mode) -> None:
    base = C.TensorBase if hasattr(C, "TensorBase") else C._TensorBase

    def device(self: Tensor) -> Any:
        found = c_device(self)
        if found.type == "meta" and found.index is not None:
            return PLAIN_META if inside[0] else CUDA[found.index]
        return found

    def is_cuda(self: Tensor) -> bool:
        return (is_pretend(self) and not inside[0]) or bool(c_is_cuda(self))

    def is_meta(self: Tensor) -> bool:
        return bool(c_is_meta(self)) and (inside[0] > 0 or not is_pretend(self))

    Tensor.device = property(device, doc="Is the torch.device where this Tensor is.")
    Tensor.is_cuda = property(is_cuda)
    Tensor.is_meta = property(is_meta)
    get_device = base.get_device
    Tensor.get_device = lambda self: pretend.index_of(self) if is_pretend(self) else get_device(self)
    torch.get_device = lambda tensor: tensor.get_device()

    def data_ptr(self: Tensor) -> int:
        record = mode.record_of(self) if is_pretend(self) else None
        if record is None:
            return int(base.data_ptr(self))
        start = record.block.address if record.block is not None else 0
        return int(start + self.storage_offset() * self.element_size())

    Tensor.data_ptr = data_ptr
    kind = base.type

    def type_of(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None:
            return words.type_name(self) if is_pretend(self) else kind(self)
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            plain = torch.empty(0).type(dtype.replace("torch.cuda.", "torch.")).dtype
            return self.to(device="cuda", dtype=plain, non_blocking=non_blocking)
        if is_pretend(self) and isinstance(dtype, torch.dtype):
            return self.to(dtype)
        if is_pretend(self) and isinstance(dtype, str):
            return self.to(device="cpu", dtype=torch.empty(0).type(dtype).dtype)
        return kind(self, dtype, non_blocking, **kwargs)

    Tensor.type = type_of


def _moves(mode: Mode) -> None:
    base = C.TensorBase if hasattr(C, "TensorBase") else C._TensorBase
    to, cuda, cpu = base.to, base.cuda, base.cpu

    def same(self: Tensor, card: int, dtype: Any, options: Any) -> bool:
        return (
            pretend.index_of(self) == card and (dtype is None or dtype is self.dtype)
            and not options.get("copy") and options.get("memory_format") in (None, torch.preserve_format)
        )  # fmt: skip

    def move(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        first = args[0] if args else None
        if isinstance(first, Tensor):
            device, dtype = first.device, first.dtype
            args = (device, dtype, *args[1:])
        elif isinstance(first, (str, torch.device)) or (isinstance(first, int) and not isinstance(first, bool)):
            device = first
            dtype = args[1] if len(args) > 1 and isinstance(args[1], torch.dtype) else dtype
        elif isinstance(first, torch.dtype):
            dtype = first
        if device is not None:
            card = pretend.card_of(device, mode.world.current)
            if card is not None:
                if same(self, card, dtype, dict(kwargs, copy=kwargs.get("copy") or any(a is True for a in args[3:]))):
                    return self
                where = CUDA[card] if card < len(CUDA) else device  # with its index: C++ has no current device to ask for
                if "device" in kwargs:
                    kwargs = dict(kwargs, device=where)
                else:
                    args = (where, *args[1:])
        return to(self, *args, **kwargs)

    def to_cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format) -> Any:
        card = pretend.card_of(device if device is not None else "cuda", mode.world.current)
        if card is None:
            raise RuntimeError("Invalid device, must be cuda device")
        return move(self, CUDA[card], non_blocking=non_blocking, memory_format=memory_format)

    Tensor.to, Tensor.cuda = move, to_cuda
    Tensor.cpu = lambda self, memory_format=torch.preserve_format: (
        move(self, "cpu", memory_format=memory_format) if is_pretend(self) else cpu(self, memory_format=memory_format)
    )
    del cuda

    def pin_memory(self: Tensor, device: Any = None) -> Tensor:
        if is_pretend(self):
            raise RuntimeError("cannot pin '%s' only dense CPU tensors can be pinned" % words.type_name(self))
        if getattr(self, "_ongpu_pinned", False):
            return self
        out = self.clone()
        out._ongpu_pinned = True
        return out

    record_stream = Tensor.record_stream
    Tensor.record_stream = lambda self, stream: None if is_pretend(self) else record_stream(self, stream)
    Tensor.pin_memory = pin_memory
    Tensor.is_pinned = lambda self, device=None: bool(getattr(self, "_ongpu_pinned", False))


def _default_device() -> Any:
    """The device of the innermost `with torch.device(...)` (torch.get_default_device would call torch.tensor, and so itself)."""
    for mode in reversed(_get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            return mode.device
    return None


def _makers(mode: Mode) -> None:
    """torch.tensor and its like move to the device inside C++, which must be told its index."""

    def wrap(old: Any) -> Any:
        def make(*args: Any, **kwargs: Any) -> Any:
            card = pretend.card_of(kwargs.get("device"), mode.world.current)
            if card is None and kwargs.get("device") is None and C._len_torch_function_stack():
                default = _default_device()
                card = pretend.card_of(default, mode.world.current)
                if card is None and default is not None:
                    kwargs["device"] = default
            if card is None:
                return old(*args, **kwargs)
            grad = kwargs.pop("requires_grad", False)
            data = args[0] if args else kwargs.get("data")
            if isinstance(data, Tensor) and is_pretend(data):
                made = data.detach().to(CUDA[card]) if kwargs.get("dtype") is None else data.detach().to(CUDA[card], kwargs["dtype"])
                return (made.clone() if old is tensor else made).requires_grad_(grad)
            made = old(*args, **dict(kwargs, device="cpu")).to(CUDA[card])
            return made.requires_grad_(grad) if grad else made

        return make

    tensor = torch.tensor
    for name in ("tensor", "as_tensor", "asarray"):
        put(torch, name, wrap(getattr(torch, name)))
    old_new = Tensor.new_tensor

    def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        card = pretend.card_of(device, mode.world.current) if device is not None else pretend.index_of(self)
        if card is None:
            return old_new(self, data, dtype=dtype, device=device, requires_grad=requires_grad, **kwargs)
        made = torch.tensor(data, dtype=dtype or self.dtype, device=CUDA[card])
        return made.requires_grad_(requires_grad)

    Tensor.new_tensor = new_tensor


def _looks(mode: Mode) -> None:
    old_repr, old_format, old_list, old_item = Tensor.__repr__, Tensor.__format__, Tensor.tolist, Tensor.item
    base = C.TensorBase if hasattr(C, "TensorBase") else C._TensorBase

    def shown(self: Tensor, *, tensor_contents: Any = None) -> str:
        if not is_pretend(self):
            return str(old_repr(self, tensor_contents=tensor_contents))
        mode.world.sync("print")
        with torch.no_grad():
            text = old_repr(values(mode, self.detach(), "print"))
        kept = ", grad_fn=<%s>" % type(self.grad_fn).__name__ if self.grad_fn is not None else (
            ", requires_grad=True" if self.requires_grad else "")  # fmt: skip
        return "%s, device='%s'%s)" % (text[:-1], words.device_of(self), kept)

    def formatted(self: Tensor, spec: str) -> str:
        if is_pretend(self) and self.dim() == 0:
            return format(self.item(), spec)
        return str(old_format(self, spec))

    def listed(self: Tensor) -> Any:
        if not is_pretend(self):
            return old_list(self)
        mode.world.sync("tolist")
        return values(mode, self.detach(), "tolist").tolist()

    def item(self: Tensor) -> Any:
        if not is_pretend(self):
            return old_item(self)
        known = mode.twin_of(self) is not None if self.numel() == 1 else True
        value = old_item(self)
        return value if known else assumed(mode.world, value)

    Tensor.__repr__, Tensor.__format__, Tensor.tolist, Tensor.item = shown, formatted, listed, item
    old_numpy, old_array = base.numpy, Tensor.__array__

    def refuse(self: Tensor) -> None:
        raise TypeError(
            "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            % words.device_of(self)
        )

    def numpy(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_pretend(self):
            if self.requires_grad and not kwargs.get("force"):
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
                )
            if kwargs.get("force"):
                return self.detach().cpu().numpy()
            refuse(self)
        return old_numpy(self, *args, **kwargs)

    def array(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_pretend(self):
            refuse(self)
        return old_array(self, *args, **kwargs)

    Tensor.numpy, Tensor.__array__ = numpy, array


def _leaves(mode: Mode) -> None:
    old_reduce, old_copy = Tensor.__reduce_ex__, Tensor.__deepcopy__

    def reduce(self: Tensor, protocol: int) -> Any:
        if not is_pretend(self):
            return old_reduce(self, protocol)
        return _rebuilt, (tuple(self.shape), self.stride(), self.dtype, pretend.index_of(self), self.requires_grad, type(self).__name__)

    def deepcopy(self: Tensor, memo: Any) -> Tensor:
        if not is_pretend(self):
            return old_copy(self, memo)
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If you "
                "were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage"
            )
        with torch.no_grad():
            made = self.detach().clone()
        made.requires_grad_(self.requires_grad)
        if self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
        if type(self) is not Tensor:
            made.__class__ = type(self)
        made.__dict__.update(copy.deepcopy(dict(self.__dict__), memo))
        memo[id(self)] = made
        return made

    Tensor.__reduce_ex__, Tensor.__deepcopy__ = reduce, deepcopy


target: list[Optional[Callable[[int], Any]]] = [None]  # where torch.load puts tensors: set while it runs


def _rebuilt(shape: Tuple[int, ...], stride: Tuple[int, ...], dtype: torch.dtype, card: int, grad: bool, kind: str) -> Tensor:
    """Unpickle a pretend tensor: on its card, or where map_location says."""
    device = target[0](card) if target[0] is not None else CUDA[card]
    made = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    if kind == "Parameter":
        return torch.nn.Parameter(made, grad)
    return made.requires_grad_(grad) if grad else made
