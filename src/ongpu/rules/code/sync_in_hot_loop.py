"""The program waits for the GPU at every step."""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.dryrun import DryRun
from ongpu.facts.profile import Profile
from ongpu.facts.program import Event, Loop, Program, Script, distinct
from ongpu.facts.python_profile import share as share_of
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import each_turn, in_traced, jax_steps, jits, loops, results, root, tf_steps
from ongpu.facts.values import CPU, Tensor, may_be_gpu
from ongpu.facts.windows import nested
from ongpu.lazy import lazy, replace
from ongpu.model import Certainty, Edit, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms | None, traceback: Traceback | None, profile: Profile | None, dryrun: DryRun | None, program: Program | None) -> Iterator[Finding]:
    if dryrun:
        yield from _in_run(dryrun)
    if profile:
        yield from _in_profile(profile)
    if program:
        asked = bool(symptoms and symptoms.has("slow-words", "sync-told", "gpu-idles-told")) and not (traceback and any(r.error for r in traceback.raised))
        found = [finding for script in program.scripts for finding in (*_in_source(script), *_in_optimizer(script), *_in_traced(script))]
        yield from (replace(finding, severity=None) if asked else finding for finding in found)
    if symptoms:
        yield from _in_words(symptoms, traceback)


READS = (".item", ".tolist", ".cpu", ".numpy", "float", "int", "bool", "print", "format")
EMPTIES = ("torch.cuda.empty_cache", "gc.collect", "torch.cuda.ipc_collect")
WAITS = ("torch.cuda.synchronize", *EMPTIES)
CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "time.time_ns", "time.perf_counter_ns")
FEW = 3  # reads in one step that are customary for each backward pass: the losses for a progress bar


def _in_source(script: Script) -> Iterator[Finding]:
    """Lines of a training loop that wait for the GPU at each step."""
    found = [event for event in distinct((*script.calls(*READS, *WAITS), *script.of("test"))) if event.hot and _waits(event)]
    for loop in dict.fromkeys(event.training_loop for event in found):
        mine = sorted((e for e in found if e.training_loop is loop), key=lambda event: event.order)
        forced = [e for e in mine if e.name in WAITS]
        if forced and loop is not None and (_measures(script, loop) or not loop.steps):  # a measurement, or a test, wants to wait
            mine = [e for e in mine if e.name != "torch.cuda.synchronize"]
            forced = [e for e in forced if e in mine]
        if not mine or loop is None:
            continue
        told = any(e.name in TELLS for e in script.calls() if loop in e.at.loops and any(g.kind == "every" for g in e.guards_in(loop)))
        seldom = told and len(list(distinct(loop.backwards or ()))) < 2 and not (all(_customary(e) for e in mine) and not _again(script, loop, mine))
        first = (forced or mine)[0]
        micro = len(mine) > 1 and _micro(script, loop)
        yield Finding(
            subject=first.words(),
            certainty=Certainty.LIKELY,
            severity=Severity.NOTE if _tests(script, loop) or (first.name in EMPTIES and _phases(script, loop)) else None if forced or seldom or micro or len(mine) > FEW * max(1, len(list(distinct(loop.backwards or ())))) else Severity.NOTE,
            variant="empty" if first.name in EMPTIES else "branch" if seldom and not forced else "source",
            values={"code": first.words(), "number": len(mine), "line": first.line},
            refs=tuple(e.ref() for e in (first, *(e for e in mine if e is not first)))[:6],
            edits=tuple(edit for e in forced if e.name in EMPTIES for edit in _without(script, e)),
        )


def _again(script: Script, loop: Loop, reads: list[Event]) -> bool:
    """Whether a number that a progress bar shows at each turn is read once more where it is told, every so many turns."""
    bars = [e for e in reads if e.name == ".item" and e.stmt is not None and any(bar in ast.unparse(e.stmt) for bar in (".set_description", ".set_postfix"))]
    words = {e.words() for e in bars}
    return any(e.words() in words for e in script.calls(".item") if loop in e.at.loops and any(g.kind == "every" for g in e.guards_in(loop)))


