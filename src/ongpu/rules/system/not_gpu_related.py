"""The failure is of a known kind that has nothing to do with the GPU."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from ongpu.facts.code import Raised, Traceback
from ongpu.facts.dryrun import DryRun
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge._tables import table
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text, known

# Words that make an exception a GPU's or a framework's matter, which the other rules judge.
_GPU = lazy(
    r"cuda|cudnn|cublas|nccl|gpu|nvidia|nvml|nvcc|device|driver|hip|rocm|mps|xla|torch|tensorflow|jax|triton|kernel|out of memory|oom|memory|half|bfloat16|"
    r"float16|\.so|\.dll|libc|ptx|sm_\d|onnxruntime|provider|distributed|worker|killed|shm|shared|undefined symbol|numpy\.(?:core|dtype)|_array_api|ufunc|"
    r"compiled using numpy|no kernel|backend|accelerat|dtype|scalar type|tensor|resource",
    re.IGNORECASE,
)
MOST = 3
# Names of torch, TensorFlow and JAX that people type themselves, in every version for years: a name that is missing and nearly one of
# these is misspelt. Real names that lie near them stand here too, so that their absence is left to the version.
TYPED = (
    "is_available", "device_count", "current_device", "get_device_name", "get_device_properties", "get_device_capability", "set_device",
    "empty_cache", "synchronize", "memory_allocated", "max_memory_allocated", "reset_max_memory_allocated", "memory_reserved",
    "max_memory_reserved", "manual_seed", "manual_seed_all", "list_physical_devices", "list_logical_devices", "list_local_devices",
    "is_gpu_available", "is_built_with_cuda", "is_built_with_gpu_support", "gpu_device_name", "local_devices", "device_put",
)  # fmt: skip
NEAR = 0.85  # "is_availaible" has 0.96, "manual_seeds" 0.96, memory_cached (an old name) to memory_allocated 0.76


def _last(traceback: Traceback) -> Raised | None:
    named = [raised for raised in traceback.raised if raised.error]
    return named[-1] if named else None


def _is_known(message: str, symptoms: Symptoms | None) -> bool:
    """Whether the words of that error name a fault that another rule judges."""
    first = message.partition("\n")[0][:60]
    hits = symptoms.hits if symptoms else ()
    return any(first in hit.ref.quote and not hit.name.startswith(("run-ends", "harmless-", "torch-user")) for hit in hits)


def _misspelt(name: str) -> bool:
    """Whether that name is nearly one that everybody types, and not itself one."""
    return name not in TYPED and any(SequenceMatcher(None, name.lower(), real).ratio() >= NEAR for real in TYPED)


def check(symptoms: Symptoms | None, traceback: Traceback | None, dryrun: DryRun | None) -> Iterator[Finding]:
    hits = (
        [hit for hit in symptoms.hits if hit.name.startswith("other-") and hit.name[6:] in table("other_faults")]
        if symptoms
        else []
    )
    hits = [hit for hit in hits if hit.name != "other-misspelt" or _misspelt(hit.groups.get("what") or "")]
    hits.sort(key=lambda hit: -hit.ref.line)
    failed = dryrun.own_error if dryrun else None
    if dryrun and dryrun.error and not failed:
        return
    told: set[str] = set()
    if symptoms and not symptoms.has(
        "other-build-isolation"
    ):  # torch that is missing outright is another rule's business
        hits = [hit for hit in hits if hit.name != "other-build-isolation-torch"]
    for hit in hits:
        kind = hit.name[6:]
        if kind in told or len(told) >= MOST:
            continue
        told.add(kind)
        values = {
            "what": hit.groups.get("what", "").strip() or hit.ref.quote[:120],
            "where": hit.groups.get("where", ""),
        }
        yield Finding(
            certainty=Certainty.LIKELY,
            severity=Severity.ERROR if failed else None,
            variant=kind,
            values=values,
            refs=tuple(other.ref for other in hits if other.name == hit.name)[:4],
        )
    if failed and not told and not (_GPU.search(f"{failed.type} {failed.message}") and _is_known(failed.message, symptoms)):
        yield Finding(
            severity=Severity.ERROR,
            variant="run",
            values={"error": f"{failed.type}: {failed.message[:160]}".rstrip(": "), "line": str(failed.place) if failed.place else "?"},
            refs=(failed.place.ref(),) if failed.place else (),
        )
        return
    if told or traceback is None:
        return
    last = _last(traceback)
    if last and not _GPU.search(f"{last.error} {last.message}"):
        known(None, f"what the exception means: {last.error}: {last.message[:160]}".rstrip(": "))


def _texts() -> dict[str, tuple[Text, Text]]:
    why = (
        "The line that ends the run is of a kind that has nothing to do with the GPU; nothing about the driver, CUDA or the card needs to change for it.",
        "使运行结束的这一行与 GPU 无关；无需为此改动驱动、CUDA 或显卡。",
    )
    found = {}
    for name, entry in table("other_faults").items():
        if not isinstance(entry, dict):
            continue
        en, zh = entry["en"], entry["zh"]
        found[name] = (
            Text(title=f"Not a GPU fault: {en['what']}", why=why[0], fix=en["fix"]),
            Text(title=f"不是 GPU 故障：{zh['what']}", why=why[1], fix=zh["fix"]),
        )
    found["run"] = (
        Text(
            title="The script stops with an error of its own{line: at *}: {error}",
            why="The dry run could follow it only up to here; the error has nothing to do with the GPU.",
            fix="Mend what the line names, or give the script what it needs (arguments, files, packages), and run it again.",
        ),
        Text(
            title="脚本因自身的错误停止{line:（*）}：{error}",
            why="试运行只能跟踪到这里；该错误与 GPU 无关。",
            fix="按该行所示修复，或给脚本所需的参数、文件、软件包，然后再试。",
        ),
    )
    return found


RULE = Rule(
    slug="not-gpu-related",
    layer=Layer.SYSTEM,
    severity=Severity.NOTE,
    check=check,
    see=(
        "https://docs.python.org/3/library/exceptions.html",
        "https://huggingface.co/docs/hub/security-tokens",
        "https://docs.docker.com/engine/install/linux-postinstall/",
    ),
    en=Text(
        title="The failure does not lie with the GPU",
        why="The line that ends the run is of a kind that has nothing to do with the GPU.",
        fix="Mend what the line names.",
    ),
    zh=Text(
        title="故障与 GPU 无关",
        why="使运行结束的这一行与 GPU 无关。",
        fix="按该行所示修复。",
    ),
    variants=_texts(),
)
