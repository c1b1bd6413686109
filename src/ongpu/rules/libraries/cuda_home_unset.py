"""CUDA_HOME is not set, and the build does not find the toolkit by itself."""

from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.framework import Torch
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    symptoms: Symptoms | None, variables: Variables | None, toolkit: Toolkit | None, torch: Torch | None
) -> Iterator[Finding]:
    if not symptoms or not symptoms.has("cuda-home-unset", "cuda-home-none", "cuda-home-key"):
        return
    home = variables.get("CUDA_HOME") if variables else None
    name = symptoms.value("what", "cuda-home-unset", "cuda-home-key") or symptoms.value("what2", "cuda-home-key") or "CUDA_HOME"
    have = (toolkit.nvcc if toolkit else None) or (toolkit.installed[0] if toolkit and toolkit.installed else None)
    cuda = torch.cuda if torch and torch.cuda else None
    yield Finding(
        variant="toolkit" if have else "",
        certainty=Certainty.LIKELY if home or symptoms.has("nvcc-not-found") else Certainty.CERTAIN,
        values={"name": name, "cuda": cuda or "?", "have": have or "?"},
        fixes=(
            Fix("find-cuda-home"),
            *((Fix("install-nvcc", {"dashed": cuda.replace(".", "-")}),) if cuda and not have else ()),
        ),
        refs=(
            *symptoms.cite("cuda-home-unset", "cuda-home-none", "cuda-home-key"),
            *(toolkit.about("nvcc") if toolkit and toolkit.nvcc else ()),
            *(torch.about("cuda", "version") if torch and cuda else ()),
        ),
    )


RULE = Rule(
    slug="cuda-home-unset",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    settle=("ls -d /usr/local/cuda*; which nvcc", "echo $CUDA_HOME"),
    see=(
        "https://pytorch.org/docs/stable/cpp_extension.html",
        "https://github.com/pytorch/pytorch/blob/main/torch/utils/cpp_extension.py",
    ),
    en=Text(
        title="{name} is not set, and no CUDA toolkit was found without it",
        why="Building a CUDA extension needs the toolkit (nvcc and headers). torch looks at CUDA_HOME, then CUDA_PATH, then for nvcc on PATH, then at /usr/local/cuda; none of them exists here. The CUDA runtime inside the pip wheels is not a toolkit.",
        fix="If a toolkit is installed: export CUDA_HOME=/usr/local/cuda-X.Y (conda: CUDA_HOME=$CONDA_PREFIX), the folder that contains bin/nvcc. If not, install one of torch.version.cuda{cuda: (*)}: cuda-toolkit, conda install -c nvidia cuda-nvcc, or a -devel image. In pip builds add --no-build-isolation.",
    ),
    zh=Text(
        title="没有设置 {name}，也没有自动找到 CUDA 工具包",
        why="编译 CUDA 扩展需要工具包（nvcc 和头文件）。torch 依次查看 CUDA_HOME、CUDA_PATH、PATH 上的 nvcc 和 /usr/local/cuda，这里一个都没有。pip wheel 里的 CUDA 运行库不是工具包。",
        fix="若已装工具包：export CUDA_HOME=/usr/local/cuda-X.Y（conda 为 CUDA_HOME=$CONDA_PREFIX），即包含 bin/nvcc 的目录。若没有，安装与 torch.version.cuda{cuda:（*）}一致的工具包：cuda-toolkit、conda install -c nvidia cuda-nvcc，或 -devel 镜像。用 pip 编译时加 --no-build-isolation。",
    ),
    variants={
        "toolkit": (
            Text(
                title="{name} is not set in the environment of the build, though a toolkit is installed ({have})",
                why="The build does not see the shell's settings (sudo, service, IDE, isolated build) or the toolkit lies in another folder than /usr/local/cuda.",
                fix="export CUDA_HOME=/usr/local/cuda (the folder that contains bin/nvcc) in the same shell as the build, and PATH=$CUDA_HOME/bin:$PATH; with sudo: sudo -E.",
            ),
            Text(
                title="构建环境里没有设置 {name}，尽管已安装工具包（{have}）",
                why="构建过程看不到 shell 里的设置（sudo、服务、IDE、隔离构建），或者工具包不在 /usr/local/cuda。",
                fix="在同一个 shell 里 export CUDA_HOME=/usr/local/cuda（包含 bin/nvcc 的目录）和 PATH=$CUDA_HOME/bin:$PATH；使用 sudo 时加 -E。",
            ),
        ),
    },
)
