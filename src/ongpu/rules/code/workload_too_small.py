"""There is too little work in each step for a GPU."""

import ast
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.comparisons import Comparisons
from ongpu.facts.dryrun import DryRun
from ongpu.facts.hardware import Gpus
from ongpu.facts.profile import Profile
from ongpu.facts.program import Event, Loop, Program, Script, distinct
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.traced import is_keras, jax_steps, tf_steps
from ongpu.facts.values import Const, Device, Loader, Module, may_be_gpu
from ongpu.facts.weights import arrays, known, parameters
from ongpu.model import Certainty, Finding, Layer, Ref, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, gpus: Gpus | None, times: Comparisons | None, traceback: Traceback | None, profile: Profile | None, dryrun: DryRun | None,
    program: Program | None,
) -> Iterator[Finding]:
    if program and not dryrun and not profile:
        told = symptoms.cite("cpu-time-told", "slower-than-cpu", "gpu-slower-told", most=2) if symptoms else ()
        if times and (times.gpu_over_cpu() or 2) <= 1:
            told = ()  # it gains as it is
        slow = bool(symptoms and symptoms.has("slow-words", "slow-told-plainly", "gpu-idles-told", "low-utilization"))
        plain = False
        for script in program.scripts:
            found = list(_single(script, slow)) or (list(_tiny(script, told)) if told and not traceback else [])
            plain = plain or any(finding.certainty is Certainty.LIKELY for finding in found)
            yield from (*(found or _in_source(script)), *_eager(script))
        if plain:  # the source shows the place: the words say no more
            symptoms = times = None
    if dryrun:
        yield from _in_run(dryrun)
    if profile:
        yield from _in_profile(profile)
    ratio = times.gpu_over_cpu() if times else None
    if ratio is not None and ratio > 1 and times and not (traceback is not None and any(r.error for r in traceback.raised)):
        lines = tuple(dict.fromkeys(t.ref for t in times.timings if t.device))
        yield Finding(
            certainty=Certainty.LIKELY, variant="slower", values={"ratio": f"{ratio:.1f}"},
            refs=(*lines[:4], *(symptoms.cite("small-words", "slower-than-cpu", most=2) if symptoms else ())),
        )
        return
    if symptoms is None or (traceback is not None and any(r.error for r in traceback.raised)):
        return
    warned = symptoms.cite("small-on-gpu", most=2)
    shown = [g.utilization for g in gpus.gpus if g.utilization is not None] if gpus else []
    hint = symptoms.value("gpu", "low-utilization")
    low = (max(shown) if shown else int(hint) if hint else 100) <= 35
    rl = symptoms.cite("sb3-on-gpu", most=3)
    slower = symptoms.cite("slower-than-cpu", "gpu-slower-told", most=2)
    small = symptoms.cite("small-words", "tiny-work", most=2)
    idle = symptoms.has("gpu-idles-told") and not symptoms.has("data-slow-words", "pauses-words", "gpu-not-seen")
    if slower and symptoms.has("conv-slow-told") and not any("cpu" in ref.quote.lower() for ref in slower):
        return
    if slower and not (small or low) and symptoms.has("gpu-not-seen", "precision-off", "conv-slow-told"):
        return
    certain = bool((slower and times) or warned or (low and rl) or (slower and (small or low)) or (low and symptoms.has("small-words")))
    # shown to be on the GPU, and shown to hardly use it: what is left is that it has little to do
    placed = symptoms.cite("model-on-cuda", most=1) if low and any((g.memory_used or 0) > 300 for g in (gpus.gpus if gpus else ())) else ()
    if not (certain or slower or placed or (idle and symptoms.has("small-words"))):
        return
    yield Finding(
        certainty=Certainty.LIKELY if certain else Certainty.POSSIBLE,
        variant="rl" if rl else "",
        values={"gpu": max(shown) if shown else hint or "?", "grid": symptoms.value("grid", "small-on-gpu") or "?"},
        refs=(*warned, *rl, *slower, *small, *placed, *(gpus.refs[:2] if gpus and low else ())),
    )


