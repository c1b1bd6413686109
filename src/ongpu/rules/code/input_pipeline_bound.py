"""The GPU waits for data.

More than 400 lines because each kind of evidence (logs, traces, source) has words of its own, in two languages.
"""

import ast
import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback, TrainingLog
from ongpu.facts.environment import Machine
from ongpu.facts.hardware import Gpus
from ongpu.facts.intent import goes_on
from ongpu.facts.profile import Profile
from ongpu.facts.program import Event, Program, Script, distinct
from ongpu.facts.python_profile import share as share_of
from ongpu.facts.samples import COSTLY, costly, makes_its_own, takes, whole_files
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.system import Processes
from ongpu.facts.traced import tf_steps
from ongpu.facts.trend import Trend
from ongpu.facts.values import CUDA, MAYBE, Function, Tensor
from ongpu.facts.waiting import of
from ongpu.knowledge.median import median
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text


def check(
    log: TrainingLog | None, symptoms: Symptoms | None, gpus: Gpus | None, processes: Processes | None, machine: Machine | None,
    traceback: Traceback | None, profile: Profile | None, program: Program | None, trend: Trend | None,
) -> Iterator[Finding]:
    yield from _live(trend)
    idle = symptoms.cite("gpu-idles-told", *(("low-utilization",) if _low(symptoms) else ()), "pauses-words", most=2) if symptoms else ()
    if program and idle and not traceback:
        yield from (finding for script in program.scripts for finding in (*_heavy(script, idle), *_generated(script, idle)))
    if program:
        yield from (finding for script in program.scripts for finding in (*_read_again(script), *_one_by_one(script), *_augmented(script), *(() if traceback else _pageable(script))))
    if profile:
        yield from _in_profile(profile)
    share = log.data_share() if log else None
    pauses = _pauses(log, gpus, symptoms)
    if pauses:
        yield Finding(
            certainty=Certainty.LIKELY, variant="pauses", values={"usual": f"{pauses[0]:.3g}", "longest": f"{pauses[1]:.3g}"},
            refs=(*(log.refs[:2] if log else ()), pauses[2], *(gpus.refs[:2] if gpus else ()), *(symptoms.cite("worker-words", most=2) if symptoms else ())),
        )
        return
    darknet = symptoms.cite("darknet-loading", most=2) if symptoms else ()
    if darknet:
        yield Finding(variant="darknet", refs=darknet)
        return
    slow_disk = symptoms.cite("disk-words", most=2) if symptoms else ()
    if share is not None and share > 0.3 and log:
        timed = [s for s in log.speeds if s.data_seconds is not None]
        yield Finding(
            certainty=Certainty.CERTAIN if share > 0.6 else Certainty.LIKELY,
            values={"share": f"{100 * share:.0f}", "seconds": f"{timed[0].seconds or 0:.3g}", "data": f"{timed[0].data_seconds or 0:.3g}"},
            refs=(*(s.ref for s in timed[:4]), *slow_disk),
        )
        return
    if symptoms is None or _failed(traceback):
        return
    loading, rows = share_of(symptoms, "cprofile-loading")
    if loading >= 40:
        what = next((words for key in ("line", "name", "what") if (words := rows[0].groups.get(key))), "input")
        yield Finding(certainty=Certainty.LIKELY, variant="profile", values={"share": f"{loading:.0f}", "what": what}, refs=tuple(row.ref for row in rows))
        return
    told = [h for h in symptoms.seen("profile-share") if float(h.groups.get("share", "0")) >= 40 and float(h.groups["share"]) <= 100]
    if symptoms.has("input-bound-words") and told:
        yield Finding(
            certainty=Certainty.LIKELY, variant="profile", values={"share": told[0].groups["share"], "what": told[0].groups.get("what", "input")},
            refs=(*(h.ref for h in told[:3]), *symptoms.cite("input-bound-words", most=2)),
        )
    elif symptoms.has("loader-freeze"):
        yield Finding(
            certainty=Certainty.LIKELY, variant="workers",
            values={"asked": symptoms.value("asked", "loader-freeze") or "?", "most": symptoms.value("most", "loader-freeze") or "?"},
            refs=symptoms.cite("loader-freeze", most=1),
        )
    elif symptoms.has("spawn-start", "persistent-words") and (symptoms.has("slow-words") or log):
        yield Finding(certainty=Certainty.LIKELY, variant="spawn", refs=symptoms.cite("spawn-start", "persistent-words", most=2))
    else:
        found = list(_idle(symptoms, gpus, slow_disk))
        fed = not (program and program.scripts and all(makes_its_own(script) for script in program.scripts))
        yield from found or (_told(symptoms, gpus) if fed and not symptoms.has("loading-denied") else ())


def _live(trend: Trend | None) -> Iterator[Finding]:
    """A running program that nobody instrumented: what its workers and its main thread do while its GPU has too little to do."""
    for one in of(trend, "loading"):
        yield Finding(
            subject=one.gpu.label, certainty=one.sure, severity=Severity.NOTE if one.sure is Certainty.POSSIBLE else None,
            variant=f"live-{one.kind}", values=one.figures, refs=one.refs, fixes=(Fix("profile-process", {"pid": one.figures["pid"]}),),
        )  # fmt: skip


