"""The PTX that a program (or its compiler) wrote is newer than the driver's compiler reads: error 222."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge.cuda import cuda_of_driver
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# PTX ISA -> CUDA that writes it: https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes
# fmt: off
_PTX = {
    "6.5": "10.2", "7.0": "11.0", "7.1": "11.1", "7.2": "11.2", "7.3": "11.3", "7.4": "11.4", "7.5": "11.5", "7.6": "11.6",
    "7.7": "11.7", "7.8": "11.8", "8.0": "12.0", "8.1": "12.1", "8.2": "12.2", "8.3": "12.3", "8.4": "12.4", "8.5": "12.5",
    "8.6": "12.7", "8.7": "12.8", "8.8": "12.9", "9.0": "13.0",
}
# fmt: on


def check(
    symptoms: Symptoms | None,
    driver: Driver | None,
    toolkit: Toolkit | None,
    packages: Packages | None,
    torch: Torch | None,
) -> Iterator[Finding]:
    if not symptoms or not symptoms.has("ptx-unsupported", "ptx-version", "ptx-newer-than-driver"):
        return
    have, most = symptoms.value("have", "ptx-version"), symptoms.value("max", "ptx-version")
    version = driver.version if driver else None
    reads = _PTX.get(most or "") or (driver.cuda if driver else None) or (cuda_of_driver(version) if version else None)
    conda = (
        packages.get(
            "cudatoolkit",
            "cuda-nvrtc",
            "cuda-nvcc",
            "cuda-version",
            "numba-cuda",
            "nvidia-cuda-nvrtc-cu12",
            "nvidia-cuda-nvcc-cu12",
        )
        if packages
        else None
    )
    writes = (
        _PTX.get(have or "")
        or (toolkit.nvcc or toolkit.told_cuda if toolkit else None)
        or (conda.version if conda else None)
    )
    if writes == reads:
        writes = None
    yield Finding(
        variant="version" if have else "",
        certainty=Certainty.CERTAIN,
        values={
            "ptx": have or "?",
            "max": most or "?",
            "driver": version or "?",
            "reads": reads or "?",
            "writes": writes or "?",
        },
        fixes=(*((Fix("pin-conda-cuda", {"cuda": reads}),) if reads else ()), Fix("update-driver-for-ptx")),
        refs=(
            *symptoms.cite("ptx-version", "ptx-unsupported", "ptx-newer-than-driver"),
            *(driver.about("version", "cuda") if driver else ()),
            *((conda.ref,) if conda and conda.ref else ()),
            *(toolkit.about("nvcc", "told_cuda") if toolkit and writes else ()),
        ),
    )


RULE = Rule(
    slug="ptx-too-new",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("illegal-memory-access", "compute-capability-too-old"),
    settle=(
        "nvidia-smi",
        "nvcc --version",
        "conda list | grep -iE 'cuda|numba'",
        "pip list | grep -iE 'nvrtc|nvvm|numba|cuda'",
    ),
    see=(
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
        "https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes",
    ),
    en=Text(
        title="The program's PTX is newer than the driver can compile (error 222{driver:; driver *}{reads:, which knows CUDA *})",
        why="A compiler of a newer CUDA {writes:(*) }wrote PTX, which the driver's own compiler must translate; {driver:driver *|the driver} reads that of {reads:CUDA *|its own CUDA} and older. Minor-version compatibility does not cover PTX. The compiler in use is often not the one you think of: conda's cudatoolkit, an NVRTC or NVVM wheel (Numba, CuPy, OpenMM, Triton) counts, not the toolkit of the image.",
        fix="Either pin the CUDA compiler to {reads:*|the CUDA that nvidia-smi shows}: conda install cudatoolkit={reads:*|X.Y} (CUDA 12 and newer: cuda-version={reads:*|X.Y}), older nvidia-cuda-nvrtc / numba-cuda wheels, torch of that CUDA; or update the driver to one that knows {writes:CUDA *|that CUDA}. A build with machine code for the card needs no PTX at all.",
    ),
    zh=Text(
        title="程序的 PTX 比驱动能编译的更新（错误 222{driver:；驱动 *}{reads:，支持到 CUDA *}）",
        why="PTX 由较新 CUDA{writes:（*）}的编译器写出，要由驱动自带的编译器翻译；驱动{driver: * }只能读{reads: CUDA * |自己那个 CUDA }及更早的 PTX，次版本兼容不包括 PTX。实际起作用的编译器常常不是你以为的那个：要看 conda 的 cudatoolkit、NVRTC 或 NVVM wheel（Numba、CuPy、OpenMM、Triton），而不是镜像里的工具包。",
        fix="要么把 CUDA 编译器固定在{reads: *| nvidia-smi 所示的 CUDA}：conda install cudatoolkit={reads:*|X.Y}（CUDA 12 起用 cuda-version={reads:*|X.Y}）、较旧的 nvidia-cuda-nvrtc / numba-cuda wheel、对应 CUDA 的 torch；要么把驱动升级到支持{writes: CUDA * |该 CUDA }的版本。含有该卡机器码的构建根本不需要 PTX。",
    ),
    variants={
        "version": (
            Text(
                title="PTX {ptx} (CUDA {writes}) is newer than the driver reads: {max} (CUDA {reads}, driver {driver})",
                why="The CUDA compiler in the environment writes PTX {ptx}, which belongs to CUDA {writes}. The driver's compiler understands PTX up to {max}, that of CUDA {reads}; minor-version compatibility does not cover PTX.",
                fix="Use a toolkit no newer than CUDA {reads} for this driver (conda: cuda-version={reads:*|X.Y} or cudatoolkit={reads:*|X.Y}; pip: older nvidia-cuda-nvrtc / nvidia-cuda-nvcc / numba-cuda wheels), or update the driver to one for CUDA {writes} or newer.",
            ),
            Text(
                title="PTX {ptx}（CUDA {writes}）比驱动能读的更新：上限 {max}（CUDA {reads}，驱动 {driver}）",
                why="环境里的 CUDA 编译器写出 PTX {ptx}，属于 CUDA {writes}；驱动的编译器最多读到 PTX {max}，即 CUDA {reads}。次版本兼容不包括 PTX。",
                fix="对这个驱动使用不高于 CUDA {reads} 的工具包（conda：cuda-version={reads:*|X.Y} 或 cudatoolkit={reads:*|X.Y}；pip：较旧的 nvidia-cuda-nvrtc / nvidia-cuda-nvcc / numba-cuda wheel），或把驱动升级到支持{writes: CUDA * |该 CUDA }的版本。",
            ),
        ),
    },
)
