"""CUDA_HOME is set, but not to the folder of a CUDA toolkit."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Variables
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_NAMES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR")
_FAILED = lazy(r"no such file|unable to execute|failed|not found|cannot|errno", re.IGNORECASE)
_MISSING = (
    "nvcc-path-missing",
    "nvcc-not-found",
    "cuda-home-bad",
    "cuda-header-missing",
    "linker-cuda-library",
    "no-such-file",
)


def _wrong(value: str) -> str | None:
    """What is wrong with the value by its form alone."""
    drive = re.match(r"^[A-Za-z]:[\\/]", value)
    rest = value[2:] if drive else value
    if ":" in rest or (";" in value):
        return "list"
    if re.search(r"[/\\]bin[/\\]?$", value):
        return "bin"
    if re.search(r"[/\\]nvcc(?:\.exe)?$", value):
        return "file"
    if re.search(r"[/\\]lib(?:64)?[/\\]?$", value):
        return "lib"
    if re.search(r"[/\\]include[/\\]?$", value):
        return "include"
    return None


def _cudacxx(symptoms: Symptoms | None, variables: Variables | None) -> Iterator[Finding]:
    """CUDACXX names the compiler itself, not a folder."""
    path = symptoms.value("path", "cudacxx-value") if symptoms else None
    if not path or not symptoms or not symptoms.has("cmake-no-cuda-compiler"):
        return
    yield Finding(
        variant="cudacxx",
        values={"name": "CUDACXX", "value": path.rstrip(".")},
        fixes=(Fix("find-cuda-home"),),
        refs=(*symptoms.cite("cudacxx-value", "cmake-no-cuda-compiler"), *(variables.cite("CUDACXX") if variables else ())),
    )


def check(symptoms: Symptoms | None, variables: Variables | None, toolkit: Toolkit | None) -> Iterator[Finding]:
    if found := next(_cudacxx(symptoms, variables), None):
        yield found
        return
    listed = symptoms.seen("nvcc-in-list") if symptoms else ()
    failed = [hit for hit in listed if _FAILED.search(hit.ref.quote)]
    if failed and symptoms:
        yield Finding(
            variant="list",
            values={"name": "CUDA_HOME", "value": failed[0].groups.get("path", "?")},
            fixes=(Fix("find-cuda-home"),),
            refs=(*(hit.ref for hit in failed[:2]), *(variables.cite(*_NAMES) if variables else ())),
        )
        return
    name = next((n for n in _NAMES if variables and variables.get(n)), None)
    value = variables.get(name) if variables and name else None
    lines = variables.cite(name) if variables and name else ()
    said = symptoms.cite(*_MISSING) if symptoms else ()
    path = (
        (
            symptoms.value("path", "nvcc-path-missing")
            or symptoms.value("path2", "nvcc-path-missing")
            or symptoms.value("home", "cuda-home-bad")
        )
        if symptoms
        else None
    )
    if value and (form := _wrong(value)) and "$" not in value.replace(f"${name}", ""):
        if form not in ("list", "file", "bin") and not said:
            return
        yield Finding(
            variant="list" if form == "list" else "",
            certainty=Certainty.CERTAIN if said else Certainty.LIKELY,
            values={"name": name, "value": value, "form": form},
            fixes=(Fix("find-cuda-home"),),
            refs=(*lines, *said),
        )
        return
    if path and (path.startswith(":") or ":" in path[3:] or ";" in path):
        yield Finding(
            variant="list",
            values={"name": "CUDA_HOME", "value": path.rsplit("/bin/", 1)[0]},
            fixes=(Fix("find-cuda-home"),),
            refs=(*said, *lines),
        )
        return
    if path and re.search(r"bin[/\\]+bin[/\\]|nvcc[/\\]bin|lib64[/\\]bin", path):
        yield Finding(
            values={"name": "CUDA_HOME", "value": re.split(r"[/\\]bin[/\\]+nvcc", path)[0]},
            fixes=(Fix("find-cuda-home"),),
            refs=(*said, *lines),
        )
        return
    used = symptoms.value("home", "cuda-home-used") if symptoms else None
    if symptoms and symptoms.has("cuda-home-bad") and (value or symptoms.value("home", "cuda-home-bad")):
        yield Finding(
            variant="absent",
            values={"name": symptoms.value("name", "cuda-home-bad") or "CUDA_HOME", "value": value or path or "?"},
            fixes=(Fix("find-cuda-home"),),
            refs=(*said, *lines),
        )
    elif value and symptoms and symptoms.has("nvcc-path-missing") and path and path.startswith(value.rstrip("/")):
        other = (toolkit.installed or (toolkit.nvcc_path,)) if toolkit else ()
        yield Finding(
            variant="absent",
            certainty=Certainty.LIKELY if not any(other) else Certainty.CERTAIN,
            values={"name": name, "value": value},
            fixes=(Fix("find-cuda-home"),),
            refs=(*symptoms.cite("nvcc-path-missing"), *lines),
        )
    elif (
        value
        and toolkit
        and toolkit.nvcc
        and _version(value)
        and symptoms
        and symptoms.has("no-such-file", "nvcc-path-missing")
        and _version(value) != toolkit.nvcc
    ):
        yield Finding(
            variant="absent",
            certainty=Certainty.LIKELY,
            values={"name": name, "value": value},
            fixes=(Fix("find-cuda-home"),),
            refs=(*lines, *said, *toolkit.about("nvcc")),
        )
    elif used and said and path and path.startswith(used):
        yield Finding(
            variant="absent",
            certainty=Certainty.POSSIBLE,
            values={"name": "CUDA_HOME", "value": used},
            fixes=(Fix("find-cuda-home"),),
            refs=(*symptoms.cite("cuda-home-used"), *said) if symptoms else (),
        )


def _version(folder: str) -> str | None:
    match = re.search(r"cuda-?[vV]?(\d{1,2}\.\d)\b|CUDA[/\\]v(\d{1,2}\.\d)", folder)
    return (match[1] or match[2]) if match else None


RULE = Rule(
    slug="cuda-home-invalid",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("nvcc-missing", "cuda-home-unset"),
    settle=("echo $CUDA_HOME; ls $CUDA_HOME/bin/nvcc", "ls -d /usr/local/cuda*"),
    see=("https://pytorch.org/docs/stable/cpp_extension.html", "https://github.com/NVIDIA/apex/issues/368"),
    en=Text(
        title="{name} is set to {value}, which is not the root folder of a toolkit",
        why="Builds append bin/nvcc, include and lib64 to {name}. It must be the folder above bin, not bin, lib64 or nvcc itself.",
        fix="Set {name} to the toolkit's root, the folder that contains bin/nvcc: export CUDA_HOME=/usr/local/cuda (or /usr/local/cuda-X.Y; conda: $CONDA_PREFIX).",
    ),
    zh=Text(
        title="{name} 设成了 {value}，它不是工具包的根目录",
        why="构建时会在 {name} 后面拼上 bin/nvcc、include、lib64，所以它必须是 bin 的上一级目录，而不是 bin、lib64 或 nvcc 本身。",
        fix="把 {name} 设为工具包根目录，即包含 bin/nvcc 的目录：export CUDA_HOME=/usr/local/cuda（或 /usr/local/cuda-X.Y；conda 为 $CONDA_PREFIX）。",
    ),
    variants={
        "cudacxx": (
            Text(
                title="CUDACXX={value} points to an nvcc that is not there",
                why="CMake takes the CUDA compiler from the environment variable CUDACXX, and that file does not exist: the toolkit lies elsewhere (conda, /usr/local/cuda-X.Y) or is not installed.",
                fix="export CUDACXX=$(which nvcc), or unset it where a script sets it, and CUDA_HOME with it; where there is no nvcc, install the CUDA toolkit. Remove the build folder (CMakeCache.txt) before the next try.",
            ),
            Text(
                title="CUDACXX={value} 指向的 nvcc 不存在",
                why="CMake 从环境变量 CUDACXX 取 CUDA 编译器，而该文件不存在：工具包在别处（conda、/usr/local/cuda-X.Y），或没有安装。",
                fix="export CUDACXX=$(which nvcc)，或在设置它的脚本里去掉（连同 CUDA_HOME）；若没有 nvcc，请安装 CUDA 工具包。重试前删除构建目录（CMakeCache.txt）。",
            ),
        ),
        "list": (
            Text(
                title="{name} holds a list ({value}), but it must be one folder",
                why="{name} was extended like PATH, with colons (on Windows semicolons), so that no file {name}/bin/nvcc exists under that name. A leading colon alone does the same.",
                fix="Set {name} to one folder without a colon, for instance export CUDA_HOME=/usr/local/cuda-10.1 (the version wanted); remove the lines that append to it from ~/.bashrc.",
            ),
            Text(
                title="{name} 的值是一串目录（{value}），而它必须是单个目录",
                why="{name} 像 PATH 那样用冒号（Windows 为分号）追加，于是不存在名为 {name}/bin/nvcc 的文件；仅仅开头多一个冒号也会如此。",
                fix="把 {name} 设为单个目录，不含冒号，例如 export CUDA_HOME=/usr/local/cuda-10.1（所需版本）；删掉 ~/.bashrc 中追加它的行。",
            ),
        ),
        "absent": (
            Text(
                title="{name} points to {value}, where no toolkit (nvcc) is",
                why="The folder was removed, renamed, never installed, or holds the runtime only (conda environments without cuda-nvcc). A set {name} is taken as it is: nothing else is searched.",
                fix="Set {name} to a folder that contains bin/nvcc (ls -d /usr/local/cuda*), or install that toolkit version, or unset {name} so that nvcc on PATH decides.",
            ),
            Text(
                title="{name} 指向 {value}，那里没有工具包（nvcc）",
                why="该目录已被删除、改名、从未安装，或只有运行时（没有 cuda-nvcc 的 conda 环境）。一旦设置了 {name} 就会照用，不再查找别处。",
                fix="把 {name} 设为包含 bin/nvcc 的目录（ls -d /usr/local/cuda* 查看），或安装该版本工具包，或 unset {name}，由 PATH 上的 nvcc 决定。",
            ),
        ),
    },
)
