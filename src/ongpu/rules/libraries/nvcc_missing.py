"""The CUDA compiler nvcc is not there, though something has to be compiled."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Packages, Torch
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_SAID = (
    "nvcc-not-found",
    "nvcc-path-missing",
    "cmake-no-cuda-compiler",
    "cmake-no-toolkit",
    "no-nvcc-in-torch",
    "cuda-header-missing",
)


def check(
    symptoms: Symptoms | None,
    torch: Torch | None,
    toolkit: Toolkit | None,
    variables: Variables | None,
    packages: Packages | None,
) -> Iterator[Finding]:
    if not symptoms or not symptoms.has(*_SAID):
        return
    if symptoms.has("python-headers-missing", "nvcc-in-list"):
        return
    path = symptoms.value("path", "nvcc-path-missing") or symptoms.value("path2", "nvcc-path-missing")
    home = variables.get("CUDA_HOME") if variables else None
    if (path and (":" in path[3:] or path.startswith(":") or ";" in path)) or (
        home and (":" in home[3:] or home.startswith(":"))
    ):
        return  # CUDA_HOME is no folder: cuda-home-invalid
    have = toolkit.nvcc if toolkit else None
    cuda = (torch.cuda if torch and torch.cuda else None) or (toolkit.told_cuda if toolkit else None)
    header = symptoms.has("cuda-header-missing") and not symptoms.has(*_SAID[:-1])
    conda = bool(path and re.search(r"conda|mamba|/envs/|/pkgs/", path)) or bool(
        packages and packages.get("cudatoolkit")
    )
    weak = have is not None or (
        symptoms.has("cmake-no-cuda-compiler", "cmake-no-toolkit")
        and not symptoms.has("nvcc-not-found", "nvcc-path-missing")
    )
    yield Finding(
        variant="conda" if conda else "header" if header else "on-disk" if have else "",
        certainty=Certainty.LIKELY if weak or header else Certainty.CERTAIN,
        values={
            "path": path or "nvcc",
            "cuda": cuda or "?",
            "dashed": cuda.replace(".", "-") if cuda else "",
            "have": have or "?",
            "header": symptoms.value("header", "cuda-header-missing")
            or symptoms.value("header2", "cuda-header-missing")
            or "cuda_runtime.h",
        },
        fixes=(Fix("install-nvcc"), Fix("set-cuda-home")) if cuda else (Fix("find-cuda-home"),),
        refs=(
            *symptoms.cite(*_SAID),
            *(torch.about("cuda", "version") if torch and torch.cuda else ()),
            *(packages.cite("cudatoolkit") if packages else ()),
        ),
    )


RULE = Rule(
    slug="nvcc-missing",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-home-unset",),
    settle=(
        "which nvcc; ls -d /usr/local/cuda*",
        "nvcc --version",
        "python -c 'import torch; print(torch.version.cuda)'",
    ),
    see=(
        "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/",
        "https://pytorch.org/docs/stable/cpp_extension.html",
    ),
    en=Text(
        title="The CUDA compiler nvcc is not found ({path})",
        why="Compiling a CUDA extension needs the toolkit with nvcc. Neither the driver nor the pip wheels of the framework contain it, and the version in nvidia-smi's head is no installed toolkit.",
        fix="Install a CUDA toolkit of the version the framework was built for (torch.version.cuda{cuda:: *}): cuda-toolkit from NVIDIA's repository, conda install -c nvidia cuda-nvcc (or cuda-toolkit), or a -devel container image; then put its bin folder on PATH and set CUDA_HOME. A prebuilt wheel of the extension needs none of this.",
    ),
    zh=Text(
        title="找不到 CUDA 编译器 nvcc（{path}）",
        why="编译 CUDA 扩展需要带 nvcc 的工具包。驱动和框架的 pip wheel 都不含它，nvidia-smi 顶部的版本也不代表装了工具包。",
        fix="安装与框架一致的 CUDA 工具包（torch.version.cuda{cuda:：*}）：NVIDIA 软件源的 cuda-toolkit、conda install -c nvidia cuda-nvcc（或 cuda-toolkit），或使用 -devel 镜像；再把其 bin 目录加入 PATH 并设置 CUDA_HOME。若该扩展有预编译 wheel，则都不需要。",
    ),
    variants={
        "conda": (
            Text(
                title="conda's cudatoolkit has no nvcc ({path})",
                why="The conda package cudatoolkit holds the run-time libraries only, so nvcc is not in its bin folder. Pointing CUDA_HOME there cannot compile an extension.",
                fix="Install a compiler of the CUDA version that torch was built with{cuda: (*)}: conda install -c nvidia cuda-nvcc (CUDA 12 and newer; with cuda-cudart-dev, or cuda-toolkit), conda install -c conda-forge cudatoolkit-dev (CUDA 11 and older), or NVIDIA's package, and point CUDA_HOME to it.",
            ),
            Text(
                title="conda 的 cudatoolkit 里没有 nvcc（{path}）",
                why="conda 的 cudatoolkit 包只有运行库，其 bin 目录里没有 nvcc；把 CUDA_HOME 指到那里无法编译扩展。",
                fix="安装与 torch 所用 CUDA{cuda:（*）}一致的编译器：conda install -c nvidia cuda-nvcc（CUDA 12 及以上，另加 cuda-cudart-dev，或直接 cuda-toolkit）、conda install -c conda-forge cudatoolkit-dev（CUDA 11 及更早），或 NVIDIA 的安装包，并把 CUDA_HOME 指向它。",
            ),
        ),
        "header": (
            Text(
                title="CUDA's development headers are not found ({header})",
                why="Only the runtime of CUDA is installed, or the build does not know the toolkit's folder. Headers come with the toolkit's -dev packages (in conda: cuda-cudart-dev, libcublas-dev, libcusparse-dev ...), not with runtime images.",
                fix="Install the toolkit with its headers (cuda-toolkit, or a -devel image instead of -runtime or -base), set CUDA_HOME to it, and add $CUDA_HOME/include to CPATH if the build does not.",
            ),
            Text(
                title="找不到 CUDA 开发头文件（{header}）",
                why="只装了 CUDA 运行时，或者构建过程不知道工具包的目录。头文件随工具包的 -dev 包提供（conda 中为 cuda-cudart-dev、libcublas-dev、libcusparse-dev 等），runtime 镜像里没有。",
                fix="安装带头文件的工具包（cuda-toolkit，或用 -devel 镜像代替 -runtime、-base），设置 CUDA_HOME；若构建脚本没加，则把 $CUDA_HOME/include 加入 CPATH。",
            ),
        ),
        "on-disk": (
            Text(
                title="nvcc is installed (CUDA {have}) but the build does not find it",
                why="The build looks for nvcc on PATH or under CUDA_HOME; neither leads to the toolkit. sudo, a service, an IDE or an isolated build starts with another PATH than the shell.",
                fix="export PATH=/usr/local/cuda/bin:$PATH CUDA_HOME=/usr/local/cuda in the environment of the build; for CMake: -DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc.",
            ),
            Text(
                title="nvcc 已安装（CUDA {have}），但构建过程找不到它",
                why="构建过程在 PATH 或 CUDA_HOME 下找 nvcc，两者都没指向工具包。sudo、服务、IDE 或隔离构建的 PATH 与 shell 不同。",
                fix="在构建环境里 export PATH=/usr/local/cuda/bin:$PATH CUDA_HOME=/usr/local/cuda；CMake 加 -DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc。",
            ),
        ),
    },
)
