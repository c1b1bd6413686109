"""What the name of a GPU kernel tells: whether it multiplies matrices, on tensor cores or not, or moves data between GPUs.

Sources of the families: cuBLAS and cuDNN kernels as public traces name them (HolisticTraceAnalysis tests/data, pytorch/kineto
tb_plugin/samples); CUTLASS names its kernels by operation class, "tensorop" or "simt"
(https://docs.nvidia.com/cutlass/media/docs/cpp/profiler.html); HMMA shapes 884 (Volta), 1688 and 16816 (Turing, Ampere) and
WGMMA (Hopper) as PTX names its mma instructions (https://docs.nvidia.com/cuda/parallel-thread-execution/).
Checked 2026-11-30. A family that is not listed is "other": neither answer is guessed.
"""

import re
from functools import lru_cache

from ongpu.lazy import lazy

COLLECTIVE, TENSOR_CORE, PLAIN_MATMUL, ATTENTION, OTHER = "collective", "tensor-core", "plain-matmul", "attention", "other"

_COLLECTIVE = lazy(
    r"^(?:void )?(?:nccl|rccl|oneccl)|ncclDevKernel|ncclKernel|cross_device_reduce|all_?reduce_fusion", re.IGNORECASE
)
_ATTENTION = lazy(r"flash_(?:fwd|bwd)|fmha_|flash_attn|cudnn_generated_fort_native_sdpa|attention_kernel_batched", re.IGNORECASE)
_TENSOR = lazy(
    r"tensorop|hmma|imma|qmma|wgmma|[hisef](?:_?)(?:884|1688|16816|16832)|(?<!\d)(?:884|1688|16816|16832)(?:gemm|cudnn|dgrad|wgrad|fprop)"
    r"|tensor(?:4x4|8x8|16x8)|_tf32|tf32f32|f16f16_|bf16bf16_|fp16_s\d|^nvjet_|h884|gemm_(?:bf16|f16|fp8|e4m3|e5m2)|_h\d{3,5}(?:gemm|cudnn)"
    r"|sm(?:75|80|86|89|90|100|120)_xmma_\w{1,24}?_(?:f16|bf16|e4m3|e5m2|i8)|device_kernel<.{0,120}?sm(?:90|100)_(?:mma|umma)",
    re.IGNORECASE,
)
_PLAIN = lazy(
    r"sgemm|scudnn|_simt_s|simt_\w{0,24}gemm|f32f32_f32f32_f32|implicit_(?:convolve_)?sgemm|winograd.{0,60}(?:f32|float|3x3)|gemmSN_|gemmk1_kernel"
    r"|dgrad\w{0,24}_engine<float|wgrad\w{0,24}_engine<float|conv2d_grouped_direct|cudnn::cnn::(?:w|d)grad\w{0,30}<float",
    re.IGNORECASE,
)


@lru_cache(maxsize=8192)
def family(name: str) -> str:
    """Of a kernel by this name: collective, tensor-core, plain-matmul (no tensor cores), attention (fused, on tensor cores) or other."""
    name = name[:400]
    if _COLLECTIVE.search(name):
        return COLLECTIVE
    if _ATTENTION.search(name):
        return ATTENTION
    if _TENSOR.search(name):
        return TENSOR_CORE
    return PLAIN_MATMUL if _PLAIN.search(name) else OTHER