def _heavy(script: Script, idle: tuple[Ref, ...]) -> Iterator[Finding]:
    """A GPU that is told to idle, and a loader with workers whose samples cost something."""
    for loader in script.loaders:
        cost = costly(script, loader)
        if cost is not None and loader.workers != 0 and any(takes(loop, loader) and loop.trains for loop in script.loops):
            yield Finding(
                subject=loader.made.words(60), certainty=Certainty.LIKELY, variant="heavy",
                values={"code": loader.made.words(60), "what": _place(cost) if isinstance(cost, Event) else cost, "workers": loader.workers or "?"},
                refs=(*idle, loader.made.ref(), *((cost.ref(),) if isinstance(cost, Event) else ())),
            )  # fmt: skip
            return


def _place(cost: Event) -> str:
    """ "librosa.load in Clips.__getitem__"."""
    function = cost.at.frame.function
    owner = f"{function.cls.name}." if function and function.cls else ""
    return f"{cost.name.lstrip('.')} in {owner}{cost.at.frame.name}"


def _generated(script: Script, idle: tuple[Ref, ...]) -> Iterator[Finding]:
    """tf.data.Dataset.from_generator over a Python generator that reads files: one thread, under Python's lock, whatever prefetch does."""
    for call in distinct(script.calls("tensorflow.data.Dataset.from_generator")):
        given = call.arg(0, "generator")
        if not isinstance(given, Function):
            continue
        inside = {id(node) for node in ast.walk(given.node)}
        cost = next((e for e in script.calls(*COSTLY) if id(e.node) in inside), None)
        if (idle or cost) and any(call.order < step.order for step in tf_steps(script)):
            yield Finding(
                subject=call.words(60), certainty=Certainty.LIKELY, variant="generator", severity=None if idle else Severity.NOTE,
                values={"code": call.words(60), "what": _place(cost) if cost else "?"}, refs=(call.ref(), *((cost.ref(),) if cost else ()), *idle),
            )  # fmt: skip
            return


def _read_again(script: Script) -> Iterator[Finding]:
    """A dataset whose __getitem__ reads a file that does not depend on the index: the whole of it for each sample."""
    for call in list(whole_files(script))[:1]:
        yield Finding(subject=call.words(), certainty=Certainty.LIKELY, variant="again", values={"code": call.words(60)}, refs=(call.ref(),))


FLOWS = (".flow", ".flow_from_directory", ".flow_from_dataframe")
READY_MADE = ("applications", "ResNet", "VGG", "Inception", "DenseNet", "EfficientNet", "MobileNet", "Xception", "from_pretrained", "hub.KerasLayer")
WARPS = (
    "rotation_range", "width_shift_range", "height_shift_range", "shear_range", "zoom_range", "channel_shift_range", "brightness_range",
    "preprocessing_function",
)  # fmt: skip


def _augmented(script: Script) -> Iterator[Finding]:
    """Keras' ImageDataGenerator that warps each picture with NumPy and SciPy: threads share Python's lock, so that more of them help little.
    A note only, where the network is one of the large ready-made ones: the GPU may well be the slower of the two."""
    large = script.says(*READY_MADE)
    for made in distinct(script.calls("keras.preprocessing.image.ImageDataGenerator", "keras.src.legacy.preprocessing.image.ImageDataGenerator")):
        warps = [name for name in WARPS if made.given(None, name) is not None and made.says(name) not in (0, 0.0, None)]
        flows = [e for e in script.calls(*FLOWS) if e.receiver is made.value]
        for fit in script.calls(".fit", ".fit_generator"):
            data = fit.arg(0, "x") or fit.arg(None, "generator")
            flow = next((e for e in flows if e.value is data), None)
            if flow is not None and warps and not fit.stars and fit.says("use_multiprocessing", False) is False:
                yield Finding(
                    subject=made.words(60), certainty=Certainty.LIKELY, severity=Severity.NOTE if large else None, variant="augmented", values={"what": ", ".join(warps[:3]), "code": fit.words(60)},
                    refs=(made.ref(), flow.ref(), fit.ref()),
                )  # fmt: skip
                return


DECODES = ("decode_", "read_file", "py_function", "numpy_function", "decode_raw", "parse_single_example")


def _one_by_one(script: Script) -> Iterator[Finding]:
    """tf.data that decodes its samples one after the other, and only when a step asks for them."""
    steps = list(tf_steps(script))
    if not steps or script.says("prefetch", "num_parallel_calls", "AUTOTUNE", "deterministic"):
        return
    for call in distinct(script.calls(".map")):
        given = call.arg(0, "map_func")
        words = ast.unparse(given.node) if isinstance(given, Function) else ""
        decodes = next((word for word in DECODES if word in words), "")
        if decodes and not call.stars and (fit := next((s for s in steps if call.order < s.order), None)):
            yield Finding(subject=call.words(), certainty=Certainty.LIKELY, variant="tf-data", values={"code": call.words(60)}, refs=(call.ref(), fit.ref()))
            return


