"""Whether a program saw a GPU, from whatever framework or tool told it."""

from ongpu.facts.framework import Jax, OnnxRuntime, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Ref

BLIND = ("gpu-not-seen", "libcuda-absent", "banner-no-driver", "smi-missing-inside")


def blind(
    symptoms: Symptoms | None, torch: Torch | None = None, tensorflow: TensorFlow | None = None, jax: Jax | None = None,
    onnx: OnnxRuntime | None = None,
) -> tuple[Ref, ...]:
    """The lines that say that a program found no GPU; () where none says so."""
    refs = list(symptoms.cite(*BLIND, most=2)) if symptoms else []
    if torch and (torch.available is False or torch.device_count == 0):
        refs += torch.about("available", "device_count")
    if tensorflow and tensorflow.gpus == 0:
        refs += tensorflow.about("gpus")
    if jax and jax.backend == "cpu":
        refs += jax.about("backend")
    if onnx and onnx.providers is not None and not any("CUDA" in p or "Tensorrt" in p for p in onnx.providers):
        refs += onnx.about("providers")
    elif onnx and onnx.cpu_session and not onnx.offers_cuda:
        refs += onnx.about("session")
    return tuple(dict.fromkeys(refs))


def seen(gpus: Gpus | None, torch: Torch | None = None) -> bool:
    """Whether a card was listed, or a framework has one."""
    listed = bool(gpus and any(g.index is not None and not g.error for g in gpus.gpus))
    return listed or bool(torch and torch.available)