FEW = 20_000  # parameters: a step of that is launch time, whatever the card
CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer", "datetime.datetime.now")
POLICIES = ("PPO", "A2C", "TRPO", "ARS")


def _in_source(script: Script) -> Iterator[Finding]:
    """A note on tiny networks that are trained on CUDA with small batches, and on policies of stable_baselines3 with plain vectors."""
    for made in script.calls(*(f"stable_baselines3.{name}" for name in POLICIES)):
        device, policy = (made.kw or {}).get("device"), made.arg(0, "policy")
        on_gpu = (isinstance(device, Const) and str(device.value).startswith("cuda")) or (isinstance(device, Device) and may_be_gpu(device.where))
        if on_gpu and isinstance(policy, Const) and policy.value == "MlpPolicy":
            yield Finding(certainty=Certainty.LIKELY, severity=Severity.NOTE, variant="source", values={"what": made.words(60), "count": "?"}, refs=(made.ref(),))
            return
    for loop in script.loops:
        loader = loop.over if isinstance(loop.over, Loader) else None
        batch = loader.setting("batch_size") if loader else None
        call = next((f for f in loop.forwards or () if f.loop is loop and isinstance(f.receiver, Module)), None)
        model = call.receiver if call else None
        if not loop.trains or call is None or not isinstance(model, Module) or not model.sure or not may_be_gpu(model.where(call)) or not isinstance(batch, Const):
            continue
        count = parameters(script, model)
        if 0 < count < FEW and isinstance(batch.value, int) and batch.value <= 64 and known(script, model):
            yield Finding(
                certainty=Certainty.POSSIBLE, severity=Severity.NOTE, variant="source", values={"what": model.name.rpartition(".")[2], "count": count},
                refs=(call.ref(), *((model.made.ref(),) if model.made else ())),
            )
            return


SMALL = 100_000  # numbers in all arrays of a program: to go through them takes less time than one launch (5 to 10 µs)


def _tiny(script: Script, told: tuple[Ref, ...]) -> Iterator[Finding]:
    """A program whose sizes are known to be small, beside words that set its time on the GPU against that on the CPU."""
    if "jax" in script.imports:
        count, step = arrays(script), next((e for e in jax_steps(script) if not e.at.frame.alone), None) or next(jax_steps(script), None)
        if count is not None and count <= SMALL and step is not None:
            yield Finding(certainty=Certainty.LIKELY, variant="tiny", values={"what": step.words(60), "count": count}, refs=(step.ref(), *told))
        return
    for call in script.calls("forward"):
        model = call.receiver
        if not isinstance(model, Module) or call.at.frame.inside("forward") or call.loop is None or not model.sure or not may_be_gpu(model.where(call)):
            continue
        count = parameters(script, model)
        if 0 < count <= SMALL and known(script, model):
            yield Finding(
                certainty=Certainty.LIKELY, variant="tiny", values={"what": model.name.rpartition(".")[2], "count": count},
                refs=(call.ref(), *((model.made.ref(),) if model.made else ()), *told),
            )  # fmt: skip
            return


def _single(script: Script, slow: bool) -> Iterator[Finding]:
    """A model that is asked for one sample at a time. Keras' predict() sets up a data pipeline at each call: its documentation sends
    small inputs in a loop to model(x). Other models only where they are small, and where somebody complains."""
    for call in distinct(script.calls(".predict")):
        alone = _alone(call, script)
        if call.loop is not None and is_keras(call.receiver) and (alone or slow):
            yield Finding(
                certainty=Certainty.LIKELY if alone else Certainty.POSSIBLE, severity=Severity.WARNING, variant="predict", subject=call.words(60), values={"code": call.words(60), "line": call.line},
                refs=(call.ref(),),
            )  # fmt: skip
            return
    timed = any(True for _ in script.calls(*CLOCKS))
    for call in distinct(script.calls("forward")) if slow or timed else ():
        model = call.receiver
        if not isinstance(model, Module) or call.at.frame.inside("forward") or call.loop is None or not _alone(call, script):
            continue
        if not slow and call.training_loop is None:
            continue  # what answers requests has one sample at a time
        count = parameters(script, model)
        light = (slow and is_keras(model)) or (0 < count <= (LIGHT if slow else FEW) and model.sure and may_be_gpu(model.where(call)) and known(script, model))
        if light and not any(True for _ in script.loaders):
            yield Finding(
                certainty=Certainty.LIKELY, variant="one", subject=call.words(60), values={"code": call.words(60), "line": call.line, "count": count or "?"},
                refs=(call.ref(), *((model.made.ref(),) if model.made else ())),
            )  # fmt: skip
            return