def _pageable(script: Script) -> Iterator[Finding]:
    """A note on batches that workers make and the loop copies to CUDA from pageable memory, one after the other."""
    if script.managed:
        return
    for loader in script.loaders:
        if not loader.workers or loader.setting("pin_memory") is not None or loader.made.stars:
            continue
        moves = [
            e for e in distinct(script.calls(".to", ".cuda"))
            if isinstance(e.receiver, Tensor) and e.receiver.made is loader.made and e.training_loop and any(takes(loop, loader) for loop in e.at.loops)
            and isinstance(e.value, Tensor) and e.value.where in (CUDA, MAYBE) and "non_blocking" not in (e.kw or {})
        ]  # fmt: skip
        if moves:
            yield Finding(
                subject=loader.made.words(60), certainty=Certainty.POSSIBLE, severity=Severity.NOTE, variant="unpinned",
                values={"code": loader.made.words(60), "copies": moves[0].words(60)}, refs=(loader.made.ref(), *(e.ref() for e in moves[:3])),
                edits=(loader.made.file.argument(loader.made.call, "pin_memory=True"), *(e.file.argument(e.call, "non_blocking=True") for e in moves)),
            )  # fmt: skip


def _in_profile(profile: Profile) -> Iterator[Finding]:
    """A timeline in which the GPU runs nothing while the loader is waited for, or while data is copied from pageable memory."""
    for gpu in profile.gpus:
        share = gpu.wait("loading")
        longest = max((wait.longest for wait in gpu.waits if wait.cause == "loading"), default=0.0)
        if share >= 10:
            once = gpu.steps is not None and gpu.steps > 2 and longest > 0.8 * share * gpu.span / 100  # the workers' start
            yield Finding(
                certainty=Certainty.CERTAIN if share >= 30 and not once else Certainty.LIKELY, severity=Severity.NOTE if once else None,
                subject=f"GPU {gpu.index}", variant="trace",
                values={
                    "gpu": gpu.index, "share": f"{share:.0f}", "busy": f"{gpu.share(gpu.busy):.0f}", "longest": f"{longest:.3g}",
                    "most": "?" if gpu.loading_at_most is None else f"{gpu.loading_at_most:.1f}", "step": f"{gpu.step:.4g}" if gpu.step else "?",
                },
                refs=(*gpu.why("loading"), *((gpu.loading_ref,) if gpu.loading_ref else ())),
            )
        pageable = [one for one in gpu.copies if "Pageable -> Device" in one.name]
        copying = gpu.share(gpu.copy_alone)
        if copying >= 10 and pageable and pageable[0].milliseconds > 0.5 * gpu.copy_alone:
            yield Finding(
                certainty=Certainty.LIKELY, subject=f"GPU {gpu.index}", variant="pageable",
                values={"gpu": gpu.index, "share": f"{copying:.0f}", "number": pageable[0].count, "milliseconds": f"{pageable[0].milliseconds:.4g}"},
                refs=(gpu.ref, pageable[0].ref),
            )


def _pauses(log: TrainingLog | None, gpus: Gpus | None, symptoms: Symptoms | None) -> tuple[float, float, Ref] | None:
    """(usual, longest) seconds of a step, where a later one takes ten times the usual and the GPU is idle or workers are told of."""
    timed = [s for s in log.speeds if s.seconds] if log else []
    if len(timed) < 5:
        return None
    usual = median(s.seconds or 0 for s in timed)
    longest = max(timed[1:], key=lambda s: s.seconds or 0)
    idle = bool(gpus and gpus.gpus and all((g.utilization if g.utilization is not None else 100) < 40 for g in gpus.gpus))
    if (longest.seconds or 0) < 10 * usual or not (idle or (symptoms and symptoms.has("worker-words", "disk-words"))):
        return None
    return usual, longest.seconds or 0, longest.ref


def _told(symptoms: Symptoms, gpus: Gpus | None) -> Iterator[Finding]:
    """A GPU that idles, or steps that pause, in the user's words, beside words about data; or data told to be slow."""
    busy = any((g.utilization or 0) > 80 for g in gpus.gpus) if gpus else False
    shown = symptoms.value("gpu", "low-utilization")
    busy = busy or bool(shown and int(shown) >= 70)
    idle = (*symptoms.cite("gpu-idles-told", most=2), *(symptoms.cite("low-utilization", most=1) if _low(symptoms) else ()))
    pauses = symptoms.cite("pauses-words", most=2)
    data, slow = symptoms.cite("data-words", most=2), symptoms.cite("data-slow-words", most=2)
    if busy or symptoms.has("gpu-slower-told", "sb3-on-gpu", "small-on-gpu", "gpu-not-seen") or symptoms.has("nccl-timeout-line", "p2p-disable-used", "harmless-k8s-offers", "harmless-tegrastats"):
        return
    if goes_on(symptoms) and not idle and not pauses and all(hit.ref in symptoms.cite("many-workers-warning") for hit in symptoms.seen("data-slow-words")):
        return  # a hint of the library, not a complaint
    bare = symptoms.cite("low-while-training", most=2)
    if bare and not data and not pauses and not slow and not symptoms.has("tiny-work", "sync-told", "small-on-gpu", "gpu-idle-complaint"):
        yield Finding(certainty=Certainty.POSSIBLE, variant="told", refs=tuple(dict.fromkeys((*bare, *idle))))
        return
    if (idle and (data or pauses)) or (pauses and data) or (slow and (symptoms.has("slow-words", "gpu-idles-told", "low-utilization") or any(re.search(r"\d ?(?:%|ms\b|s\b)", ref.quote) for ref in slow))):
        sure = bool(idle or slow)
        yield Finding(
            certainty=Certainty.LIKELY if sure else Certainty.POSSIBLE, variant="told",
            refs=tuple(dict.fromkeys((*idle, *pauses, *slow, *data, *symptoms.cite("worker-words", most=1)))),
        )


