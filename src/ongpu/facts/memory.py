"""Who is to blame for running out of GPU memory: the arithmetic of the message beside the course of the run."""

import re
from collections.abc import Sequence
from itertools import pairwise

from ongpu.facts.code import Frame, Oom, OutOfMemory, Traceback, TrainingLog
from ongpu.facts.hardware import Gpus
from ongpu.facts.system import Process, Processes
from ongpu.lazy import lazy
from ongpu.model import Certainty, Ref

LARGEST_CARD = 300.0  # GiB: no single GPU has more (B300: 288 GB); a single request beyond it fits none
CONTEXT = 1.5  # GiB that a CUDA context and libraries may hold beside PyTorch's own count

_LOADING = (
    "from_pretrained", "load_state_dict", "torch.load", "modeling_utils.py", "load_model", "_apply(",
    "in _apply", ".cuda(", ".to(device",
    "model_loader", "load_weights", "serialization.py", "accelerate/utils/modeling.py",
    "set_module_tensor_to_device", "convert(t)",
    "lambda t: t.cuda", "lambda t: t.to", "create_weights", "LlamaForCausalLM(", "init_model",
    "initialize_model", "__init__.py\", in cuda",
    "pipe.to(", "model.to(", "ModelPatcher", "load_models_gpu", "self.model.half(",
)
_STEPPING = ("/optim/", "optimizer.step", "exp_avg", "_init_group", "optimizer_state", "\\optim\\", "opt.step(", "init_state")
_BACKWARD = (".backward(", "autograd/__init__.py", "backward(")
_EVAL = (
    "evaluate", "validate", "valid_epoch", "val_epoch", "validation", "eval_epoch", "eval_model", "def test", "inference", "predict",
    "test_epoch",
)
_GRAD_FREE = ("no_grad", "inference_mode", "grad_mode.py", "_contextlib.py", "decorate_context", "decorate_no_grad")
_GATHER = (
    "nested_concat", "torch_pad_and_concatenate", "evaluation_loop", "all_preds", "all_outputs", "preds.append", "outputs.append", "pad_across_processes",
    "logits if preds_host", "preds if preds is None", "logits if preds is None", "prediction_loop", "torch.cat((preds", "torch.cat([preds",
    "logits.append", "features.append", "feats.append", "embeddings.append", "results.append", "torch.cat(all_", "torch.cat(outputs",
    "torch.cat(preds", "torch.cat(feat", "torch.cat(embed", "torch.cat(logits", "torch.stack(outputs", "torch.cat(self.all_",
)
_PARALLEL = ("parallel/scatter_gather.py", "data_parallel.py", "comm.py", "nn.DataParallel", "parallel/replicate.py")
_RESTORE = ("_cuda_deserialize", "restore_location", "default_restore_location", "torch.load(", "serialization.py")
# Calls that allocate nothing: where they run out of memory, not even a context found room on the card.
_CONTEXT = ("in empty_cache", "cuda.empty_cache()", " empty_cache ", "_lazy_init", "_cuda_init", "cuda.set_device(", " synchronize ", "_cuda_synchronize", "cuda.init()")
_LARGE_MODEL = lazy(
    r"\b(?:7|8|12|13|14|20|22|30|32|33|34|40|65|70|72|110|120|123|180|235|405|671)b\b",
    re.IGNORECASE,
)
_BATCH_ONE = lazy(r"batch[ _-]?size\W{0,3}(?:of |is |to |=)?\s?1\b|batch of 1\b|even with (?:a )?batch|(?:load\w*|from_pretrained)\b", re.IGNORECASE)


def _through(traceback: Traceback | None, words: Sequence[str]) -> bool:
    return traceback is not None and any(r.through(*words) for r in traceback.raised)


def without_room(error: Oom, traceback: Traceback | None) -> Frame | None:
    """The frame that could not even make a CUDA context: an error without figures, in a call that allocates nothing."""
    if error.wanted is not None or error.total is not None or error.kind or traceback is None or "tried to allocate" in error.text.lower():
        return None
    return next((frame for raised in traceback.raised if (frame := raised.through(*_CONTEXT))), None)


