"""A script for the dry run: one small case for each feature of torch; every case prints "ok NAME" or "BAD NAME why"."""

import copy
import io
import os
import threading
import traceback
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("error")
warnings.filterwarnings("ignore", ".*torch.cpu.amp.autocast", FutureWarning)  # torch 2.4 itself calls it, in checkpoint
CARD = "cuda"
CASES: list[Callable[[], None]] = []


def case(function: Callable[[], None]) -> Callable[[], None]:
    """Collect a case."""
    CASES.append(function)
    return function


def net() -> nn.Module:
    """A small model on the card."""
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 4)).cuda()


def data() -> torch.Tensor:
    """Eight rows on the card."""
    return torch.randn(8, 16, device=CARD)


@case
def api() -> None:
    cuda = torch.cuda
    assert cuda.is_available()
    assert cuda.device_count() == 1
    assert cuda.get_device_properties(0).total_memory > 1e9
    free, total = cuda.mem_get_info()
    assert 0 < free < total
    assert cuda.get_device_capability() == (8, 0)
    assert cuda.is_bf16_supported()
    stream, event = cuda.Stream(), cuda.Event(enable_timing=True)
    with cuda.stream(stream):
        event.record()
    stream.wait_stream(cuda.current_stream())
    event.synchronize()
    cuda.synchronize()
    cuda.set_rng_state(cuda.get_rng_state())
    assert cuda.memory_stats()["allocated_bytes.all.current"] == cuda.memory_allocated()
    with torch.random.fork_rng(), cuda.device(0):
        torch.randn(3, device=CARD, generator=torch.Generator(device="cuda").manual_seed(3))
    torch.use_deterministic_algorithms(False)


@case
def tensors() -> None:
    x = torch.zeros(3, 4, device=CARD)
    assert x.is_cuda
    assert x.device == torch.device("cuda:0")
    assert type(x) is torch.Tensor
    assert x.to("cuda") is x
    assert x.cuda() is x
    assert x.type() == "torch.cuda.FloatTensor"
    assert torch.tensor([1, 2, 3], device=CARD).tolist() == [1, 2, 3]
    assert torch.arange(5, device=CARD).sum().item() == 10
    assert torch.empty(3, device="meta").is_meta
    assert not x.is_meta
    assert torch.ones(3).to(x).is_cuda
    mask = torch.tensor([True, False, True], device=CARD)
    assert x[mask].shape == (2, 4)
    assert mask.nonzero().shape == (2, 1)
    assert F.one_hot(torch.tensor([1, 2], device=CARD)).shape == (2, 3)
    x[0] = 1
    x[:, 1] += 2
    assert x[0].tolist() == [1, 3, 1, 1]
    assert x.cpu()[1].tolist() == [0, 2, 0, 0]
    torch.einsum("ij,kj->ik", x, x).topk(2)
    assert "cuda:0" in repr(x)


@case
def formats_and_flags() -> None:
    x = torch.randn(2, 3, 8, 8, device=CARD).to(memory_format=torch.channels_last)
    out = nn.Conv2d(3, 4, 3).cuda()(x)
    assert out.is_contiguous(memory_format=torch.channels_last)
    with torch.cuda.nvtx.range("a"):
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    for view in (x[0], x[:, 1:].transpose(0, 2), x.split(2, 1)[1], x.unbind(3)[2], x.chunk(2)[0]):
        plain = torch.empty_strided(x.shape, x.stride())
        assert view.untyped_storage().nbytes() == plain.untyped_storage().nbytes()
    numbers, same = torch.arange(24, device=CARD).view(2, 3, 4), torch.arange(24).view(2, 3, 4)
    for look in (lambda t: t[1], lambda t: t[0].t(), lambda t: t.split([1, 2], 1)[1], lambda t: t.unbind(-1)[2], lambda t: t[:, 1:, ::2]):
        assert look(numbers).tolist() == look(same).tolist()
        assert look(numbers).stride() == look(same).stride()


