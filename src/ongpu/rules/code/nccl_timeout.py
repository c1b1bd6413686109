"""A collective waits for ranks that do not come."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import OutOfMemory, Traceback
from ongpu.facts.dryrun import DryRun
from ongpu.facts.dryrun_parts import Mismatch
from ongpu.facts.nccl import NcclLog
from ongpu.facts.program import Event, Guard, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.values import Handle, Module
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    nccl: NcclLog | None, symptoms: Symptoms | None, traceback: Traceback | None, oom: OutOfMemory | None, dryrun: DryRun | None, program: Program | None
) -> Iterator[Finding]:
    if program:
        yield from (finding for script in program.scripts for finding in _in_source(script))
    if dryrun and dryrun.mismatches:
        yield _in_run(dryrun.mismatches[0])
        return
    said = symptoms.cite("nccl-timeout-line", most=3) if symptoms else ()
    real = [r for r in said if _collective(r.quote) or (symptoms and "socket timeout" in r.quote.lower() and symptoms.has("per-rank-launch", "several-gpus"))]
    timeouts = nccl.timeouts if nccl else ()
    uneven = symptoms.cite("uneven-ranks-told", most=2) if symptoms and symptoms.has("stands-still", "hang-words") and symptoms.has("several-gpus") else ()
    if uneven and not timeouts and not real and oom is None and not (traceback and any(r.error for r in traceback.raised)):
        yield Finding(
            fixes=(Fix("find-missing-rank"),), certainty=Certainty.POSSIBLE, variant="told",
            refs=(*uneven, *(symptoms.cite("stands-still", most=2) if symptoms else ())),
        )
        return
    if not timeouts and not real:
        return
    first = timeouts[0] if timeouts else None
    store = not timeouts and any(word in r.quote.lower() for r in real for word in ("store", "socket", "client", "initializing"))
    hidden = symptoms.cite("nccl-hidden-barrier", most=2) if symptoms else ()
    died = oom is not None or bool(symptoms and symptoms.has("device-assert", "illegal-access"))
    yield Finding(
            fixes=(Fix("find-missing-rank"),),
        certainty=Certainty.POSSIBLE if died else Certainty.LIKELY,
        variant="store" if store else "",
        values={
            "operation": first.operation if first and first.operation else "a collective", "rank": "?" if first is None or first.rank is None else first.rank,
            "seconds": f"{first.seconds:.0f}" if first and first.seconds else "?",
        },
        refs=(*(t.ref for t in timeouts[:2]), *real, *hidden),
    )


COLLECTIVES = frozenset(
    "torch.distributed." + name
    for name in (
        "all_reduce", "reduce", "broadcast", "all_gather", "all_gather_object", "all_gather_into_tensor", "gather", "gather_object", "scatter",
        "scatter_object_list", "barrier", "monitored_barrier", "reduce_scatter", "reduce_scatter_tensor", "broadcast_object_list", "all_to_all",
        "all_to_all_single", "new_group",
    )
)  # fmt: skip
OF_ACCELERATOR = frozenset({".wait_for_everyone", ".gather", ".gather_for_metrics", ".gather_object", ".reduce", ".pad_across_processes"})
OF_ENGINE = frozenset({".save_checkpoint", ".save_16bit_model"})  # DeepSpeed's: each rank writes its part
ONE = ("is_main", "is_master", "main_process", "master_process", "rank_zero", "is_rank_0", "is_rank0")


def _in_source(script: Script) -> Iterator[Finding]:
    """Calls in which all ranks must take part, where only some come by."""
    if not script.says("distributed", "Distributed", "accelerate", "deepspeed"):
        return
    yield from _forwards(script)
    yield from _skipped(script)
    yield from _uneven(script)
    found = [e for e in script.calls() if _of_all(script, e)]
    for call in distinct(sorted(found, key=lambda e: not any(_some(g) for g in e.at.guards))):  # a helper's, where some ranks call it
        guard = next((g for g in call.at.guards if _some(g)), None) or _left(call)
        if guard is None or guard.test is None or any(_other_side(e, call, guard) for e in found):
            continue
        yield Finding(
            subject=call.words(), certainty=Certainty.LIKELY, variant="source", refs=(call.ref(), call.file.ref(guard.test)),
            values={"code": call.words(60), "condition": ("not " if guard.negated else "") + call.file.quote(guard.test, 60), "line": guard.test.lineno},
        )  # fmt: skip


def _left(call: Event) -> Guard | None:
    """The condition under which some ranks returned from the function before that call."""
    function = call.at.frame.function
    body = function.node.body if function is not None and isinstance(function.node, ast.FunctionDef) else []
    for statement in body:
        if statement.end_lineno and statement.end_lineno >= call.node.lineno:
            break
        if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], ast.Return):
            guard = Guard(statement.test, "rank", True)
            if _some(guard) and not any(isinstance(n, ast.Call) and ast.unparse(n.func) == ast.unparse(call.call.func) for n in ast.walk(statement)):
                return guard
    return None


NETS = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")


def _forwards(script: Script) -> Iterator[Finding]:
    """A model in DistributedDataParallel that some ranks alone call: its buffers (batch norm) are sent from rank 0 in each forward pass."""
    norms = [e.value for e in script.calls("torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d", "torch.nn.SyncBatchNorm")]
    for call in distinct(script.calls("forward")):
        wrapped = call.receiver
        guard = next((g for g in call.at.guards if _some(g)), None)
        if guard is None or guard.test is None or not isinstance(wrapped, Module) or not wrapped.name.endswith("DistributedDataParallel") or wrapped.wraps is None:
            continue
        inner = wrapped.inner
        buffers = inner.name.startswith(NETS) or any(isinstance(norm, Module) and norm.root is inner.root for norm in norms)
        if wrapped.made is None or wrapped.made.says("broadcast_buffers", True) is False or not buffers:
            continue
        yield Finding(
            subject=call.words(), certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="forward",
            values={"code": call.words(60), "condition": ("not " if guard.negated else "") + call.file.quote(guard.test, 60)},
            refs=(call.ref(), call.file.ref(guard.test)),
        )  # fmt: skip
        return


def _skipped(script: Script) -> Iterator[Finding]:
    """A step that one rank may skip alone, since its own loss is not finite: the others wait in the backward pass."""
    for loop in script.loops:
        calls = [f for f in loop.forwards or () if loop.trains and isinstance(f.receiver, Module) and f.receiver.name.endswith("DistributedDataParallel")]
        if not calls or script.says("all_reduce", "all_gather", "join"):
            continue
        for node in ast.walk(loop.node):
            handler = node if isinstance(node, ast.ExceptHandler) and isinstance(node.body[-1], ast.Continue) else None
            back = next((b for b in loop.backwards or () if handler and b.loop is loop and b.line > handler.lineno), None)
            if handler and back is not None and "StopIteration" not in ast.unparse(handler):
                words = "except" + (f" {back.file.quote(handler.type, 60)}" if handler.type else "")
                yield Finding(
                    certainty=Certainty.POSSIBLE, severity=Severity.WARNING, variant="skip", values={"condition": words},
                    refs=(*((back.file.ref(handler.type),) if handler.type else ()), back.file.ref(handler.body[-1]), back.ref()),
                )  # fmt: skip
                return
            own = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Continue) and node.lineno > calls[0].line
            if own and isinstance(node, ast.If) and any(word in ast.unparse(node.test) for word in ("isnan", "isinf", "isfinite")):
                ahead = any(b.loop is loop and b.line > node.lineno for b in loop.backwards or ())
                if ahead:
                    yield Finding(
                        certainty=Certainty.POSSIBLE, severity=Severity.WARNING, variant="skip", values={"condition": calls[0].file.quote(node.test, 60)},
                        refs=(calls[0].file.ref(node),),
                    )  # fmt: skip
                    return


def _uneven(script: Script) -> Iterator[Finding]:
    """Data that is dealt out by data[rank::world_size] to ranks that train with DistributedDataParallel: some get a batch more."""
    if script.says("drop_last", "join(", "Join(", "DistributedSampler", "total_size", "% world_size", "all_reduce", "num_samples"):
        return
    wrapped = [m for m in script.modules if m.name.endswith("DistributedDataParallel")]
    trains = any(loop.trains and any(f.receiver in wrapped for f in loop.forwards or ()) for loop in script.loops)
    for node in ast.walk(script.tree) if trains else ():
        part = node.slice if isinstance(node, ast.Subscript) else None
        bounds = (part.lower, part.step) if isinstance(part, ast.Slice) else (None, None)
        first, step = (ast.unparse(bound).lower() if bound is not None else "" for bound in bounds)
        if isinstance(node, ast.Subscript) and "rank" in first and "world" in step:
            words = script.file.quote(node, 60)
            yield Finding(certainty=Certainty.POSSIBLE, severity=Severity.WARNING, variant="uneven", values={"code": words}, refs=(script.file.ref(node),))
            return


def _of_all(script: Script, event: Event) -> bool:
    if event.name in COLLECTIVES:
        return event.arg(None, "group") is None and not event.stars and not any("group" in ast.unparse(given) for given in event.call.args)
    if event.name in OF_ACCELERATOR:
        return isinstance(event.receiver, Handle) and event.receiver.name == "accelerate.Accelerator"
    return event.name in OF_ENGINE and "deepspeed" in script.managed


def _some(guard: Guard) -> bool:
    """Whether that condition holds on some of the ranks only: rank == 0, not is_main_process()."""
    if guard.kind not in ("rank", "every") or guard.test is None:
        return False  # "every" also where it asks for the step besides: rank == 0 and step % 100 == 0
    tests = guard.test.values if isinstance(guard.test, ast.BoolOp) and isinstance(guard.test.op, ast.And) and not guard.negated else [guard.test]
    return any(_asks(test) for test in tests)


def _asks(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks(test.operand) or _is_rank(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        number = test.comparators[0]
        zero = isinstance(number, ast.Constant) and type(number.value) is int
        return zero and isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.Gt) and _is_rank(test.left)
    words = ast.unparse(test).lower()
    return isinstance(test, ast.Name | ast.Attribute | ast.Call) and any(word in words for word in ONE)


def _is_rank(node: ast.expr) -> bool:
    """rank, local_rank, dist.get_rank(), int(os.environ["RANK"])."""
    name = ast.unparse(node).lower()
    return "rank" in name and not any(word in name for word in ("ranks", "world", "is_", "size", "len("))


def _other_side(event: Event, call: Event, guard: Guard) -> bool:
    """Whether that is the same collective on the other ranks' path: in the else, or under another question for the rank."""
    if event is call or event.name != call.name or event.flow != call.flow or event.at.loops != call.at.loops:
        return False
    mine = ast.unparse(guard.test) if guard.test else ""
    block = next((n for n in ast.walk(event.at.frame.function.node) if isinstance(n, ast.If) and n.test is guard.test), None) if event.at.frame.function else None
    if block is not None and isinstance(block.body[-1], ast.Return) and event.at.frame.function is call.at.frame.function and event.line > (block.end_lineno or 0):
        return True  # some ranks call it and return, the others call it behind
    return any(g.kind == "rank" and g.test is not None and (ast.unparse(g.test), g.negated) != (mine, guard.negated) for g in event.at.guards)


