"""The host compiler (gcc, clang, MSVC) is one that this nvcc, or this build, does not take."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

# CUDA -> newest gcc: crt/host_config.h of the nvcc wheels, spack for the older ones
# fmt: off
_GCC = {
    "9.0": 6, "9.1": 6, "9.2": 7, "10.0": 7, "10.1": 8, "10.2": 8, "11.0": 9, "11.1": 10, "11.2": 10, "11.3": 10, "11.4": 11, "11.5": 11,
    "11.6": 11, "11.7": 11, "11.8": 11, "12.0": 12, "12.1": 12, "12.2": 12, "12.3": 12, "12.4": 13, "12.5": 13, "12.6": 13, "12.8": 14, "12.9": 14,
    "13.0": 15,
}
# fmt: on
_SAID = (
    "unsupported-gnu",
    "unsupported-clang",
    "unsupported-msvc",
    "stl1002",
    "glibc-noexcept",
    "cl-missing",
    "nvcc-host-missing",
    "host-compiler-old",
)


def check(symptoms: Symptoms, toolkit: Toolkit | None, machine: Machine | None) -> Iterator[Finding]:
    if not symptoms.has(*_SAID):
        return
    nvcc = (toolkit.nvcc or toolkit.told_cuda) if toolkit else None
    gcc = toolkit.gcc if toolkit else None
    nvcc, gcc = symptoms.value("cuda", "unsupported-gnu") or nvcc, symptoms.value("have", "unsupported-gnu") or gcc
    below = symptoms.value("below", "unsupported-gnu")
    newest = (
        symptoms.value("max", "unsupported-gnu")
        or (str(int(below) - 1) if below else None)
        or (str(_GCC[nvcc]) if nvcc in _GCC else None)
    )
    refs = (*symptoms.cite(*_SAID), *(toolkit.about("nvcc", "gcc", "told_cuda") if toolkit and (nvcc or gcc) else ()))
    values = {
        "gcc": newest or "?",
        "have": gcc or symptoms.value("gcc", "glibc-noexcept") or "?",
        "nvcc": nvcc or "?",
        "max": symptoms.value("max", "unsupported-msvc") or "2022",
    }
    if symptoms.has("unsupported-gnu"):
        yield Finding(variant="", values=values, fixes=(Fix("use-host-compiler"),) if newest else (), refs=refs)
    elif symptoms.has("unsupported-msvc", "stl1002"):
        values["needs"] = symptoms.value("cuda", "stl1002") or "?"
        yield Finding(variant="stl" if symptoms.has("stl1002") else "msvc", values=values, refs=refs)
    elif symptoms.has("unsupported-clang"):
        yield Finding(variant="clang", values=values, refs=refs)
    elif symptoms.has("cl-missing"):
        yield Finding(variant="cl", values=values, certainty=Certainty.LIKELY, refs=refs)
    elif symptoms.has("nvcc-host-missing"):
        yield Finding(
            variant="missing",
            values=values,
            certainty=Certainty.LIKELY,
            fixes=(Fix("use-host-compiler"),) if newest else (),
            refs=refs,
        )
    elif symptoms.has("glibc-noexcept"):
        yield Finding(
            variant="headers",
            values=values,
            certainty=Certainty.LIKELY,
            fixes=(Fix("use-host-compiler"),) if newest else (),
            refs=refs,
        )
    elif symptoms.has("host-compiler-old"):
        yield Finding(variant="old", values=values, certainty=Certainty.LIKELY, refs=refs)


RULE = Rule(
    slug="host-compiler-unsupported",
    layer=Layer.LIBRARIES,
    severity=Severity.ERROR,
    check=check,
    hides=("nvcc-missing", "cuda-home-unset"),
    settle=("gcc --version; nvcc --version",),
    see=(
        "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/#host-compiler-support-policy",
        "https://docs.nvidia.com/cuda/cuda-installation-guide-microsoft-windows/",
    ),
    en=Text(
        title="{have:gcc *|The host compiler} is newer than this nvcc{nvcc: (CUDA *)} supports: up to gcc {gcc}",
        why="Each CUDA release accepts host compilers up to a certain version, checked in crt/host_config.h. A newer distribution's default gcc is beyond it.",
        fix="Install gcc-{gcc} and g++-{gcc} and let nvcc use it: export CC=gcc-{gcc} CXX=g++-{gcc} and nvcc -ccbin g++-{gcc} (CUDAHOSTCXX for CMake; conda: gxx_linux-64={gcc}), or use a newer CUDA toolkit that the framework also fits. -allow-unsupported-compiler only skips the check and may miscompile.",
    ),
    zh=Text(
        title="{have:gcc * |主机编译器}比该 nvcc{nvcc:（CUDA *）}支持的更新：最高 gcc {gcc}",
        why="每个 CUDA 版本只接受到某一版本的宿主编译器，由 crt/host_config.h 检查。较新发行版的默认 gcc 超出了范围。",
        fix="安装 gcc-{gcc}、g++-{gcc} 并让 nvcc 使用：export CC=gcc-{gcc} CXX=g++-{gcc}，nvcc 加 -ccbin g++-{gcc}（CMake 用 CUDAHOSTCXX；conda 用 gxx_linux-64={gcc}），或改用框架也支持的较新 CUDA 工具包。-allow-unsupported-compiler 只是跳过检查，可能编译出错误的代码。",
    ),
    variants={
        "msvc": (
            Text(
                title="This Visual Studio is newer than the CUDA toolkit{nvcc: (CUDA *)} supports: up to Visual Studio {max}",
                why="nvcc checks MSVC's version in crt/host_config.h: 'Only the versions between 2017 and {max} (inclusive) are supported'. An update of Visual Studio (17.10 and newer, or Visual Studio 2026) can exceed what an installed CUDA knows.",
                fix="Install an older MSVC toolset beside it in the Visual Studio Installer (for CUDA 11.x to 12.3: v143 14.39 or older, Visual Studio 2019 or 2022 before 17.10) and build from its developer prompt (vcvarsall.bat x64 -vcvars_ver=14.39), or use a newer CUDA toolkit. -allow-unsupported-compiler skips the check.",
            ),
            Text(
                title="Visual Studio 比该 CUDA 工具包{nvcc:（CUDA *）}支持的更新：最高 Visual Studio {max}",
                why="nvcc 在 crt/host_config.h 中检查 MSVC 版本：只支持 2017 到 {max}。Visual Studio 更新后（17.10 及以上，或 Visual Studio 2026）可能超出已装 CUDA 的范围。",
                fix="在 Visual Studio Installer 里并行安装较旧的 MSVC 工具集（CUDA 11.x 到 12.3 用 v143 14.39 或更早，即 Visual Studio 2019 或 17.10 之前的 2022），在其开发者命令行（vcvarsall.bat x64 -vcvars_ver=14.39）中编译；或换较新的 CUDA 工具包。-allow-unsupported-compiler 可跳过检查。",
            ),
        ),
        "stl": (
            Text(
                title="MSVC's standard library asks for CUDA {needs} or newer (STL1002), but nvcc is CUDA {nvcc}",
                why="Newer Visual Studio 2022 updates (17.10 and later) ship headers that refuse an older nvcc: 'Unexpected compiler version, expected CUDA {needs} or newer'.",
                fix="Use CUDA {needs} or newer, or an older MSVC toolset (14.39 or older; vcvarsall.bat x64 -vcvars_ver=14.39), or define _ALLOW_COMPILER_AND_STL_VERSION_MISMATCH at your own risk.",
            ),
            Text(
                title="MSVC 标准库要求 CUDA {needs} 及以上（STL1002），而 nvcc 是 CUDA {nvcc}",
                why="Visual Studio 2022 较新的更新（17.10 起）附带的头文件拒绝旧版 nvcc：“expected CUDA {needs} or newer”。",
                fix="使用 CUDA {needs} 或更新版本，或较旧的 MSVC 工具集（14.39 或更早；vcvarsall.bat x64 -vcvars_ver=14.39），或自担风险定义 _ALLOW_COMPILER_AND_STL_VERSION_MISMATCH。",
            ),
        ),
        "clang": (
            Text(
                title="This clang is not supported by the CUDA toolkit (CUDA {nvcc})",
                why="nvcc accepts clang up to a version fixed in crt/host_config.h.",
                fix="Use an older clang or a supported gcc (up to {gcc}) with nvcc -ccbin, or a newer CUDA toolkit.",
            ),
            Text(
                title="CUDA 工具包（CUDA {nvcc}）不支持这个 clang",
                why="nvcc 只接受 crt/host_config.h 中规定版本以内的 clang。",
                fix="用 nvcc -ccbin 指定较旧的 clang 或受支持的 gcc（最高 {gcc}），或换较新的 CUDA 工具包。",
            ),
        ),
        "cl": (
            Text(
                title="nvcc finds no usable MSVC compiler (cl.exe)",
                why="On Windows nvcc needs Microsoft's cl.exe on PATH. The build was not started from a developer prompt, or the Visual Studio C++ build tools are missing.",
                fix="Install 'Desktop development with C++' of the Visual Studio Build Tools 2019 or 2022 and build from the 'x64 Native Tools Command Prompt' (or set DISTUTILS_USE_SDK=1 after vcvars64.bat).",
            ),
            Text(
                title="nvcc 找不到可用的 MSVC 编译器（cl.exe）",
                why="Windows 上 nvcc 需要 PATH 里有微软的 cl.exe。构建不是从开发者命令行启动的，或没有安装 Visual Studio C++ 生成工具。",
                fix="安装 Visual Studio Build Tools 2019 或 2022 的“使用 C++ 的桌面开发”，并在“x64 Native Tools Command Prompt”中编译（或运行 vcvars64.bat 后设置 DISTUTILS_USE_SDK=1）。",
            ),
        ),
        "missing": (
            Text(
                title="nvcc cannot run its host compiler (g++ missing or broken)",
                why="nvcc hands the host part of the code to gcc/g++. The C++ part (cc1plus) is not installed, or only another version of it.",
                fix="Install the matching g++ (sudo apt-get install build-essential, or g++-{gcc}); conda: gxx_linux-64.",
            ),
            Text(
                title="nvcc 无法调用宿主编译器（缺 g++ 或已损坏）",
                why="nvcc 把宿主部分的代码交给 gcc/g++。C++ 部分（cc1plus）没有安装，或版本不同。",
                fix="安装匹配的 g++（sudo apt-get install build-essential 或 g++-{gcc}）；conda 用 gxx_linux-64。",
            ),
        ),
        "headers": (
            Text(
                title="The system's C++ headers (gcc {have}) are too new for this nvcc (CUDA {nvcc})",
                why="nvcc's front end does not understand the headers of a newer libstdc++ or glibc ('parameter packs not expanded', '_Float32 is undefined', exception specifications of cospi/rsqrt): the compiler is beyond the supported range even where the version check did not stop it.",
                fix="Compile with an older gcc that this CUDA supports (up to gcc {gcc}: CC=gcc-{gcc} CXX=g++-{gcc}, nvcc -ccbin g++-{gcc}), or use a newer CUDA toolkit.",
            ),
            Text(
                title="系统的 C++ 头文件（gcc {have}）对该 nvcc（CUDA {nvcc}）来说太新",
                why="nvcc 前端看不懂较新 libstdc++ 或 glibc 的头文件（'parameter packs not expanded'、'_Float32 is undefined'、cospi/rsqrt 的异常说明等）：即便版本检查没有拦住，编译器也已超出支持范围。",
                fix="用该 CUDA 支持的较旧 gcc 编译（最高 gcc {gcc}：CC=gcc-{gcc} CXX=g++-{gcc}，nvcc -ccbin g++-{gcc}），或换较新的 CUDA 工具包。",
            ),
        ),
        "old": (
            Text(
                title="The host compiler (gcc {have}) is too old for this build",
                why="The framework's headers need C++17 and, since torch 2.1, gcc 9 or newer.",
                fix="Install gcc and g++ 9 to {gcc} (conda: gxx_linux-64=11; CentOS: devtoolset or gcc-toolset) and set CC and CXX to them.",
            ),
            Text(
                title="宿主编译器（gcc {have}）对这次构建来说太旧",
                why="框架头文件需要 C++17；torch 2.1 起要求 gcc 9 及以上。",
                fix="安装 gcc/g++ 9 到 {gcc} 之间的版本（conda：gxx_linux-64=11；CentOS：devtoolset 或 gcc-toolset），并把 CC、CXX 指向它。",
            ),
        ),
    },
)