def _low(symptoms: Symptoms) -> bool:
    """Whether a utilization below 50 % is told."""
    told = symptoms.value("gpu", "low-utilization") or symptoms.value("gpu2", "low-utilization")
    return told is not None and int(told) < 50


def _failed(traceback: Traceback | None) -> bool:
    return traceback is not None and any(r.error for r in traceback.raised)


def _idle(symptoms: Symptoms, gpus: Gpus | None, slow_disk: tuple[Ref, ...]) -> Iterator[Finding]:
    """A GPU that does little beside a busy processor."""
    shown = [g.utilization for g in gpus.gpus if g.utilization is not None] if gpus else []
    hint = symptoms.value("gpu", "low-utilization")
    low = (max(shown) if shown else int(hint) if hint else 100) < 40
    busy = [h for h in symptoms.seen("cpu-busy-python") if float(h.groups.get("cpu", "0")) >= 90]
    full = symptoms.cite("disk-saturated", most=2)
    if low and busy:
        yield Finding(
            certainty=Certainty.LIKELY, variant="cpu",
            values={"cpu": busy[0].groups["cpu"], "gpu": max(shown) if shown else hint or "?"},
            refs=(*(h.ref for h in busy[:2]), *(gpus.refs[:2] if gpus else ()), *symptoms.cite("low-utilization", most=1)),
        )
    elif full and low:
        yield Finding(
            certainty=Certainty.LIKELY, variant="full-disk", values={"gpu": max(shown) if shown else hint or "?"},
            refs=(*full, *(gpus.refs[:3] if gpus else ()), *symptoms.cite("low-utilization", most=1)),
        )
    elif slow_disk and (low or hint) and symptoms.has("slow-words"):
        yield Finding(certainty=Certainty.LIKELY, variant="disk", values={"gpu": max(shown) if shown else hint or "?"}, refs=(*slow_disk, *symptoms.cite("slow-words", most=1)))