@case
def per_sample_gradients() -> None:
    def loss(w: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return (w * row).sum() ** 2

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(torch.ones(16, device=CARD), data())
    assert found.shape == (8, 16)


@case
def optimizers() -> None:
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"):
        train(net(), getattr(torch.optim, name))
    for options in ({"foreach": True}, {"foreach": False}, {"fused": True}, {"capturable": True}):
        train(net(), torch.optim.AdamW, **options)
    train(net(), torch.optim.SGD, momentum=0.9, fused=True)


def train(model: nn.Module, kind: Callable[..., torch.optim.Optimizer], **options: object) -> None:
    """Two steps."""
    optimizer = kind(model.parameters(), lr=1e-3, **options)
    for _ in range(2):
        model(data()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@case
def data_attribute() -> None:
    p = nn.Parameter(torch.randn(4, 4))
    p.data = p.data.cuda()
    (p * 2).sum().backward()
    assert p.grad is not None
    assert p.grad.is_cuda
    p.data.add_(p.grad.data, alpha=-0.1)


@case
def amp() -> None:
    model, scaler = net(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(data())
        assert out.dtype is torch.float16
        loss = F.cross_entropy(out, torch.randint(0, 4, (8,), device=CARD))
        assert loss.dtype is torch.float32
        a = torch.randn(4, 4, device=CARD)
        assert torch.einsum("ij,jk", a, a).dtype is torch.float16
        assert F.softmax(a @ a, -1).dtype is torch.float32
        assert torch.cat([a, a.half()]).dtype is torch.float32
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()


@case
def checkpointing() -> None:
    for reentrant in (True, False):
        x = data().requires_grad_()
        checkpoint(net(), x, use_reentrant=reentrant).sum().backward()
        assert x.grad is not None


@case
def autograd() -> None:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return grad * ctx.saved_tensors[0].exp()

    x = torch.randn(3, device=CARD, requires_grad=True)
    Exp.apply(x).sum().backward()
    (g,) = torch.autograd.grad((x**2).sum(), x, create_graph=True)
    g.sum().backward()
    with torch.autograd.graph.save_on_cpu():
        (x * x).sum().backward()


@case
def saving() -> None:
    model = net()
    path = os.path.join(os.getcwd(), "checkpoint.pt")
    torch.save({"model": model.state_dict(), "epoch": 3}, path)
    assert not os.path.exists(path)
    found = torch.load(path, map_location="cpu")
    assert found["model"]["0.weight"].device.type == "cpu"
    model.load_state_dict(torch.load(path)["model"])
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    assert torch.load(buffer)["0.weight"].is_cuda
    twin = copy.deepcopy(model)
    assert next(twin.parameters()).is_cuda
    assert isinstance(next(twin.parameters()), nn.Parameter)
    model.cpu()
    model.to("cuda")


@case
def layers() -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        layer = kind(8, 16, 2, bidirectional=True, batch_first=True).cuda()
        out, _ = layer(torch.randn(3, 7, 8, device=CARD))
        assert out.shape == (3, 7, 32)
        out.sum().backward()
        packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 7, 8, device=CARD), torch.tensor([7, 5, 2]), batch_first=True)
        out, _ = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
        assert out.shape == (3, 7, 32)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2).cuda()
    encoder(torch.randn(2, 5, 16, device=CARD)).sum().backward()
    encoder.eval()
    with torch.no_grad():
        encoder(torch.randn(2, 5, 16, device=CARD))
    scores = torch.randn(50, 4, 20, device=CARD, requires_grad=True).log_softmax(2)
    nn.CTCLoss()(scores, torch.randint(1, 20, (4, 10), device=CARD), torch.full((4,), 50), torch.full((4,), 10)).backward()
    nn.DataParallel(net())(data())
    torch.compile(net())(data())


@case
def errors() -> None:
    def expect(call: Callable[[], object], text: str) -> None:
        try:
            call()
        except Exception as error:
            said = str(error)
        else:
            said = "no error"
        assert text in said, (text, said[:200])

    one = torch.ones(2, device=CARD)
    expect(lambda: one + torch.ones(2), "found at least two devices, cuda:0 and cpu")
    expect(lambda: nn.Linear(4, 4).cuda()(torch.ones(2, 4)), "mat1")
    types = "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor)"
    expect(lambda: nn.Conv2d(3, 4, 3).cuda()(torch.ones(1, 3, 8, 8)), types)
    expect(lambda: nn.Embedding(4, 4).cuda()(torch.ones(2, dtype=torch.long)), "index")
    expect(lambda: one.numpy(), "can't convert cuda:0 device type tensor to numpy")
    expect(lambda: torch.ones(2, 3, device=CARD) @ torch.ones(2, 3, device=CARD), "mat1 and mat2 shapes cannot be multiplied")
    expect(lambda: F.cross_entropy(torch.ones(2, 3, device=CARD), torch.ones(2, dtype=torch.long)), "same device")
    expect(lambda: torch.ones(2, device="cuda:3"), "invalid device ordinal")
    expect(lambda: nn.LSTM(3, 4).cuda()(torch.ones(2, 2, 3)), "not at the same device")
    expect(lambda: torch.ones(3)[torch.tensor([1], device=CARD)], "indices should be either on cpu")
    expect(lambda: torch.ones(4, device=CARD).view(3), "invalid for input of size")


@case
def distributed() -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    torch.distributed.init_process_group("nccl", pg_options=torch.distributed.ProcessGroupNCCL.Options(is_high_priority_stream=True))
    torch.cuda.set_device(0)
    train(nn.parallel.DistributedDataParallel(net(), device_ids=[0]), torch.optim.SGD)
    total = torch.ones(1, device=CARD)
    torch.distributed.all_reduce(total)
    assert torch.distributed.get_backend() == "nccl"
    torch.distributed.destroy_process_group()


@case
def threads() -> None:
    found: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: found.append(torch.ones(3, device=CARD) + 1))
    thread.start()
    thread.join()
    assert found[0].is_cuda


for run in CASES:
    try:
        run()
        print("ok", run.__name__)  # noqa: T201 - the test reads it
    except BaseException as problem:
        print("BAD", run.__name__, type(problem).__name__, traceback.format_exc()[-900:].replace("\n", " | "))  # noqa: T201