LIGHT = 1_000_000  # parameters: one sample is two million operations, some microseconds on any card


def _alone(call: Event, script: Script) -> bool:
    """Whether its input is one sample: x[np.newaxis, :], x[None], np.expand_dims(x, 0), x.reshape(1, -1), x.unsqueeze(0), np.array([x])."""
    node = call.given(0, "x")
    while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and isinstance(node.slice.elts[0], ast.Slice) and node.slice.elts[0].lower is None and node.slice.elts[0].upper is None:
        node = node.value  # x[:, :-1]: as many samples as x
    if isinstance(node, ast.Name):
        function = call.at.frame.function
        within = ast.walk(function.node if function else script.tree)
        given = [value for n in within if isinstance(n, ast.Assign) for target, value in _pairs(n) if isinstance(target, ast.Name) and target.id == node.id]
        return bool(given) and all(_one(value) for value in given[-1:])
    return node is not None and _one(node)


def _pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """(target, value) of a = b and of a, b = c, d."""
    first, value = node.targets[0], node.value
    if isinstance(first, ast.Tuple) and isinstance(value, ast.Tuple) and len(first.elts) == len(value.elts):
        return list(zip(first.elts, value.elts, strict=True))
    return [(target, value) for target in node.targets]


def _one(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        return (isinstance(first, ast.Constant) and first.value is None) or (isinstance(first, ast.Attribute) and first.attr == "newaxis")
    if isinstance(node, ast.List):
        return len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred)
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    given = [*node.args, *(k.value for k in node.keywords if k.arg in ("axis", "dim", "shape", "newshape"))]
    if name in ("expand_dims", "unsqueeze"):
        return bool(given) and isinstance(given[-1], ast.Constant) and given[-1].value == 0
    if name in ("reshape", "view"):
        parts = [part for one in given for part in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
        numbers = [part for part in parts if not isinstance(part, ast.Name | ast.Attribute)] if len(given) > 1 and isinstance(given[0], ast.Name) else parts
        return bool(numbers) and isinstance(numbers[0], ast.Constant) and numbers[0].value == 1
    if name in ("rand", "randn", "zeros", "ones", "empty"):  # made with the shape (1, n)
        shape = [part for one in node.args for part in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
        return len(shape) > 1 and isinstance(shape[0], ast.Constant) and shape[0].value == 1
    if name in ("randint", "full"):
        shapes = [one for one in (*node.args, *(k.value for k in node.keywords if k.arg == "size")) if isinstance(one, ast.Tuple | ast.List)]
        return bool(shapes) and len(shapes[0].elts) > 1 and isinstance(shapes[0].elts[0], ast.Constant) and shapes[0].elts[0].value == 1
    if name in ("array", "asarray", "constant", "tensor", "as_tensor", "convert_to_tensor"):
        return bool(node.args) and isinstance(node.args[0], ast.List) and _one(node.args[0])
    if name in ("to", "cuda", "float", "astype", "type"):
        return isinstance(node.func, ast.Attribute) and _one(node.func.value)
    return False


def _eager(script: Script) -> Iterator[Finding]:
    """A TensorFlow loop with its own gradients and no tf.function: each operation is launched from Python."""
    if "tensorflow" not in script.imports or script.says("tf.function", "@function", "run_functions_eagerly", "jit_compile"):
        return
    step = next((e for e in tf_steps(script) if e.name in (".gradient", ".apply_gradients") and e.loop is not None), None)
    if step is not None and isinstance(step.loop, Loop):
        yield Finding(certainty=Certainty.POSSIBLE, severity=Severity.NOTE, variant="eager", values={"code": step.words(60)}, refs=(step.ref(),))


def _in_profile(profile: Profile) -> Iterator[Finding]:
    """A timeline whose kernels are shorter than what it takes to launch them, with the GPU idle between them."""
    for gpu in profile.gpus:
        launch = next((wait for wait in gpu.waits if wait.cause == "launch"), None)
        if launch is None or launch.percent < 25 or gpu.kernels < 200 or launch.milliseconds > launch.gaps * 1.0:
            continue  # few long gaps are something else: a start, or host code
        small = 100 * gpu.small / gpu.kernels
        mean = 1000 * sum(one.milliseconds for one in gpu.families) / gpu.kernels
        if small < 40 and mean > 20:
            continue
        yield Finding(
            certainty=Certainty.LIKELY, subject=f"GPU {gpu.index}", variant="trace",
            values={
                "gpu": gpu.index, "share": f"{launch.percent:.0f}", "small": f"{small:.0f}", "kernels": gpu.kernels, "mean": f"{mean:.0f}",
                "each": f"{gpu.kernels / gpu.steps:.0f}" if gpu.steps else "?",
            },
            refs=gpu.why("launch"),
        )


def _in_run(run: DryRun) -> Iterator[Finding]:
    """From a dry run: hardly any matrix work in a pass of the loop."""
    each = run.devices.flop.get("cuda", 0.0) / max(1, run.turns)
    ops = run.devices.ops.get("cuda", 0) / max(1, run.turns)
    if run.ran and run.used_gpu and run.turns >= 2 and 0 < each < 1e8:
        yield Finding(severity=Severity.NOTE, certainty=Certainty.LIKELY, variant="run", values={"work": f"{each / 1e6:.3g}", "ops": f"{ops:.0f}"}, refs=run.heaviest())


RULE = Rule(
    slug="workload-too-small",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://keras.io/api/models/model_training_apis/#predict-method", "https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html", "https://github.com/DLR-RM/stable-baselines3/issues/849",),
    en=Text(
        title="Too little work in each step: a GPU cannot be faster here{gpu: (utilization * %)}",
        why="Each kernel launch costs some microseconds and each copy more. With a small network, a small batch or few threads {grid:(grid size *) }the GPU is done before the next launch arrives, and the CPU does the rest. The GPU is used; it is not at fault.",
        fix="Give it more per step: a larger batch, several steps fused (torch.compile, CUDA graphs, steps_per_execution), the data kept on the GPU, larger grids; or stay on the CPU for a model this small.",
    ),
    zh=Text(
        title="每步工作量太小：GPU 在这里快不起来{gpu:（利用率 * %）}",
        why="每次 kernel 发射要几微秒，拷贝更久。网络小、batch 小或线程少{grid:（grid size *）}时，GPU 在下一次发射到来前就做完了，其余时间都是 CPU 的。GPU 确实在用，没有故障。",
        fix="让每步做更多：增大 batch，把多步合并（torch.compile、CUDA graphs、steps_per_execution），数据常驻 GPU，增大 grid；模型这么小也可以直接用 CPU。",
    ),
    variants={
        "eager": (
            Text(
                title="This TensorFlow loop runs operation by operation ({code}): no tf.function",
                why="Outside of a graph each operation is launched from Python, which takes longer than many of them run; the GPU waits for launches.",
                fix="Put the step (forward, tape, apply_gradients) into a function under @tf.function; give it tensors, no changing Python numbers.",
            ),
            Text(
                title="这个 TensorFlow 循环逐个执行操作（{code}）：没有用 tf.function",
                why="不在图里时，每个操作都由 Python 发射，耗时往往比操作本身还长，GPU 在等发射。",
                fix="把一步（前向、tape、apply_gradients）放进 @tf.function 修饰的函数；参数传张量，不要传会变的 Python 数字。",
            ),
        ),
        "predict": (
            Text(
                title="{code} is called for one sample at a time, in a loop",
                why="model.predict() builds a data pipeline and runs callbacks at each call: milliseconds, before the GPU gets a few microseconds of work (line {line}). The GPU does next to nothing, and is not the fault.",
                fix="Call the model itself in a loop: model(x, training=False) (or a function under @tf.function around it), .numpy() on the result; or collect the samples and predict (and fit) them as one batch.",
            ),
            Text(
                title="在循环里对单个样本逐个调用 {code}",
                why="model.predict() 每次调用都要建立数据管线、运行回调：若干毫秒之后 GPU 才得到几微秒的活（第 {line} 行）。GPU 几乎没事做，但问题不在它。",
                fix="循环里直接调用模型：model(x, training=False)（或用 @tf.function 包住），结果再 .numpy()；或把样本攒成一个 batch 一次 predict（和 fit）。",
            ),
        ),
        "one": (
            Text(
                title="{code} runs a small network on one sample at a time{count: (about * parameters)}",
                why="Each call launches every layer for a single sample (line {line}); the launches take longer than the work, and the GPU waits for the next one.",
                fix="Collect the samples into a batch, step many environments at once, or run a network this small on the CPU; torch.compile(mode='reduce-overhead') or CUDA graphs where neither is possible.",
            ),
            Text(
                title="{code} 每次只对一个样本运行小网络{count:（约 * 个参数）}",
                why="每次调用都要为单个样本启动所有层（第 {line} 行）；启动时间超过计算本身，GPU 一直在等下一次。",
                fix="把样本攒成 batch，同时跑多个环境，或者这么小的网络就在 CPU 上跑；都做不到时用 torch.compile(mode='reduce-overhead') 或 CUDA graphs。",
            ),
        ),
        "tiny": (
            Text(
                title="{what} is too small for a GPU{count: (* numbers in all)}: a CPU may well need less time for it",
                why="Each operation on a GPU costs some microseconds to launch, whatever its size, and the first step compiles. With so few numbers that is nearly all of the time; a CPU has them in its cache.",
                fix="Stay on the CPU for a network this small (JAX_PLATFORMS=cpu, device='cpu'), or give the GPU far more per step: larger batches, many models at once (vmap), many steps in one call (lax.scan, CUDA graphs). Leave the first step out of a measurement, and wait for the result (block_until_ready, synchronize).",
            ),
            Text(
                title="{what} 对 GPU 来说太小{count:（总共 * 个数）}：CPU 用的时间很可能更短",
                why="GPU 上每个操作无论大小都要几微秒启动，第一步还要编译。数这么少时，时间几乎全花在这里；CPU 则全在缓存里。",
                fix="这么小的网络就用 CPU（JAX_PLATFORMS=cpu、device='cpu'），或让 GPU 每步做多得多的事：更大的 batch、同时算多个模型（vmap）、一次调用跑多步（lax.scan、CUDA graphs）。测量时去掉第一步，并等待结果（block_until_ready、synchronize）。",
            ),
        ),
        "source": (
            Text(
                title="{what} is little work for a GPU{count: (about * parameters)}",
                why="Each operation on a GPU costs some microseconds to launch, whatever its size. With so few weights and samples the card waits for launches; a CPU may well be as fast.",
                fix="Compare with device='cpu'. To make use of the card: larger batches, several environments or models at once (torch.func.vmap), torch.compile(mode='reduce-overhead') or CUDA graphs.",
            ),
            Text(
                title="{what} 对 GPU 来说工作量很小{count:（约 * 个参数）}",
                why="GPU 上每个操作无论大小都要花几微秒启动。权重和样本这么少时，显卡一直在等启动，CPU 可能一样快。",
                fix="用 device='cpu' 对比一下。要用好显卡：加大 batch，同时跑多个环境或模型（torch.func.vmap），torch.compile(mode='reduce-overhead') 或 CUDA graphs。",
            ),
        ),
        "run": (
            Text(
                title="A pass of the loop computes {work} MFLOP in {ops} operations: too little for a GPU to be faster",
                why="Each operation costs some microseconds of launch, whatever its size; with so little matrix work that is nearly all of the time.",
                fix="Give it more per step (a larger batch, torch.compile, CUDA graphs), or stay on the CPU for a model this small.",
            ),
            Text(
                title="循环每一轮只有 {work} MFLOP、{ops} 次运算：量太小，GPU 快不起来",
                why="每次运算的发射都要几微秒，与大小无关；矩阵运算这么少时，时间几乎全花在发射上。",
                fix="让每步做更多（更大的 batch、torch.compile、CUDA graphs），或者这么小的模型就用 CPU。",
            ),
        ),
        "trace": (
            Text(
                title="GPU {gpu} is idle {share} % of the time because the host launches kernels more slowly than they run",
                why="Of {kernels} kernels{each: (* a step)} {small} % take under 10 µs (the mean is {mean} µs): no longer than the host needs to launch one (5 to 10 µs, with the framework around it). The GPU is done before the next one comes; a faster card would change nothing.",
                fix="Give each kernel more work: a larger batch. Make them fewer: torch.compile (mode=\"reduce-overhead\" uses CUDA graphs), CUDA graphs, fused optimizers (fused=True), fused attention (scaled_dot_product_attention), no Python loops over small tensors. A profiler adds to the host's part: compare with the time of a step without it.",
            ),
            Text(
                title="GPU {gpu} 有 {share} % 的时间空闲，因为主机启动 kernel 比 kernel 运行还慢",
                why="{kernels} 个 kernel{each:（每步 * 个）}中有 {small} % 不足 10 微秒（平均 {mean} 微秒），不比主机启动一个 kernel 的开销（连同框架约 5 到 10 微秒）更长。下一个还没来，GPU 就已做完；换更快的卡没有用。",
                fix="让每个 kernel 的工作更多：加大 batch。减少 kernel 数：torch.compile（mode=\"reduce-overhead\" 使用 CUDA graph）、CUDA graph、融合优化器（fused=True）、融合注意力（scaled_dot_product_attention），不要用 Python 循环处理小张量。分析器本身会增加主机开销：请与不开分析器时的每步时间对比。",
            ),
        ),
        "slower": (
            Text(
                title="The same work takes {ratio} times as long on the GPU as on the CPU: there is too little of it per call",
                why="Each kernel launch and copy has a fixed cost (microseconds to milliseconds); with a small network, a batch of 1 or a few kB of data that cost outweighs the computing. The first calls also pay for start-up (context, cuDNN search, compilation): leave them out of a measurement, and synchronize.",
                fix="Run a model this small on the CPU, or give the GPU more per call: larger batches, predictions in one call, many environments at once, tf.function / torch.compile or CUDA graphs, data kept on the GPU.",
            ),
            Text(
                title="同样的工作在 GPU 上要花 CPU 的 {ratio} 倍时间：每次调用的工作量太小",
                why="每次 kernel 发射和拷贝都有固定开销（微秒到毫秒）；网络小、batch 为 1 或数据只有几 kB 时，这部分开销超过计算。最初几次调用还包含启动开销（上下文、cuDNN 搜索、编译）：测量时应去掉，并做同步。",
                fix="这么小的模型直接用 CPU，或让 GPU 每次做更多：增大 batch、一次调用完成多个预测、同时跑多个环境、tf.function / torch.compile 或 CUDA graphs、数据常驻 GPU。",
            ),
        ),
        "rl": (
            Text(
                title="The GPU is used, but the policy network is too small to keep it busy{gpu: (utilization * %)}",
                why="Most of the time goes into the environment (Python on the CPU) and many tiny forward passes; the process does hold memory on the GPU. Low utilization is expected.",
                fix="Train such small policies on the CPU (device='cpu'), which is often faster; or step many environments at once (SubprocVecEnv) with a larger batch_size and n_steps. A CNN policy is worth a GPU.",
            ),
            Text(
                title="GPU 在用，但策略网络太小，喂不饱它{gpu:（利用率 * %）}",
                why="大部分时间花在环境（CPU 上的 Python）和大量极小的前向上；进程确实在 GPU 上占有显存。利用率低是正常的。",
                fix="这种小策略直接在 CPU 上训练（device='cpu'），往往更快；或同时步进多个环境（SubprocVecEnv），增大 batch_size 和 n_steps。CNN 策略才值得用 GPU。",
            ),
        ),
    },
)