def _collective(line: str) -> bool:
    """Whether a line of a time-out is about collectives: "Socket Timeout" alone may be anything."""
    low = line.lower()
    words = ("nccl", "collective", "rank", "store", "barrier", "process group", "gloo", "horovod", "stalled", "c10d", "tcpstore", "client socket has timed out", "watchdog", "distributed")
    return any(word in low for word in words)


def _in_run(mismatch: Mismatch) -> Finding:
    """From a dry run of all ranks: the first collective in which they differ."""
    told = [f"rank {rank}: {c if c else '-'}" for rank, c in mismatch.ranks.items()]
    places = dict.fromkeys(c.place for c in mismatch.ranks.values() if c and c.place)
    return Finding(fixes=(Fix("find-missing-rank"),), variant="run", values={"index": mismatch.index, "calls": told[:8]}, refs=tuple(p.ref() for p in places)[:4])


RULE = Rule(
    slug="nccl-timeout",
    layer=Layer.CODE,
    severity=Severity.ERROR,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/distributed.html", "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    en=Text(
        title="{rank:Rank *|A rank} waited {seconds:* s |}in {operation} for ranks that never came",
        why="Collectives need every rank. One rank took another path or stopped: a collective or barrier inside \"if rank == 0\" (saving, evaluation, logging), uneven numbers of batches, an exception or out-of-memory on one rank (its own log tells), very slow data loading or checkpointing, or a link that hangs (peer-to-peer, network).",
        fix="Find the rank that is missing: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 with TORCH_NCCL_DUMP_ON_TIMEOUT=1 (flight recorder), TORCH_DISTRIBUTED_DEBUG=DETAIL, py-spy dump on each rank. Let all ranks call saving and barrier, only the write belongs to rank 0; use Join or drop_last for uneven data; raise init_process_group(timeout=timedelta(hours=2)) only for work that is really long. If nothing ever passes, try NCCL_P2P_DISABLE=1 and NCCL_SOCKET_IFNAME.",
    ),
    zh=Text(
        title="{rank:rank *|某个 rank} 在 {operation} 中等待{seconds:了 * 秒}，其他 rank 一直没来",
        why="集合通信需要所有 rank 参与。有的 rank 走了别的分支或已停止：集合通信或 barrier 写在“if rank == 0”里（保存、评估、记录）、各 rank 的 batch 数不同、某个 rank 抛异常或显存不足（看它自己的日志）、数据加载或写检查点太慢，或链路卡住（P2P、网络）。",
        fix="找出缺席的 rank：TORCH_NCCL_TRACE_BUFFER_SIZE=2000 加 TORCH_NCCL_DUMP_ON_TIMEOUT=1（flight recorder）、TORCH_DISTRIBUTED_DEBUG=DETAIL、在各 rank 上 py-spy dump。让所有 rank 都调用保存函数和 barrier，只有写文件归 rank 0；数据不均时用 Join 或 drop_last；确实耗时的工作才调大 init_process_group(timeout=timedelta(hours=2))。如果从一开始就不通，试 NCCL_P2P_DISABLE=1 和 NCCL_SOCKET_IFNAME。",
    ),
    variants={
        "source": (
            Text(
                title="{code} stands under \"{condition}\": the other ranks never call it",
                why="A collective returns only when every rank of the group has called it. The rank that comes here waits for the others until the time-out (10 or 30 minutes), or meets another of their collectives and mixes up data.",
                fix="Take the call out of the condition (line {line}): all ranks call it, and only printing and writing stay inside.",
            ),
            Text(
                title="{code} 写在“{condition}”之下：其他 rank 从不调用它",
                why="集合通信要组内每个 rank 都调用才返回。走到这里的 rank 会一直等到超时（10 或 30 分钟），或与其他 rank 的另一次集合通信配上而弄乱数据。",
                fix="把这个调用移出该条件（第 {line} 行）：所有 rank 都调用，只有打印和写文件留在里面。",
            ),
        ),
        "forward": (
            Text(
                title="{code} stands under \"{condition}\": DistributedDataParallel sends its buffers in each forward pass, and the other ranks do not take part",
                why="With batch norm the wrapper broadcasts running means from rank 0 before each forward pass, in evaluation too. The rank that comes here waits for the others, or takes their next collective.",
                fix="Evaluate the module inside (model.module(x)), on all ranks with their own part of the data, or with broadcast_buffers=False.",
            ),
            Text(
                title="{code} 写在“{condition}”之下：DistributedDataParallel 每次前向都要发送 buffer，而其他 rank 没有参加",
                why="有 batch norm 时，包装层在每次前向之前（评估时也一样）都会从 rank 0 广播滑动均值。走到这里的 rank 会等其他 rank，或与它们的下一次集合通信错配。",
                fix="评估内部的模块（model.module(x)），或让所有 rank 各自评估自己那部分数据，或设 broadcast_buffers=False。",
            ),
        ),
        "uneven": (
            Text(
                title="{code} gives some ranks more samples than others",
                why="Where the length is no multiple of the number of ranks, some have a batch more. In it they wait for gradients of ranks that have left the loop, until the time-out.",
                fix="DistributedSampler (it pads or drops), data[: len(data) // world_size * world_size] before dealing out, or with model.join(): around the loop.",
            ),
            Text(
                title="{code} 会让有的 rank 比别的 rank 多样本",
                why="长度不是 rank 数的整数倍时，有的 rank 会多一个 batch。它们在这个 batch 里等待已离开循环的 rank 的梯度，直到超时。",
                fix="用 DistributedSampler（会补齐或丢弃），或分发前 data[: len(data) // world_size * world_size]，或在循环外加 with model.join():。",
            ),
        ),
        "skip": (
            Text(
                title="A rank may skip the step alone ({condition}): the others wait in backward",
                why="DistributedDataParallel averages gradients in the backward pass of all ranks. A rank that continues without it leaves the others in all_reduce until the time-out.",
                fix="Decide together: all_reduce the flag first and skip on all ranks, or set the loss to zero (loss = torch.nan_to_num(loss) * 0) and go through backward.",
            ),
            Text(
                title="某个 rank 可能单独跳过这一步（{condition}）：其他 rank 在 backward 里等待",
                why="DistributedDataParallel 在所有 rank 的反向传播中平均梯度。某个 rank 不做反向就 continue，其余会停在 all_reduce 直到超时。",
                fix="共同决定：先对标志做 all_reduce，再所有 rank 一起跳过；或把损失置零（loss = torch.nan_to_num(loss) * 0）后照常 backward。",
            ),
        ),
        "run": (
            Text(
                title="The ranks do not call the same collectives: number {index} is {calls}",
                why="The dry run ran every rank. Where they differ, a real job waits until the process group's time-out, or mixes up data.",
                fix="Let every rank take the same path: no collective, barrier, DDP forward or saving that communicates inside \"if rank == 0\"; the same number of batches on all ranks (drop_last=True, DistributedSampler, Join); the same shapes.",
            ),
            Text(
                title="各 rank 调用的集合通信不一致：第 {index} 次为 {calls}",
                why="试运行跑了每个 rank。出现差异处，真实任务会一直等到进程组超时，或者数据错乱。",
                fix="让所有 rank 走同样的路径：“if rank == 0” 里不要有集合通信、barrier、DDP 前向或会通信的保存；各 rank 的 batch 数相同（drop_last=True、DistributedSampler、Join）；形状相同。",
            ),
        ),
        "told": (
            Text(
                title="A job on several GPUs hangs in a collective: a rank seems not to take part",
                why="all_reduce, barrier and the like return only when every rank has called them. Uneven numbers of batches, a collective or barrier inside \"if rank == 0\", an exception or early exit on one rank leave the others waiting, until the process group's timeout (10 or 30 minutes).",
                fix="py-spy dump --pid on each rank shows which one is elsewhere; drop_last=True or the Join context for uneven inputs; every rank through the same collectives; TORCH_DISTRIBUTED_DEBUG=DETAIL and NCCL_DEBUG=INFO. If all ranks stand in the same collective, try NCCL_P2P_DISABLE=1.",
            ),
            Text(
                title="多卡任务卡在集合通信里：似乎有 rank 没有参加",
                why="all_reduce、barrier 等要所有 rank 都调用才返回。batch 数不一致、集合通信或 barrier 写在 “if rank == 0” 里、某个 rank 抛异常或提前退出，其余 rank 就会一直等，直到进程组超时（10 或 30 分钟）。",
                fix="对每个 rank 用 py-spy dump --pid 看哪个停在别处；输入不均时用 drop_last=True 或 Join 上下文；保证所有 rank 走相同的集合通信；设 TORCH_DISTRIBUTED_DEBUG=DETAIL 和 NCCL_DEBUG=INFO。若所有 rank 都停在同一处，试 NCCL_P2P_DISABLE=1。",
            ),
        ),
        "store": (
            Text(
                title="The ranks did not find each other in time: the process group could not be initialised",
                why="Each rank meets at MASTER_ADDR:MASTER_PORT before any GPU communication. A rank that was not started (or died first), a wrong WORLD_SIZE, a wrong address, or a firewall leaves the others waiting.",
                fix="Check that all WORLD_SIZE processes run and use the same MASTER_ADDR and MASTER_PORT (nc -zv host port from every node), that rank numbers are unique, and read the first error of every rank; NCCL_DEBUG=INFO for the steps after.",
            ),
            Text(
                title="各 rank 没有按时会合：进程组初始化失败",
                why="在 GPU 通信之前，各 rank 先在 MASTER_ADDR:MASTER_PORT 会合。有的 rank 没有启动（或先退出）、WORLD_SIZE 不对、地址不对或被防火墙挡住，其余就会一直等。",
                fix="确认 WORLD_SIZE 个进程都在运行且 MASTER_ADDR、MASTER_PORT 一致（在各节点执行 nc -zv host port）、rank 不重复，并查看每个 rank 的第一条错误；之后的步骤用 NCCL_DEBUG=INFO 看。",
            ),
        ),
    },
)