RULE = Rule(
    slug="input-pipeline-bound",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    hides=("workload-too-small",),
    see=("https://docs.pytorch.org/docs/stable/data.html", "https://github.com/pytorch/pytorch/issues/680",),
    en=Text(
        title="The GPU waits for data: {share} % of each step goes into loading ({data} s of {seconds} s)",
        why="The log tells the time of a step and how much of it was spent waiting for the next batch. Reading (a hard disk's random reads, a network drive), decoding and augmenting on too few CPU cores are the limit; a faster GPU changes nothing.",
        fix="Put the data on an SSD or in RAM, or store it in large sequential files (WebDataset, LMDB, TFRecord); raise num_workers to the number of CPU cores, with persistent_workers=True, pin_memory=True, prefetch_factor; decode smaller images (resize beforehand) or on the GPU (DALI, torchvision.io). If more workers change nothing, the disk is the limit: iostat -x 1.",
    ),
    zh=Text(
        title="GPU 在等数据：每步有 {share} % 的时间花在加载上（{seconds} 秒中的 {data} 秒）",
        why="日志给出了每步时间和其中等待下一个 batch 的时间。瓶颈是读取（机械硬盘随机读、网络盘）、解码和数据增强的 CPU 核不够；换更快的 GPU 没有用。",
        fix="把数据放到 SSD 或内存，或存成大的顺序文件（WebDataset、LMDB、TFRecord）；把 num_workers 提到 CPU 核数，配合 persistent_workers=True、pin_memory=True、prefetch_factor；预先缩小图像，或在 GPU 上解码（DALI、torchvision.io）。如果加 worker 没有变化，瓶颈就是磁盘：iostat -x 1。",
    ),
    variants={
        "augmented": (
            Text(
                title="ImageDataGenerator warps each picture on the CPU ({what}) while the GPU waits",
                why="The generator rotates, shifts or zooms picture by picture with NumPy and SciPy in threads of the training process (\"{code}\", use_multiprocessing off), which share Python's lock: a small network trains a batch faster than the next one is made.",
                fix="Augment on the GPU with Keras layers (RandomRotation, RandomTranslation, RandomFlip) or in tf.data with num_parallel_calls=tf.data.AUTOTUNE and prefetch; or use_multiprocessing=True with more workers; or make the augmented pictures beforehand.",
            ),
            Text(
                title="ImageDataGenerator 在 CPU 上逐张做变换（{what}），GPU 在等",
                why="生成器用 NumPy 和 SciPy 逐张旋转、平移或缩放，在训练进程的线程里进行（“{code}”，未开 use_multiprocessing），线程共用 Python 的锁：小网络训练一个 batch 的时间比准备下一个还短。",
                fix="用 Keras 层在 GPU 上增强（RandomRotation、RandomTranslation、RandomFlip），或用 tf.data（num_parallel_calls=tf.data.AUTOTUNE、prefetch）；或 use_multiprocessing=True 并增加 worker；或事先生成增强后的图片。",
            ),
        ),
        "live-workers": (
            Text(
                title="GPU {gpu} is busy only {use} % of the time: the {workers} worker processes of {program} are full ({cpu} % of a core each)",
                why="They never rest, so the loop waits for them: decoding and augmenting (or the environments that they simulate) are slower than the GPU. Were the GPU the limit, they would sleep with their queues full.",
                fix="More workers, while cores are free{cores: (* here)}: num_workers, persistent_workers=True, prefetch_factor=4. Less work for each: images resized and decoded beforehand, a faster decoder (torchvision.io, pillow-simd, NVIDIA DALI, nvJPEG), augmentation on the GPU (torchvision.transforms.v2, kornia). py-spy top --pid of a worker names the function.",
            ),
            Text(
                title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 的 {workers} 个 worker 进程已满载（每个占 {cpu} % 的核）",
                why="它们一直不休息，说明循环在等它们：解码和增强（或它们模拟的环境）比 GPU 慢。如果瓶颈是 GPU，它们会因队列已满而休眠。",
                fix="还有空闲的核{cores:（本机 * 个）}就增加 worker：num_workers、persistent_workers=True、prefetch_factor=4。减少每个 worker 的工作：预先缩放和解码图像，用更快的解码（torchvision.io、pillow-simd、NVIDIA DALI、nvJPEG），把增强放到 GPU 上（torchvision.transforms.v2、kornia）。对某个 worker 执行 py-spy top --pid 能看出是哪个函数。",
            ),
        ),
        "live-starved": (
            Text(
                title="GPU {gpu} is busy only {use} % of the time: the {workers} worker processes of {program} share too few cores ({spent} in use)",
                why="The workers are ready to run at nearly every look, and each gets only {cpu} % of a core{cores: (* cores may be used here)}: there are more of them than cores, the job's CPU quota is used up, or other programs have the cores (top -o %CPU). More workers would change nothing.",
                fix="Ask for more cores (--cpus-per-task, --cpus, resources.limits.cpu), and set num_workers to that number; OMP_NUM_THREADS=1 in the workers. Or make loading cheaper: data decoded beforehand, decoding and augmentation on the GPU (DALI).",
            ),
            Text(
                title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 的 {workers} 个 worker 进程分不到足够的核（共用 {spent} 个）",
                why="几乎每次观察时 worker 都在等待运行，每个却只得到 {cpu} % 的核{cores:（本机可用 * 个核）}：worker 比核多、作业的 CPU 配额已用完，或核被其他程序占着（top -o %CPU）。再加 worker 没有用。",
                fix="申请更多的核（--cpus-per-task、--cpus、resources.limits.cpu），num_workers 设为该数；worker 里设 OMP_NUM_THREADS=1。或降低加载开销：预先解码，把解码和增强放到 GPU（DALI）。",
            ),
        ),
        "live-main": (
            Text(
                title="GPU {gpu} is busy only {use} % of the time: {program} seems to load its data in its own thread ({cpu} % of a core, {rate} MB/s read)",
                why="One thread is full, it reads data all the time, and there are no loader workers at work: reading, decoding and augmenting happen between the steps, while the GPU waits.",
                fix="num_workers = CPU cores a GPU (4 to 16), pin_memory=True, persistent_workers=True (Trainer: dataloader_num_workers; tf.data: num_parallel_calls and prefetch). py-spy top --pid {pid} shows whether it is loading.",
            ),
            Text(
                title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 看来在自己的线程里加载数据（占 {cpu} % 的核，读取 {rate} MB/s）",
                why="一个线程满载并一直在读数据，又没有加载 worker 在工作：读取、解码和增强都在两步之间进行，GPU 在等。",
                fix="num_workers 设为每块 GPU 的 CPU 核数（4 到 16），pin_memory=True、persistent_workers=True（Trainer：dataloader_num_workers；tf.data：num_parallel_calls 和 prefetch）。py-spy top --pid {pid} 可看出是不是在加载。",
            ),
        ),
        "live-threads": (
            Text(
                title="GPU {gpu} is busy only {use} % of the time: the threads of {program} use {threads} of {cores} cores",
                why="All the cores that it may use are taken by its own threads (tf.data, DALI on the CPU, OpenMP, decoding), and the GPU is done before they are.",
                fix="More cores for the job, or less work for them: data decoded and resized beforehand, cache() in tf.data, decoding and augmentation on the GPU. py-spy top --native --pid {pid} or perf top -p {pid} shows where the time goes.",
            ),
            Text(
                title="GPU {gpu} 只有 {use} % 的时间在忙：{program} 的线程已用掉 {cores} 个核中的 {threads} 个",
                why="它能用的核都被自己的线程占满（tf.data、CPU 上的 DALI、OpenMP、解码），GPU 总是先做完。",
                fix="给作业更多的核，或减少它们的工作：预先解码和缩放，tf.data 用 cache()，把解码和增强放到 GPU 上。py-spy top --native --pid {pid} 或 perf top -p {pid} 可看出时间花在哪里。",
            ),
        ),
        "heavy": (
            Text(
                title="The GPU idles, and the samples of {code} cost time: {what}{workers: (* workers)}",
                why="Each sample is read, decoded and changed on the CPU. Where the workers make fewer batches than the GPU uses up, it waits.",
                fix="More workers (up to the CPU cores of each GPU), persistent_workers=True, prefetch_factor=4; smaller stored files (resized pictures, shards), a faster decoder (torchvision.io, NVIDIA DALI, nvJPEG), augmentation on the GPU. py-spy on a worker shows what takes the time.",
            ),
            Text(
                title="GPU 空闲，而 {code} 的样本要花时间：{what}{workers:（* 个 worker）}",
                why="每个样本都在 CPU 上读取、解码和变换。worker 产出的 batch 赶不上 GPU 的消耗时，GPU 就要等。",
                fix="增加 worker（最多到每块 GPU 的 CPU 核数），persistent_workers=True、prefetch_factor=4；存小一些的文件（缩放后的图片、分片），用更快的解码（torchvision.io、NVIDIA DALI、nvJPEG），把增强放到 GPU 上。对某个 worker 用 py-spy 可看出时间花在哪里。",
            ),
        ),
        "generator": (
            Text(
                title="{code} feeds the GPU from one Python generator{what:: *}",
                why="A generator runs in one thread and holds Python's lock: samples are read and converted one after the other, on one core; prefetch() only moves the wait, num_parallel_calls behind it does not help the generator itself.",
                fix="Let the dataset hold the file names, and read them with .map(read, num_parallel_calls=tf.data.AUTOTUNE) or .interleave(...), then .prefetch(tf.data.AUTOTUNE); or write TFRecords once. For a generator that must stay: several of them, interleaved.",
            ),
            Text(
                title="{code} 用一个 Python 生成器给 GPU 供数据{what:：*}",
                why="生成器只在一个线程里运行并占着 Python 的锁：样本在一个核上逐个读取和转换；prefetch() 只是把等待挪个位置，后面的 num_parallel_calls 也帮不了生成器本身。",
                fix="让数据集只存文件名，用 .map(read, num_parallel_calls=tf.data.AUTOTUNE) 或 .interleave(...) 读取，再 .prefetch(tf.data.AUTOTUNE)；或一次性写成 TFRecord。生成器必须保留时，就用多个并 interleave。",
            ),
        ),
        "again": (
            Text(
                title="{code} reads the same file anew for every sample",
                why="It stands in __getitem__, and what it reads does not depend on the index: the whole file is read and parsed once a sample, in every worker, and the GPU waits for it.",
                fix="Read it once in __init__ (or at the first access, for files that cannot be handed to workers), and index it in __getitem__; for large arrays np.load(..., mmap_mode='r').",
            ),
            Text(
                title="{code} 每取一个样本都重新读取同一个文件",
                why="它写在 __getitem__ 里，而读取的内容与下标无关：每个样本、每个 worker 都要把整个文件读取并解析一遍，GPU 就在等它。",
                fix="在 __init__ 里只读一次（不能传给 worker 的文件在首次访问时打开），__getitem__ 里只取下标；大数组用 np.load(..., mmap_mode='r')。",
            ),
        ),
        "tf-data": (
            Text(
                title="{code} decodes samples one after the other, while the GPU waits",
                why="Without num_parallel_calls tf.data runs the function on one thread, and without prefetch it starts on a batch only when the step asks for it.",
                fix=".map(f, num_parallel_calls=tf.data.AUTOTUNE) and .prefetch(tf.data.AUTOTUNE) at the end; .cache() after decoding, where the data fits in memory.",
            ),
            Text(
                title="{code} 逐个解码样本，这期间 GPU 在等",
                why="不设 num_parallel_calls 时，tf.data 只用一个线程执行该函数；没有 prefetch 时，要等到某一步来取才开始准备 batch。",
                fix="用 .map(f, num_parallel_calls=tf.data.AUTOTUNE)，末尾加 .prefetch(tf.data.AUTOTUNE)；数据放得进内存时，解码之后加 .cache()。",
            ),
        ),
        "unpinned": (
            Text(
                title="The batches of {code} lie in pageable memory, so {copies} blocks",
                why="From pageable memory the driver first copies into its own buffer, and Python waits. From pinned memory the copy runs beside the computation.",
                fix="pin_memory=True for the loader and .to(device, non_blocking=True) for its batches. It gains where batches are large; measure.",
            ),
            Text(
                title="{code} 的 batch 在可分页内存里，因此 {copies} 会阻塞",
                why="从可分页内存复制时，驱动要先拷到自己的缓冲区，Python 只能等待。从锁页内存复制可与计算同时进行。",
                fix="加载器设 pin_memory=True，batch 用 .to(device, non_blocking=True)。batch 大时才有收益，请实测。",
            ),
        ),
        "trace": (
            Text(
                title="GPU {gpu} ran nothing for {share} % of the time while the loop waited for the next batch",
                why="The trace shows the GPU busy {busy} % of the time, and idle while the thread that feeds it stands in the data loader (longest wait {longest} ms{step:, a step takes * ms}). {most:Were loading free, a step would take at most * % less: the other work of host and GPU stays.|}",
                fix="More worker processes (num_workers, persistent_workers=True, prefetch_factor) and pin_memory=True; cheaper decoding and augmentation, or on the GPU (DALI, torchvision.transforms.v2); data resized beforehand, in large sequential files or in RAM. If the first batch alone is slow, that is the start of the workers: persistent_workers=True.",
            ),
            Text(
                title="GPU {gpu} 有 {share} % 的时间空转，因为循环在等下一个 batch",
                why="trace 显示 GPU 只有 {busy} % 的时间在忙；空闲时，下发工作的线程正停在数据加载器里（最长一次 {longest} 毫秒{step:，每步 * 毫秒}）。{most:若加载不耗时，每步最多快 * %：主机与 GPU 的其他工作不变。|}",
                fix="增加 worker 进程（num_workers、persistent_workers=True、prefetch_factor），设 pin_memory=True；降低解码和增强的开销，或放到 GPU 上（DALI、torchvision.transforms.v2）；预先缩放数据，存成大的顺序文件或放进内存。如果只有第一个 batch 慢，那是 worker 在启动：persistent_workers=True。",
            ),
        ),
        "pageable": (
            Text(
                title="GPU {gpu} spends {share} % of the time on copies while it computes nothing, from pageable memory",
                why="{number} copies from ordinary (pageable) memory took {milliseconds} ms. CUDA stages them through a small buffer and the host waits, so they cannot overlap with kernels.",
                fix="DataLoader(pin_memory=True) and x.to(device, non_blocking=True); copy the next batch on another stream; send uint8 or fewer bytes and convert on the GPU.",
            ),
            Text(
                title="GPU {gpu} 有 {share} % 的时间只在拷贝（来自可分页内存），没有计算",
                why="{number} 次来自普通（可分页）内存的拷贝耗时 {milliseconds} 毫秒。CUDA 要经过小缓冲区中转，主机也要等待，所以无法与 kernel 重叠。",
                fix="DataLoader(pin_memory=True) 配合 x.to(device, non_blocking=True)；在另一个流上拷贝下一个 batch；传 uint8 或更少的字节，到 GPU 上再转换。",
            ),
        ),
        "told": (
            Text(
                title="The GPU idles between bursts of work: it seems to wait for data from the CPU or the disk",
                why="A GPU that is idle most of the time, or steps that pause regularly, beside reading, decoding or augmenting of data: each batch is prepared more slowly than the GPU computes it. A very small model looks alike; the time of the loader alone tells them apart.",
                fix="Time the loop over the DataLoader without the model. If it is slow: more CPU cores and num_workers (persistent_workers=True, pin_memory=True, prefetch_factor), images resized and decoded beforehand, an SSD or RAM, large sequential files (LMDB, WebDataset, TFRecord), GPU decoding and augmentation (DALI, kornia).",
            ),
            Text(
                title="GPU 一阵忙一阵闲：看起来在等 CPU 或磁盘的数据",
                why="GPU 大部分时间空闲，或每隔几步就停顿，同时提到了读取、解码或增强数据：准备一个 batch 比 GPU 计算它更慢。模型极小时现象相同；单独给加载器计时即可区分。",
                fix="去掉模型，只遍历 DataLoader 计时。若确实慢：增加 CPU 核和 num_workers（persistent_workers=True、pin_memory=True、prefetch_factor），提前缩放和解码图像，用 SSD 或内存，打包成大的顺序文件（LMDB、WebDataset、TFRecord），在 GPU 上解码和增强（DALI、kornia）。",
            ),
        ),
        "pauses": (
            Text(
                title="Most steps take {usual} s, then one takes {longest} s: the loader's workers cannot keep up",
                why="The workers hand over what they have prepared, then all steps wait until they have the next batches. The GPU is idle in the pauses; reading from disk, decoding and augmenting set the pace.",
                fix="Faster storage (SSD, or data in RAM), smaller or pre-resized images, more CPU cores with more workers (num_workers, prefetch_factor), cheaper or GPU-side augmentation (DALI, kornia).",
            ),
            Text(
                title="大多数步只要 {usual} 秒，随后某一步要 {longest} 秒：加载器的 worker 跟不上",
                why="worker 把准备好的 batch 用完后，后面的步都要等下一批。停顿期间 GPU 空闲；瓶颈是读盘、解码和数据增强。",
                fix="更快的存储（SSD 或把数据放进内存）、更小或预先缩放的图像、更多 CPU 核与 worker（num_workers、prefetch_factor）、更便宜的或在 GPU 上做的增强（DALI、kornia）。",
            ),
        ),
        "darknet": (
            Text(
                title="Darknet itself reports a performance bottleneck on CPU or disk: loading takes longer than the GPU's part",
                why="Each batch has to be read, decoded and augmented on the CPU before the GPU gets it.",
                fix="Build with OPENCV=1, put the images on an SSD, resize them beforehand, use less augmentation (mosaic, cutmix), and more CPU cores.",
            ),
            Text(
                title="Darknet 自己报告性能瓶颈在 CPU 或磁盘：加载比 GPU 计算还久",
                why="每个 batch 都要先在 CPU 上读取、解码、增强，GPU 才能拿到。",
                fix="用 OPENCV=1 编译，把图像放到 SSD 并预先缩放，减少数据增强（mosaic、cutmix），增加 CPU 核数。",
            ),
        ),
        "profile": (
            Text(
                title="The program is input-bound: {share} % of the time goes into {what}",
                why="The profile shows the training loop waiting for the next batch; the GPU is idle meanwhile.",
                fix="Raise num_workers (persistent_workers=True, pin_memory=True, prefetch_factor), in TensorFlow dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE) and cache(); move data to a faster disk; preprocess beforehand.",
            ),
            Text(
                title="程序受限于输入：{share} % 的时间花在 {what}",
                why="性能分析显示训练循环在等下一个 batch，GPU 此时空闲。",
                fix="提高 num_workers（persistent_workers=True、pin_memory=True、prefetch_factor）；TensorFlow 用 dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE) 和 cache()；数据放到更快的磁盘；提前做好预处理。",
            ),
        ),
        "workers": (
            Text(
                title="The loader starts {asked} workers where the system suggests at most {most}",
                why="More workers than CPU cores fight for them; loading becomes slow or freezes, and the GPU waits. In a container or batch job the number of cores is what was asked for (cpus-per-task), not the machine's.",
                fix="num_workers={most} (len(os.sched_getaffinity(0))), or ask for more CPU cores (--cpus, --cpus-per-task).",
            ),
            Text(
                title="加载器启动了 {asked} 个 worker，而系统建议最多 {most} 个",
                why="worker 多于 CPU 核数会互相争抢，加载变慢甚至卡住，GPU 只能等。在容器或作业里，核数是申请到的（cpus-per-task），不是整机的。",
                fix="num_workers={most}（len(os.sched_getaffinity(0))），或申请更多 CPU 核（--cpus、--cpus-per-task）。",
            ),
        ),
        "spawn": (
            Text(
                title="Every epoch begins with a pause: the loader's workers are started anew",
                why="On Windows and macOS workers are spawned: each imports everything and receives the data set again at every epoch.",
                fix="DataLoader(..., persistent_workers=True) keeps them (with num_workers > 0); make the data set small to pickle; on Linux with fork there is little to gain.",
            ),
            Text(
                title="每个 epoch 开头都停顿：加载器的 worker 被重新启动",
                why="在 Windows 和 macOS 上 worker 以 spawn 方式启动：每个 epoch 都要重新导入一切、重新接收数据集。",
                fix="DataLoader(..., persistent_workers=True) 让 worker 保留（需 num_workers > 0）；让数据集易于 pickle；Linux 上用 fork 时收益不大。",
            ),
        ),
        "cpu": (
            Text(
                title="The CPU is the limit: a Python process at {cpu} % CPU while the GPU is at {gpu} %",
                why="One core that is full (100 %) means one Python thread does the work between GPU steps: loading and augmenting in the main process, a simulated environment (reinforcement learning), tokenizing, or plotting. The GPU waits for it.",
                fix="Move that work into parallel processes: DataLoader num_workers, vectorised environments (SubprocVecEnv, AsyncVectorEnv), map with num_proc; or make it cheaper. py-spy top --pid shows which function it is.",
            ),
            Text(
                title="瓶颈在 CPU：Python 进程占 {cpu} % CPU，而 GPU 只有 {gpu} %",
                why="一个核满载（100 %）说明 GPU 步骤之间的工作由一个 Python 线程完成：主进程里加载和增强、仿真环境（强化学习）、分词或画图。GPU 在等它。",
                fix="把这些工作放到并行进程：DataLoader 的 num_workers、向量化环境（SubprocVecEnv、AsyncVectorEnv）、带 num_proc 的 map；或降低其开销。py-spy top --pid 能看到是哪个函数。",
            ),
        ),
        "full-disk": (
            Text(
                title="The disk is busy all the time (iowait, %util) while the GPU is at {gpu} %: data cannot be read as fast as it is used",
                why="The processor waits for storage (iowait) and the GPU for the processor. Many small files read in random order keep even a fast disk busy with few MB/s; more workers only queue up behind it.",
                fix="Copy the data to a local SSD (NVMe) or into RAM (/dev/shm, a cache in the data set), or pack the small files into large sequential ones (WebDataset, LMDB, TFRecord).",
            ),
            Text(
                title="磁盘一直满载（iowait、%util），而 GPU 利用率只有 {gpu} %：数据读得没有用得快",
                why="CPU 在等存储（iowait），GPU 在等 CPU。随机读取大量小文件时，即使快盘也只有几 MB/s；增加 worker 只会在磁盘后面排队。",
                fix="把数据复制到本地 SSD（NVMe）或内存（/dev/shm、数据集缓存），或把小文件打包成大的顺序文件（WebDataset、LMDB、TFRecord）。",
            ),
        ),
        "disk": (
            Text(
                title="Data comes from slow storage while the GPU is at {gpu} %",
                why="Hard disks, network drives, mounted Google Drive and /mnt/c under WSL serve many small files slowly; the GPU waits.",
                fix="Copy the data to a local SSD or RAM first (/content in Colab, ~/ in WSL, $SLURM_TMPDIR), or pack it into large sequential files; then raise num_workers.",
            ),
            Text(
                title="数据来自慢速存储，GPU 利用率只有 {gpu} %",
                why="机械硬盘、网络盘、挂载的 Google Drive、WSL 下的 /mnt/c 读取大量小文件都很慢，GPU 只能等。",
                fix="先把数据复制到本地 SSD 或内存（Colab 的 /content、WSL 的 ~/、$SLURM_TMPDIR），或打包成大的顺序文件；再提高 num_workers。",
            ),
        ),
    },
)