def _micro(script: Script, loop: Loop) -> bool:
    """Whether its turns are micro-batches: the step stands behind it, in a loop around it."""
    return not loop.steps and any(window.loop is loop for window in nested(script))


def _tests(script: Script, loop: Loop) -> bool:
    """Whether it compares gradients and never steps: a test of an operator, printed turn by turn."""
    return not loop.steps and not any(loop in e.at.loops for e in script.calls(".step")) and script.says("max error", "allclose", "assert_close")


def _phases(script: Script, loop: Loop) -> bool:
    """Whether each turn has phases of other sizes: it generates and then trains, or evaluates in between."""
    return any(loop in e.at.loops and not e.guards_in(loop) for e in script.calls(".generate", ".generate_trajectory", ".generate_trajectory_batched", ".sample")) or script.says("rlhf", "PPO", "GRPO")


def _without(script: Script, event: Event) -> tuple[Edit, ...]:
    """The statement taken away with its line: where it is alone on it, and not alone in its block."""
    stmt, file = event.stmt, event.file
    if not event.discarded or stmt is None or file is not script.file or stmt.end_lineno != stmt.lineno or file.line(stmt.lineno).strip() != file.segment(stmt):
        return ()
    for node in ast.walk(script.tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and stmt in block:
                name, line = file.place(stmt.lineno)
                stays = [e for e in block if not file.segment(e).endswith(("empty_cache()", "collect()"))]
                before = file.line(stmt.lineno - 1)
                if not stays or file.place(stmt.lineno - 1)[0] != name:
                    return ()
                return (Edit(name, line - 1, len(before), line, len(file.line(stmt.lineno)), ""),)
    return ()


def _measures(script: Script, loop: Loop) -> bool:
    """Whether a clock is read in the loop, or a meter or timer is told of each step."""
    told = [ast.unparse(e.call.func).lower() for e in script.calls(".update", ".stop", ".tick", ".elapsed_time", ".lap", ".end") if loop in e.at.loops]
    clock = any(loop in e.at.loops for e in script.calls(*CLOCKS))
    return clock or any(word in text for text in told for word in ("perf", "timer", "elapsed", "throughput", "stopwatch"))


TELLS = ("print", "format", ".info", ".debug", ".set_postfix", ".set_description", ".add_scalar", ".log", "logging.info", "wandb.log", "tqdm.tqdm.write", "tensorflow.summary.scalar")


def _customary(event: Event) -> bool:
    """Whether it is no number put aside for later: read to be added to a sum, returned or told at each step, or an array that is needed."""
    stmt = event.stmt
    call = stmt.value if isinstance(stmt, ast.Expr) else None
    kept = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append"
    array = event.name in (".cpu", ".numpy") and isinstance(event.receiver, Tensor) and not event.receiver.scalar
    return not (isinstance(stmt, ast.Assign) or kept) or array


HOST = (".numpy", ".item", ".tolist", ".block_until_ready", "float", "int", "print", "numpy.asarray", "numpy.array", "jax.device_get", "jax.block_until_ready")


def _in_traced(script: Script) -> Iterator[Finding]:
    """Loops of TensorFlow or JAX that bring what a step gave to the host, at each step."""
    if not script.imports & {"jax", "tensorflow", "keras"}:
        return
    known, steps = jits(script), [*tf_steps(script), *jax_steps(script)]
    for loop in loops(script, steps, known):
        names = results(loop, steps, known)
        reads = [e for e in distinct(script.calls(*HOST)) if each_turn(e, loop) and _read(e) in names and not in_traced(e, known)]
        timed = any(loop in clock.at.loops for clock in script.calls(*CLOCKS))
        reads = [e for e in reads if not (timed and "block_until_ready" in e.name)]
        if not reads:
            continue
        told = any(e.name in TELLS for e in script.calls() if loop in e.at.loops and any(g.kind == "every" for g in e.guards_in(loop)))
        seldom = told and not all(_customary(e) for e in reads)
        yield Finding(
            subject=reads[0].words(), certainty=Certainty.LIKELY, variant="host",
            severity=None if (seldom or len(reads) > FEW or any("device_get" in e.name for e in reads)) and not _long(script, loop) else Severity.NOTE,
            values={"code": reads[0].words(), "line": reads[0].line}, refs=tuple(e.ref() for e in reads[:6]),
        )  # fmt: skip


def _long(script: Script, loop: Loop) -> bool:
    """Whether a turn of the loop is many steps: another loop stands in it, or a scan (reinforcement learning's updates)."""
    inner = any(loop in lo_event.at.loops and lo_event.loop is not loop for lo_event in script.events)
    return inner or script.says("lax.scan", "fori_loop")


def _read(event: Event) -> str:
    """The name of what is read."""
    if not isinstance(event.node, ast.Call):
        return ""
    func = event.node.func
    if event.name.startswith("."):
        return root(func.value) if isinstance(func, ast.Attribute) else ""
    return next((name for given in event.node.args for name in [root(given)] if name), "")


def _in_optimizer(script: Script) -> Iterator[Finding]:
    """An optimizer of the program's own that reads a number for each parameter."""
    for event in distinct(script.calls(".item", ".tolist", ".cpu")):
        function = event.at.frame.function
        owner = function.cls if function and function.name == "step" else None
        on_host = isinstance(event.receiver, Tensor) and event.receiver.where == CPU
        if on_host or any(_once(guard.test) for guard in event.at.guards):
            continue
        if event.loop is not None and owner is not None and any(base.startswith("torch.optim.") for base in owner.bases):
            yield Finding(
                subject=event.words(), certainty=Certainty.LIKELY, severity=Severity.WARNING, variant="source",
                values={"code": event.words(), "number": "?", "line": event.line}, refs=(event.ref(),),
            )  # fmt: skip
            return


def _once(test: ast.expr | None) -> bool:
    """Whether a condition holds at the first step only: "moments" not in state, len(state) == 0."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    right = test.comparators[0]
    empty = isinstance(test.ops[0], ast.Eq) and isinstance(right, ast.Constant) and right.value == 0 and isinstance(test.left, ast.Call)
    return isinstance(test.ops[0], ast.NotIn) or empty


def _waits(event: Event) -> bool:
    if event.name in WAITS:
        return True
    read = event.receiver if event.name.startswith(".") else event.value if event.kind == "test" else event.arg(0)
    return isinstance(read, Tensor) and may_be_gpu(read.where)


def _in_profile(profile: Profile) -> Iterator[Finding]:
    """A timeline in which the GPU runs dry because the host waited for it, and had to start anew."""
    for gpu in profile.gpus:
        share = gpu.wait("sync")
        if share < 10:
            continue
        calls = sum(point.calls for point in gpu.syncs)
        first = gpu.syncs[0] if gpu.syncs else None
        yield Finding(
            certainty=Certainty.LIKELY, subject=f"GPU {gpu.index}", variant="trace",
            values={
                "gpu": gpu.index, "share": f"{share:.0f}", "calls": calls, "each": f"{calls / gpu.steps:.3g}" if gpu.steps else "?",
                "operator": first.operator if first else "?", "where": (first.where if first else None) or "?",
            },
            refs=(*gpu.why("sync"), *(point.ref for point in gpu.syncs[:4])),
        )


def _in_words(symptoms: Symptoms, traceback: Traceback | None) -> Iterator[Finding]:
    warned = symptoms.cite("sync-debug", most=2)
    callback = symptoms.cite("sync-callback", most=2)
    profile = [h for h in symptoms.seen("sync-profile") if 25 <= float(h.groups.get("share", "0")) <= 100]
    profile += [h for h in symptoms.seen("py-spy-sync") if 25 <= float(h.groups["share"]) <= 100]
    waited, rows = share_of(symptoms, "cprofile-wait")
    if waited >= 15 and not profile:
        named = rows[0].groups.get("what") or rows[0].groups["line"]
        profile = [replace(row, groups={"what": named, "share": f"{waited:.0f}"}) for row in rows]
    failed = traceback is not None and any(r.error for r in traceback.raised)
    code = symptoms.cite("sync-code", "sync-line", most=3) if symptoms.has("slow-words", "sync-told", "gpu-idles-told") and not failed else ()
    plain = bool(code) or symptoms.has("diff-drops-sync") or any(re.search("slow|idle|stall|faster|慢", r.quote) for r in symptoms.cite("item-each-step"))
    told = symptoms.cite("sync-told", "item-each-step", most=2) if not failed else ()
    if told and (symptoms.has("item-each-step", "sync-code", "sync-line") or symptoms.has("slow-words")):
        code = (*told, *code)
    removed = symptoms.cite("diff-drops-sync", most=2)
    if code or removed:
        code = (*removed, *code)
    if not (warned or callback or profile or code):
        return
    what = profile[0].groups.get("what") if profile else symptoms.value("what", "sync-callback" if callback else "sync-code")
    yield Finding(
        certainty=Certainty.LIKELY if warned or profile or callback or (code and not failed and (plain or symptoms.has("sync-told"))) else Certainty.POSSIBLE,
        severity=Severity.NOTE if failed else None,
        variant="profile" if profile else "callback" if callback else "",
        values={"what": what or ".item(), .cpu() or a copy", "share": profile[0].groups["share"] if profile else "?"},
        refs=(*warned, *callback, *(h.ref for h in profile[:3]), *code),
    )


_WHOLE = lazy(r"\.(?:fit|train|evaluate|validate|test|predict|generate|spawn|launch)\((?!\))|\)\.train\(\)")  # a library's loop in one line
BY_SHAPE = ("nonzero", "mask", "unique")  # waits for a count that decides a shape: often the only way (matching boxes, routing)
MANY = 8.0  # waits in one pass of the loop: one or two are customary (the loss for a log, GradScaler's own), and cost little


def _in_run(run: DryRun) -> Iterator[Finding]:
    """From a dry run: the lines at which Python waited for the GPU, and how often in one pass of the loop."""
    if run.turns < 2:
        return
    # a line that also steps is a library's whole loop (trainer.fit, Trainer.train) or GradScaler.step: its waits are not the user's
    loops = {place for window in run.accumulation.windows for place in (window.step_place, window.backward_place)}
    often = [s for s in run.syncs if s.count >= run.turns - 1 and s.place and s.place not in loops and not _WHOLE.search(s.place.text)]
    each = sum(sync.count for sync in often) / run.turns
    emptied = [share for share in run.memory.empty_cache_calls if share.count >= run.turns - 1 and share.place]
    if each < 1 and not emptied:
        return
    lines = [*(s.place for s in often[:4] if s.place), *(s.place for s in emptied[:2] if s.place)]
    yield Finding(
        variant="run",
        severity=Severity.NOTE if sum(sync.count for sync in often if sync.kind not in BY_SHAPE) / run.turns < MANY else None,
        values={"number": f"{each:.3g}", "what": sorted({s.kind for s in often[:4]}) or ["empty_cache"], "line": str(lines[0])},
        refs=tuple(line.ref() for line in lines),
    )


RULE = Rule(
    slug="sync-in-hot-loop",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html", "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    en=Text(
        title="The program waits for the GPU in its hot loop ({what})",
        why="The GPU works asynchronously; .item(), .cpu(), .tolist(), printing a tensor, torch.cuda.synchronize(), empty_cache() or CUDA_LAUNCH_BLOCKING=1 make Python wait until everything queued is done, so the GPU is idle until the next launch.",
        fix="Read the loss only every N steps (loss.item() inside the logging branch), keep sums on the GPU (total += loss.detach()), drop synchronize() and empty_cache() from the loop, unset CUDA_LAUNCH_BLOCKING and anomaly detection. torch.cuda.set_sync_debug_mode('warn') shows each place. Measure: it may gain little where steps are long.",
    ),
    zh=Text(
        title="程序在热循环里等待 GPU（{what}）",
        why="GPU 异步工作；.item()、.cpu()、.tolist()、打印张量、torch.cuda.synchronize()、empty_cache() 或 CUDA_LAUNCH_BLOCKING=1 会让 Python 等到队列全部完成，GPU 在下一次发射前空闲。",
        fix="每 N 步才读一次损失（在打日志的分支里 loss.item()），求和留在 GPU 上（total += loss.detach()），循环里去掉 synchronize() 和 empty_cache()，取消 CUDA_LAUNCH_BLOCKING 和异常检测。torch.cuda.set_sync_debug_mode('warn') 会指出每一处。请实测：单步较长时收益可能不大。",
    ),
    variants={
        "source": (
            Text(
                title="{code} waits for the GPU at every step",
                why="The GPU works asynchronously: to read a value (or to empty the cache, or to synchronise) Python must wait until all that was queued is done, and then the GPU idles until the next launch.",
                fix="Keep it out of the loop: read the loss every N steps, add up loss.detach() on the GPU, leave empty_cache() and synchronize() away. Measure: where steps are long, little is gained.",
            ),
            Text(
                title="{code} 每一步都在等待 GPU",
                why="GPU 是异步工作的：读取数值（或清空缓存、同步）时，Python 必须等队列全部完成，之后 GPU 要空闲到下一次发射。",
                fix="移出循环：每 N 步才读一次损失，用 loss.detach() 在 GPU 上累加，去掉 empty_cache() 和 synchronize()。请实测：单步较长时收益很小。",
            ),
        ),
        "empty": (
            Text(
                title="{code} runs at every step",
                why="empty_cache gives PyTorch's free memory back to the driver, so the next step has to allocate it anew with cudaMalloc, and waits for the GPU; gc.collect walks through all Python objects. Neither frees memory that PyTorch could not have used again by itself.",
                fix="Leave it out of the loop. Call it once, after an evaluation or an out-of-memory error, if at all; against fragmentation set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
            ),
            Text(
                title="{code} 每一步都会执行",
                why="empty_cache 把 PyTorch 的空闲显存还给驱动，下一步又要用 cudaMalloc 重新申请，还要等待 GPU；gc.collect 会遍历所有 Python 对象。两者都不会释放 PyTorch 本来就能再用的显存之外的东西。",
                fix="移出循环。最多在评估之后或显存不足之后调用一次；要对付碎片，设 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True。",
            ),
        ),
        "host": (
            Text(
                title="{code} brings a result to the host at every step",
                why="JAX and TensorFlow queue work and run ahead of the GPU. Reading a value (float, numpy, print, device_get) waits until all that was queued is done; the next step is launched only then.",
                fix="Keep results on the device and read them every N steps, or collect them and read the list once an epoch (jax.device_get(list), a tf.keras.metrics object).",
            ),
            Text(
                title="{code} 每一步都把结果取回主机",
                why="JAX 和 TensorFlow 把任务排队，跑在 GPU 前面。读取数值（float、numpy、print、device_get）要等队列全部完成，之后才发射下一步。",
                fix="让结果留在设备上，每 N 步读一次；或先收集，每个 epoch 统一读取（jax.device_get(列表)、tf.keras.metrics 对象）。",
            ),
        ),
        "branch": (
            Text(
                title="{code} waits for the GPU at every step, though values are told only every few steps",
                why="The loop has a branch for every N-th step, but the value is read outside of it. To read one, Python must wait until all that was queued is done, and then the GPU idles until the next launch.",
                fix="Read it inside that branch (loss.item() there), or keep loss.detach() and read the list now and then.",
            ),
            Text(
                title="{code} 每一步都在等待 GPU，而数值其实隔若干步才用一次",
                why="循环里有每 N 步执行一次的分支，数值却在分支之外读取。每读一次，Python 都必须等队列全部完成，之后 GPU 要空闲到下一次发射。",
                fix="放进该分支里读取（在那里 loss.item()），或先保存 loss.detach()，隔一段时间再统一读取。",
            ),
        ),
        "run": (
            Text(
                title="Python waits for the GPU {number} times in each pass of the training loop ({what}, first at {line})",
                why="Each wait lets the GPU run dry until the next launch. One or two in a pass are customary and cost little; many small ones keep a fast GPU idle.",
                fix="Read values only every N steps, keep sums on the GPU (total += loss.detach()), replace decisions by torch.where, and take empty_cache() and synchronize() out of the loop. Measure: where steps are long, little is gained.",
            ),
            Text(
                title="训练循环每一轮 Python 要等待 GPU {number} 次（{what}，最先在 {line}）",
                why="每次等待都会让 GPU 在下一次发射前空转。每轮一两次很常见，代价不大；次数多时，快的 GPU 会一直空闲。",
                fix="每 N 步才读一次数值，求和留在 GPU 上（total += loss.detach()），用 torch.where 代替判断，把 empty_cache() 和 synchronize() 移出循环。请实测：单步较长时收益很小。",
            ),
        ),
        "trace": (
            Text(
                title="GPU {gpu} runs dry for {share} % of the time: the host waits for it and then has to start anew ({operator}{where:, in *})",
                why="The trace holds {calls} waits of the host{each:, * a step}. Each lets the queue of kernels run empty; until the host has launched new ones, the GPU has nothing to do. Without the wait the host would have been ahead.",
                fix="Keep values on the GPU and read them seldom: log every 50 steps, add up losses as detached tensors, and call .item(), .cpu(), print or torch.cuda.synchronize() once at the end. nonzero, masked_select, boolean indexing and unique wait too, as they need a size on the host: use torch.where or fixed shapes. torch.cuda.set_sync_debug_mode(\"warn\") names every place.",
            ),
            Text(
                title="GPU {gpu} 有 {share} % 的时间断流：主机先等它，之后又要重新下发（{operator}{where:，位于 *}）",
                why="trace 里主机等待 {calls} 次{each:，每步 * 次}。每次等待都会让 kernel 队列跑空；在主机重新下发之前，GPU 无事可做。没有这些等待，主机本可以领先。",
                fix="让数值留在 GPU 上，少读：每 50 步记录一次，把 loss 以 detach 后的张量累加，最后再调用一次 .item()、.cpu()、print 或 torch.cuda.synchronize()。nonzero、masked_select、布尔索引和 unique 也会等待，因为主机需要知道大小：改用 torch.where 或固定形状。torch.cuda.set_sync_debug_mode(\"warn\") 会指出每一处。",
            ),
        ),
        "profile": (
            Text(
                title="{share} % of the profile is waiting: {what}",
                why="aten::item, _local_scalar_dense, cudaStreamSynchronize and copies to the host are points where Python waits for the GPU. A large share in the host's time means a sync at every step (it can also be the normal place where the host waits for a GPU that is busy: compare with the GPU's own time).",
                fix="Read values (.item(), .cpu(), print) only every N steps, use non_blocking=True copies from pinned memory, and keep decisions on the GPU (torch.where instead of if tensor).",
            ),
            Text(
                title="性能分析中 {share} % 是等待：{what}",
                why="aten::item、_local_scalar_dense、cudaStreamSynchronize 和向主机的拷贝，都是 Python 等待 GPU 的地方。主机时间中占比大说明每步都在同步（也可能只是主机在等繁忙的 GPU：要和 GPU 自身的时间对比）。",
                fix="每 N 步才读取数值（.item()、.cpu()、print），从锁页内存拷贝时用 non_blocking=True，判断留在 GPU 上（用 torch.where 代替 if 张量）。",
            ),
        ),
        "callback": (
            Text(
                title="A callback is slower than the training step itself ({what})",
                why="Keras measured that its callback takes longer than the batch; it usually reads tensors back, logs or writes files at each batch.",
                fix="Log every N batches (update_freq='epoch' for TensorBoard), avoid .numpy() in on_train_batch_end, and raise steps_per_execution in compile().",
            ),
            Text(
                title="回调比训练步本身还慢（{what}）",
                why="Keras 测得回调耗时超过一个 batch；通常是每个 batch 都在读回张量、记录日志或写文件。",
                fix="每 N 个 batch 记录一次（TensorBoard 用 update_freq='epoch'），不要在 on_train_batch_end 中用 .numpy()，并在 compile() 中提高 steps_per_execution。",
            ),
        ),
    },
)