def growth(log: TrainingLog | None) -> tuple[float, float] | None:
    """(first, last) GiB where the memory told in the log only rises, over three lines or more, and by a third at least."""
    told = [s.memory_gib for s in log.speeds if s.memory_gib is not None] if log else []
    if len(told) < 3 or any(b < a * 0.995 for a, b in pairwise(told)):
        return None
    return (told[0], told[-1]) if told[-1] > told[0] * 1.33 else None


def worst(oom: OutOfMemory) -> Oom:
    """The message that says most: the first with figures."""
    return max(oom.errors, key=lambda e: sum(v is not None for v in (e.total, e.free, e.allocated, e.wanted)))


def others_on(gpu: int | None, processes: Processes | None, gpus: Gpus | None) -> tuple[Process, ...]:
    """Processes of several PIDs on that GPU (or on any where it was not told), the largest first; graphics left out."""
    if processes is None:
        return ()
    found = [p for p in processes.processes if p.kind != "G" and (gpu is None or p.gpu is None or p.gpu == gpu)]
    return tuple(sorted(found, key=lambda p: -(p.memory or 0)))


def suspect(
    oom: OutOfMemory,
    traceback: Traceback | None = None,
    log: TrainingLog | None = None,
    processes: Processes | None = None,
    gpus: Gpus | None = None,
) -> tuple[str, Certainty, Oom]:
    """(slug, certainty, the message that decided). One cause for one text: the rules of this family ask here."""
    error = worst(oom)
    likely, certain = Certainty.LIKELY, Certainty.CERTAIN
    held, total = error.held_by_others, error.total
    mine = error.in_use if error.in_use is not None else error.reserved if error.reserved is not None else error.allocated
    if error.wanted is not None and total is not None and error.wanted > total and error.kind is None:
        return _too_big(traceback, error), certain, error
    if error.wanted is not None and error.wanted > LARGEST_CARD:
        return "oom-batch-too-large", likely, error
    if error.allocated is not None and total is not None and error.allocated > total * 1.02:
        return "oom-model-too-large", likely, error  # Windows had already spilled into host memory
    if _through(traceback, _RESTORE) and not (held and total and held > total / 2):
        return "checkpoint-map-location" if _restoring(traceback) else "oom-model-too-large", likely, error
    much = held is not None and total is not None and held > max(CONTEXT, 0.15 * total)
    if much and held and total and (error.others or mine is None or held > 0.3 * total or held > mine):
        return "oom-other-process", certain if error.others or held > 0.5 * total else likely, error
    if without_room(error, traceback):
        return "oom-other-process", likely, error
    if error.kind == "kv-cache":
        return "oom-model-too-large", likely, error
    course = growth(log)
    if course:
        return "oom-graph-retained", likely, error
    if _through(traceback, _GATHER):
        return "oom-outputs-kept-on-gpu", likely, error
    if _through(traceback, _PARALLEL):
        return "oom-first-gpu-imbalance", likely, error
    slug, certainty = _by_figures(error, traceback)
    return slug, certainty, error


def _too_big(traceback: Traceback | None, error: Oom) -> str:
    near = bool(error.wanted and error.total and error.wanted < 4 * error.total)
    return "oom-model-too-large" if near and _through(traceback, _LOADING) else "oom-batch-too-large"


def _restoring(traceback: Traceback | None) -> bool:
    return _through(traceback, ("_cuda_deserialize", "restore_location", "default_restore_location"))


