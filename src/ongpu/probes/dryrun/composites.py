"""Operators that C++ takes apart differently on CUDA than on other devices: what CUDA would run is put on the AutogradCUDA key.

Without this, dropout would keep a float mask instead of a byte mask, attention would keep its whole score matrix, and an LSTM
would become thousands of small operations instead of cuDNN's one.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional

import torch
from torch import Tensor

from . import pretend
from .state import World

aten = torch.ops.aten


class Composites:
    """The overrides, for one card's capability."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.capability = tuple(world.card["capability"])
        self._library = torch.library.Library("aten", "IMPL")

    def install(self) -> None:
        """Put each on the key, where this torch has the operator."""
        for name, kernel in (
            ("dropout", self.dropout),
            ("dropout_", None),
            ("scaled_dot_product_attention", self.attention),
            ("one_hot", self.one_hot),
            ("lstm.input", self.lstm),
            ("ctc_loss.Tensor", self.ctc),
            ("ctc_loss.IntList", self.ctc),
            ("gru.input", self.gru),
            ("lstm.data", self.lstm_packed),
            ("gru.data", self.gru_packed),
            ("rnn_tanh.data", self.rnn_packed),
            ("rnn_relu.data", self.rnn_packed),
            ("rnn_tanh.input", self.rnn_tanh),
            ("rnn_relu.input", self.rnn_relu),
            ("rms_norm", self.rms_norm if hasattr(aten, "_fused_rms_norm") else None),
            ("silu_backward", self.one_kernel),
            ("mish_backward", self.one_kernel),
        ):
            if kernel is not None and hasattr(aten, name.split(".")[0]):
                self._library.impl(name, kernel, "AutogradCUDA")

    def dropout(self, source: Tensor, p: float, train: bool) -> Tensor:
        """CUDA's fused dropout keeps a byte mask (aten/native/Dropout.cpp: is_fused_kernel_acceptable)."""
        if not train or p == 0 or source.numel() == 0:
            return source
        if p >= 1:
            return source * torch.zeros((), dtype=source.dtype, device=source.device)
        return torch.native_dropout(source, p, train)[0]

    def one_hot(self, source: Tensor, num_classes: int = -1) -> Tensor:
        """On CUDA the values are not checked; without num_classes the largest one is asked for."""
        if num_classes == -1:
            num_classes = int(source.max().item()) + 1 if source.numel() else 0
        out = torch.zeros((*source.shape, num_classes), dtype=torch.int64, device=source.device)
        return out.scatter_(-1, source.unsqueeze(-1), 1)

    def rms_norm(self, source: Tensor, shape: List[int], weight: Optional[Tensor] = None, eps: Optional[float] = None) -> Tensor:
        """One fused operator since torch 2.9; a CPU build would take it apart."""
        return FusedNorm.apply(source, weight, len(shape))

    def one_kernel(self, grad: Tensor, source: Tensor) -> Tensor:
        """The gradient of SiLU or Mish is one kernel; where the build has no CUDA kernels C++ makes ten small operations of it."""
        return torch.empty_like(grad)

    def ctc(
        self, scores: Tensor, targets: Tensor, lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1, zero: bool = False
    ) -> Tensor:
        """PyTorch's own CTC kernel takes the lengths as numbers: from the card they are waited for."""
        numbers = [x.tolist() if isinstance(x, Tensor) else list(x) for x in (lengths, target_lengths)]
        loss = torch._ctc_loss(scores, targets, numbers[0], numbers[1], blank, zero)[0]
        if zero:
            loss = torch.where(loss == float("inf"), torch.zeros((), dtype=loss.dtype, device=loss.device), loss)
        if reduction == 1:
            return (loss / torch.tensor(numbers[1], dtype=loss.dtype, device=loss.device).clamp_min(1)).mean()
        return loss.sum() if reduction == 2 else loss

    # -- attention --------------------------------------------------------------------------------------------------------
    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0, is_causal: bool = False,
        *, scale: Optional[float] = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        """Flash where it can, else memory-efficient, else the plain one: the order of aten/native/transformers/cuda/sdp_utils.cpp."""
        chosen = self.choose(q, k, v, attn_mask, dropout_p, enable_gqa)
        self.world.note("attention-kernel", "scaled_dot_product_attention runs as the %s kernel" % chosen, self.world.where.here())
        if enable_gqa and chosen != "flash" and k.dim() == 4 and k.shape[1] != q.shape[1]:
            k, v = k.repeat_interleave(q.shape[1] // k.shape[1], 1), v.repeat_interleave(q.shape[1] // v.shape[1], 1)
        if chosen == "math":
            return self._math(q, k, v, attn_mask, dropout_p, is_causal, scale)
        if attn_mask is not None:
            attn_mask = self._bias(attn_mask, q, k)
        head = q.shape[-1]
        if chosen == "flash":
            wide = -head % 8
            if wide:
                q, k, v = (torch.nn.functional.pad(x, [0, wide]) for x in (q, k, v))
            scale = scale if scale is not None else 1 / math.sqrt(head)
            out = aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale)[0]
            return out[..., :head] if wide else out
        keep = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
        out = aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, keep, dropout_p, is_causal, scale=scale)
        return out[0]

    def choose(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], dropout: float, gqa: bool) -> str:
        """Which kernel PyTorch would choose."""
        cuda = torch.backends.cuda
        same = all(pretend.is_pretend(x) and x.dim() == 4 for x in (q, k, v))
        half = q.dtype in (torch.float16, torch.bfloat16)
        if (
            same and cuda.flash_sdp_enabled() and half and mask is None and self.capability >= (8, 0) and q.shape[-1] == v.shape[-1] <= 256
            and 0 not in q.shape
        ):  # fmt: skip
            return "flash"
        if (
            same and cuda.mem_efficient_sdp_enabled() and self.capability >= (5, 0) and (half or q.dtype is torch.float32)
            and (q.dtype is not torch.bfloat16 or self.capability >= (8, 0)) and not (mask is not None and mask.requires_grad and dropout)
            and q.shape[-1] % (8 if half else 4) == 0 and 0 not in q.shape
        ):  # fmt: skip
            return "efficient"
        return "math"

    def _bias(self, mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """A mask as the efficient kernel wants it: values added, row length aligned to 16 elements, expanded."""
        if mask.dtype is torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(mask.logical_not(), float("-inf"))
        last = mask.shape[-1]
        if last % 16:
            mask = torch.nn.functional.pad(mask, [0, 16 - last % 16])[..., :last]
        return mask.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])

    def _math(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], dropout: float, causal: bool, scale: Optional[float]
    ) -> Tensor:
        root = math.sqrt(scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
        if causal:
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        if mask is not None and mask.dtype is torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(mask.logical_not(), float("-inf"))
        scores = torch.matmul(q * root, k.transpose(-2, -1) * root)
        if mask is not None:
            scores = scores.add(mask)
        scores = torch.softmax(scores, -1)
        if dropout > 0:
            scores = torch.dropout(scores, dropout, True)
        return torch.matmul(scores, v)

    # -- recurrent layers -------------------------------------------------------------------------------------------------
    def lstm(self, x: Tensor, hx: Any, params: Any, bias: bool, layers: int, dropout: float, train: bool, both: bool, first: bool) -> Any:
        """cuDNN's LSTM."""
        return Recurrent.run(self.world, 2, x, hx[0], hx[1], params, bias, layers, dropout, train, both, first)

    def gru(self, x: Tensor, hx: Tensor, params: Any, bias: bool, layers: int, dropout: float, train: bool, both: bool, first: bool) -> Any:
        """cuDNN's GRU."""
        return Recurrent.run(self.world, 3, x, hx, None, params, bias, layers, dropout, train, both, first)[:2]

    def rnn_tanh(
        self, x: Tensor, hx: Tensor, params: Any, bias: bool, layers: int, dropout: float, train: bool, both: bool, first: bool
    ) -> Any:
        """cuDNN's plain RNN."""
        return Recurrent.run(self.world, 1, x, hx, None, params, bias, layers, dropout, train, both, first)[:2]

    rnn_relu = rnn_tanh

    def lstm_packed(
        self, data: Tensor, sizes: Tensor, hx: Any, params: Any, bias: bool, layers: int, dropout: float, train: bool, both: bool
    ) -> Any:
        """A packed sequence: as many cells as there are rows of data."""
        out, hy, cy = Recurrent.run(self.world, 2, data.unsqueeze(1), hx[0], hx[1], params, bias, layers, dropout, train, both, False)
        return out.squeeze(1), hy, cy

    def gru_packed(
        self, data: Tensor, sizes: Tensor, hx: Tensor, params: Any, bias: bool, layers: int, dropout: float, train: bool, both: bool
    ) -> Any:
        """A packed sequence."""
        out, hy, _ = Recurrent.run(self.world, 3, data.unsqueeze(1), hx, None, params, bias, layers, dropout, train, both, False)
        return out.squeeze(1), hy

    def rnn_packed(
        self, data: Tensor, sizes: Tensor, hx: Tensor, params: Any, bias: bool, layers: int, dropout: float, train: bool, both: bool
    ) -> Any:
        """A packed sequence."""
        out, hy, _ = Recurrent.run(self.world, 1, data.unsqueeze(1), hx, None, params, bias, layers, dropout, train, both, False)
        return out.squeeze(1), hy


class FusedNorm(torch.autograd.Function):  # type: ignore[misc]
    """RMS norm as its CUDA kernel: input, weight and one number a row are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Optional[Tensor], axes: int) -> Tensor:
        """Shape and dtype as the input."""
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[: x.dim() - axes], dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """New gradients for what wants one."""
        x, weight, _ = ctx.saved_tensors
        wants = ctx.needs_input_grad
        return torch.empty_like(x) if wants[0] else None, torch.empty_like(weight) if wants[1] else None, None


GATES = {1: 1, 2: 4, 3: 3}


class Recurrent(torch.autograd.Function):  # type: ignore[misc]
    """A recurrent layer as cuDNN runs it: outputs, one reserve space for the backward pass, gradients of the right shapes."""

    @staticmethod
    def run(
        world: World, kind: int, x: Tensor, h: Tensor, c: Optional[Tensor], params: Any, bias: bool, layers: int, dropout: float,
        train: bool, both: bool, first: bool,
    ) -> Any:  # fmt: skip
        """Check the devices, cast as autocast does, run."""
        tensors = [x, h, *([c] if c is not None else []), *params]
        for tensor in tensors[1:]:
            if pretend.index_of(tensor) != pretend.index_of(x):
                kind_of = "hidden" if tensor is h or tensor is c else "parameter"
                raise RuntimeError(
                    "Input and %s tensors are not at the same device, found input tensor at %s and %s tensor at %s"
                    % (kind_of, x.device, kind_of, tensor.device)
                )
        if torch.is_autocast_enabled("cuda") if _two_arguments() else torch.is_autocast_enabled():
            from .autocast import lower_dtype

            tensors = [t.to(lower_dtype()) if t.dtype is torch.float32 else t for t in tensors]
        place = 2 if c is None else 3
        x, h, params = tensors[0], tensors[1], tensors[place:]
        c = tensors[2] if c is not None else None
        return Recurrent.apply(kind, layers, both, first, train, x, h, c, *params)

    @staticmethod
    def forward(
        ctx: Any, kind: int, layers: int, both: bool, first: bool, train: bool, x: Tensor, h: Tensor, c: Any, *params: Tensor
    ) -> Any:
        """Shapes as documented by torch.nn.LSTM; the reserve space holds the gates of every step, layer and direction, twice the states."""
        ways = 2 if both else 1
        hidden, out_size = params[1].shape[1], h.shape[-1]
        batch, long = (x.shape[0], x.shape[1]) if first else (x.shape[1], x.shape[0])
        shape = (batch, long, ways * out_size) if first else (long, batch, ways * out_size)
        out = x.new_empty(shape)
        hy = h.new_empty(h.shape)
        cy = h.new_empty(c.shape) if c is not None else h.new_empty(0)
        cells = long * batch * layers * ways * hidden
        reserve = x.new_empty(cells * (GATES[kind] + 2) if train and any(ctx.needs_input_grad) else 0)
        ctx.save_for_backward(x, h, out, reserve, *([c] if c is not None else []), *params)
        ctx.cell = c is not None
        work = x.new_empty(cells // max(1, layers))  # the library's workspace, for this call only
        del work
        return out, hy, cy

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """New gradients for all inputs."""
        x, h, _, _, *rest = ctx.saved_tensors
        c, params = (rest[0], rest[1:]) if ctx.cell else (None, rest)
        wants = ctx.needs_input_grad
        made = [torch.empty_like(t) if want and t is not None else None for t, want in zip([x, h, c, *params], wants[5:])]
        return (None, None, None, None, None, *made)


def _two_arguments() -> bool:
    try:
        torch.is_autocast_enabled("cuda")
    except TypeError:
        return False
    return True