def _by_figures(error: Oom, traceback: Traceback | None) -> tuple[str, Certainty]:
    likely, possible = Certainty.LIKELY, Certainty.POSSIBLE
    idle, best, wanted = error.idle_reserve, error.holdable, error.wanted
    fits = idle is not None and best is not None and wanted is not None and wanted <= best and idle >= max(wanted, 0.5)
    if fits and idle and error.total and idle > 0.08 * error.total:
        return "oom-fragmentation", likely
    # even what the card has free would be enough, yet no piece of it; what is idle lies in blocks that were cut
    if idle and wanted and error.total and error.free and wanted <= error.free and idle > 0.2 * error.total:
        return "oom-fragmentation", likely
    # what is free and idle together would do, and more lies idle than is used
    if idle and best and wanted and error.total and wanted <= best and idle > 0.2 * error.total and idle > (error.allocated or idle):
        return "oom-fragmentation", likely
    evaluates = _through(traceback, _EVAL) and not _through(traceback, (*_GRAD_FREE, *_BACKWARD))
    if evaluates and error.framework in (None, "torch"):
        full = bool(error.allocated and error.total and error.allocated > 0.5 * error.total)
        return "oom-eval-with-grad", likely if full else possible
    if _through(traceback, _LOADING) and not _through(traceback, _BACKWARD):
        return "oom-model-too-large", likely
    if _through(traceback, _STEPPING):
        return "oom-model-too-large", likely
    if error.total is None and _LARGE_MODEL.search(error.text) and _BATCH_ONE.search(error.text):
        return "oom-model-too-large", likely
    if error.framework in ("llama.cpp", "vllm"):
        return "oom-model-too-large", likely
    if error.total and error.total < 30 and (error.allocated or 0) > 0.9 * error.total and _LARGE_MODEL.search(error.text):
        return "oom-model-too-large", likely
    return "oom-batch-too-large", likely


def first_gpu_crowd(processes: Processes | None) -> tuple[tuple[Process, ...], bool] | None:
    """(processes on GPU 0 that also hold another GPU, whether each of the others holds little there); None if there are none.
    Also None unless at least one PID sits on GPU 0 beside its own card."""
    if processes is None:
        return None
    compute = [p for p in processes.processes if p.kind != "G" and p.pid is not None and p.gpu is not None and p.memory != 0]
    lowest = min((p.gpu for p in compute if p.gpu is not None), default=None)
    elsewhere = {p.pid for p in compute if p.gpu != lowest}
    guests = tuple(p for p in compute if p.gpu == lowest and p.pid in elsewhere and (p.memory is None or p.memory > 100))
    if lowest is None or not guests or len({p.pid for p in compute}) < 2:
        return None
    return guests, all((p.memory or 0) < 3000 for p in guests)


def cite(errors: Sequence[Oom]) -> tuple[Ref, ...]:
    """The lines of these messages."""
    return tuple(dict.fromkeys(error.ref for error in errors))[:4]


def uneven_first(processes: Processes | None) -> tuple[Process, Process] | None:
    """(on its first GPU, the largest on another) where one process over several GPUs holds half as much again on the first."""
    compute = [p for p in processes.processes if p.pid and p.kind != "G" and p.gpu is not None] if processes else []
    for pid in dict.fromkeys(p.pid for p in compute):
        mine = sorted((p for p in compute if p.pid == pid), key=lambda p: p.gpu or 0)
        if len({p.gpu for p in mine}) > 1:
            other = max(mine[1:], key=lambda p: p.memory or 0)
            if (mine[0].memory or 0) > 1.5 * (other.memory or 0) > 1500:
                return mine[0], other
    return None


def same_on_first(processes: Processes | None) -> tuple[Process, ...]:
    """Processes of one name that each hold the same small block on the first GPU (three or more), beside at most one large one."""
    compute = [p for p in processes.processes if p.pid and p.kind != "G" and p.gpu is not None and p.memory] if processes else []
    lowest = min((p.gpu for p in compute if p.gpu is not None), default=None)
    first = [p for p in compute if p.gpu == lowest]
    small = [p for p in first if (p.memory or 0) < 2500]
    if len(small) < 3 or len({p.name for p in first}) != 1 or len(first) - len(small) > 1 or len({p.pid for p in small}) < 3:
        return ()
    sizes = [p.memory or 0 for p in small]
    return tuple(small) if max(sizes) <= 1.1 * min(sizes) and (len(first) > len(small) or len(compute) > len(first)) else ()
