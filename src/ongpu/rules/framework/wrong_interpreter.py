"""Another Python (environment, kernel) runs than the one that has the GPU build."""

import re
from collections.abc import Iterator

from ongpu.facts.environment import Commands, Machine
from ongpu.facts.framework import Packages, Python, TensorFlow, Torch
from ongpu.facts.installs import Installs
from ongpu.facts.symptoms import Symptoms
from ongpu.facts.visible import blind
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text


def check(
    python: Python | None,
    torch: Torch | None,
    symptoms: Symptoms | None,
    packages: Packages | None,
    installs: Installs | None,
    flow: TensorFlow | None,
    machine: Machine | None,
    commands: Commands | None,
) -> Iterator[Finding]:
    missed = blind(symptoms, torch, flow)
    failed = (
        *missed,
        *(
            symptoms.cite("torch-not-compiled-with-cuda", "no-module-framework", "cuda-requested-unavailable")
            if symptoms
            else ()
        ),
    )
    if installs and any(name.startswith("torch-") for item in installs.installs for name in item.removed):
        return  # the same environment, before and after
    differ = (
        next((c for c in torch.conflicts if c.startswith(("cuda:", "available:", "version:"))), None) if torch else None
    )
    where = symptoms.cite("kernel-named", "works-in-other", "pip-other-python", most=3) if symptoms else ()
    others = python.others if python else ()
    good = next((o for o in others if re.search(r"\+cu\d|cuda", o)), None)
    if good and torch and (torch.cuda == "" or torch.version is None):
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="other",
            values={"this": (python.executable if python else None) or "?", "other": good},
            fixes=(Fix("show-interpreter"),),
            refs=(*torch.refs[:2], *(python.refs if python else ())),
        )
        return
    if symptoms and symptoms.has("works-in-other"):
        yield Finding(
            certainty=Certainty.LIKELY,
            values=_values(symptoms, python),
            fixes=(Fix("show-interpreter"), Fix("register-kernel")),
            refs=(*symptoms.cite("works-in-other"), *where, *failed),
        )
        return
    if (
        torch
        and differ
        and any(mark in differ for mark in ("cpu", "True", "False", "cu1"))
        and (where or "available" in differ)
        and not differ.startswith("version: 2.")
    ) or (torch and differ and _cpu_and_cuda(differ)):
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="differ",
            values={"differ": differ},
            fixes=(Fix("show-interpreter"), Fix("register-kernel")),
            refs=(*(run.ref for run in (commands.of("python", "python2", "python3", "py") if commands else ())[:4]), *(torch.refs[:6] if torch else ()), *where),
        )
        return
    listed = bool((flow and flow.gpus) or (torch and torch.available)) or bool(symptoms and symptoms.has("gpu-listed"))
    unseen = symptoms.cite("notebook-blind-told", most=2) if symptoms else ()
    if unseen and listed and symptoms:
        exe = symptoms.value("exe", "windows-program-in-wsl") if machine and machine.wsl else None
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="exe" if exe else "",
            values={"what": symptoms.value("what", "notebook-blind-told") or "?", "this": "?", "exe": exe or "?"},
            fixes=(Fix("show-interpreter"), Fix("register-kernel")),
            refs=(*unseen, *symptoms.cite("windows-program-in-wsl", "gpu-listed", most=2)),
        )
        return
    skipped = symptoms.cite("pip-skipping", most=2) if symptoms else ()
    if skipped and symptoms and (failed or (torch and torch.version)):
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="pip",
            values={
                "module": symptoms.value("module", "pip-skipping") or symptoms.value("module2", "pip-skipping") or "torch",
                "version": (torch.version if torch else None) or "?",
            },
            fixes=(Fix("show-interpreter"),),
            refs=(*skipped, *(torch.about("version") if torch else ()), *failed),
        )
        return
    if symptoms and torch and torch.available and symptoms.has("program-venv"):
        refused = symptoms.cite("torch-not-compiled-with-cuda", "cuda-requested-unavailable", "no-module-framework", most=2)
        if refused:
            venv = symptoms.value("path", "program-venv") or symptoms.value("path2", "program-venv") or "venv"
            yield Finding(
                certainty=Certainty.LIKELY,
                variant="venv",
                values={"venv": venv},
                fixes=(Fix("show-interpreter"),),
                refs=(*symptoms.cite("program-venv", most=2), *refused, *torch.about("available")),
            )
            return
    paths = _interpreters(symptoms)
    missing = bool(symptoms and symptoms.has("no-module-framework"))
    if (
        missing
        and symptoms
        and (
            len(paths) > 1
            or symptoms.has("user-install", "kernel-named", "pip-other-python")
            or (installs and any(i.installed or i.asks("torch", "tensorflow", "jax") for i in installs.installs))
            or (packages and packages.get("torch", "tensorflow", "jax"))
        )
    ):
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="missing",
            values={"module": symptoms.value("module", "no-module-framework") or "?", "paths": paths or "?"},
            fixes=(Fix("show-interpreter"),),
            refs=(
                *symptoms.cite("no-module-framework"),
                *where,
                *symptoms.cite("user-install"),
                *(packages.cite("torch", "tensorflow", "jax") if packages else ()),
            ),
        )
    elif failed and len(paths) > 1 and symptoms:
        yield Finding(
            certainty=Certainty.LIKELY,
            variant="paths",
            values={"paths": paths},
            fixes=(Fix("show-interpreter"),),
            refs=(*symptoms.cite("interpreter-path", most=4), *failed),
        )


def _cpu_and_cuda(differ: str) -> bool:
    return bool(re.search(r"\+cpu", differ) and re.search(r"\+cu\d", differ))


def _interpreters(symptoms: Symptoms | None) -> list[str]:
    """The environments whose python or pip the lines name, each once."""
    found: dict[str, str] = {}
    for hit in symptoms.seen("interpreter-path", "pip-other-python", "user-install") if symptoms else ():
        path = (hit.groups.get("path") or "").replace("\\\\", "/").replace("\\", "/")
        root = re.sub(r"/(?:bin|Scripts|lib|Lib)/.*$|/python(?:\.exe|w\.exe)?$", "", path)
        if root:
            found.setdefault(root, path)
    return list(found.values())[:4]


def _values(symptoms: Symptoms, python: Python | None) -> dict[str, str]:
    return {
        "what": symptoms.value("what", "works-in-other") or "?",
        "this": (python.executable if python else None) or "?",
    }


RULE = Rule(
    slug="wrong-interpreter",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("cpu-only-build",),
    settle=(
        "python -c 'import sys, torch; print(sys.executable, torch.__file__, torch.__version__)'",
        "which -a python pip",
        "jupyter kernelspec list",
    ),
    see=(
        "https://ipython.readthedocs.io/en/stable/install/kernel_install.html",
        "https://packaging.python.org/en/latest/guides/installing-using-pip-and-virtual-environments/",
    ),
    en=Text(
        title="The program runs in another Python than the one that sees the GPU ({what})",
        why="The framework works in one place and not in the other: the notebook kernel, IDE or service uses another interpreter or environment, with a CPU build or none.",
        fix="Print sys.executable and torch.__version__ in both places. Register the right environment as a kernel (python -m ipykernel install --user --name gpu) and choose it, or set the IDE's or service's interpreter to it; install with python -m pip, so that pip belongs to that Python.",
    ),
    zh=Text(
        title="程序所用的 Python 与能看到 GPU 的不是同一个（{what}）",
        why="框架在一处正常，另一处不行：notebook 内核、IDE 或服务用的是另一个解释器或环境，里面是 CPU 版或根本没装。",
        fix="在两处分别打印 sys.executable 和 torch.__version__。把正确的环境注册为内核（python -m ipykernel install --user --name gpu）并选用它，或把 IDE、服务的解释器改过来；安装时用 python -m pip，确保 pip 属于该 Python。",
    ),
    variants={
        "exe": (
            Text(
                title="{exe} is a Windows program: started in WSL it runs the Python of Windows, not the one in WSL that sees the GPU",
                why="The shell of WSL finds Windows programs, too (its PATH holds the Windows folders). A jupyter or python that ends in .exe brings its own Python and packages, often without a GPU build.",
                fix="Install Jupyter in the WSL environment (python -m pip install jupyter), start it as jupyter notebook (not .exe; which jupyter must not name /mnt/c), and choose that environment's kernel: python -m ipykernel install --user --name gpu.",
            ),
            Text(
                title="{exe} 是 Windows 程序：在 WSL 里启动它，运行的是 Windows 的 Python，而不是 WSL 里能看到 GPU 的那个",
                why="WSL 的 shell 也能找到 Windows 程序（PATH 里有 Windows 目录）。以 .exe 结尾的 jupyter 或 python 带着自己的 Python 和包，常常没有 GPU 版。",
                fix="在 WSL 环境中安装 Jupyter（python -m pip install jupyter），用 jupyter notebook 启动（不要 .exe；which jupyter 不应指向 /mnt/c），并选用该环境的内核：python -m ipykernel install --user --name gpu。",
            ),
        ),
        "pip": (
            Text(
                title="pip finds no {module} in its Python, while the program has one{version: (*)}: they are two environments",
                why="pip belongs to another interpreter than the program (the venv is not activated: being in its folder is not enough), so whatever it installs or removes does not reach the program.",
                fix="Use the program's own interpreter: venv\\Scripts\\python -m pip (Windows) or venv/bin/python -m pip, or activate the venv first (venv\\Scripts\\activate; source venv/bin/activate); there uninstall the CPU build of {module} and install the CUDA build.",
            ),
            Text(
                title="pip 在它的 Python 里找不到 {module}，而程序里有{version:（*）}：这是两个环境",
                why="pip 属于另一个解释器（venv 没有激活；只是进入其目录并不够），因此它装的、删的都影响不到程序。",
                fix="使用程序自己的解释器：venv\\Scripts\\python -m pip（Windows）或 venv/bin/python -m pip，或先激活 venv（venv\\Scripts\\activate；source venv/bin/activate）；在其中卸载 CPU 版 {module} 并安装 CUDA 版。",
            ),
        ),
        "venv": (
            Text(
                title="The program uses its own environment ({venv}), not the Python in which PyTorch sees the GPU",
                why="torch.cuda.is_available() is True in one Python; the program starts another, whose torch has no CUDA or is missing.",
                fix="Look into that environment: {venv} -c 'import torch; print(torch.__version__, torch.cuda.is_available())'. Delete its venv folder and let the start script build it again, or install the CUDA build with that venv's python -m pip.",
            ),
            Text(
                title="程序用的是自己的环境（{venv}），不是 PyTorch 能看到 GPU 的那个 Python",
                why="在一个 Python 里 torch.cuda.is_available() 为 True；程序启动的却是另一个，里面的 torch 没有 CUDA 或根本没装。",
                fix="检查那个环境：{venv} -c 'import torch; print(torch.__version__, torch.cuda.is_available())'。删除其 venv 目录让启动脚本重建，或用该 venv 的 python -m pip 安装 CUDA 版。",
            ),
        ),
        "differ": (
            Text(
                title="Two different PyTorch installs answered: {differ}",
                why="The outputs come from two interpreters or environments. The one with the CPU build (or without the GPU) is the one that runs the program.",
                fix="Print sys.executable and torch.__file__ where the program runs; activate (conda activate, source .venv/bin/activate) or select the environment with the CUDA build there, and install with python -m pip.",
            ),
            Text(
                title="回答来自两个不同的 PyTorch：{differ}",
                why="这些输出出自两个解释器或环境，真正运行程序的是装着 CPU 版（或看不到 GPU）的那个。",
                fix="在程序运行处打印 sys.executable 和 torch.__file__；激活（conda activate、source .venv/bin/activate）或选用带 CUDA 版的环境，并用 python -m pip 安装。",
            ),
        ),
        "other": (
            Text(
                title="{this} has no CUDA build, but another environment has: {other}",
                why="The CUDA build was installed into another environment than the one that runs.",
                fix="Run the program with that environment's python (activate it, or call its full path), or install the CUDA build here with this interpreter's -m pip.",
            ),
            Text(
                title="{this} 没有 CUDA 版，而另一个环境有：{other}",
                why="CUDA 版装到了另一个环境里，而运行的不是它。",
                fix="用那个环境的 python 运行（激活它，或写完整路径），或用当前解释器的 -m pip 在这里安装 CUDA 版。",
            ),
        ),
        "missing": (
            Text(
                title="{module} is installed for another Python than the one that runs ({paths})",
                why="pip put the package into the environment that pip belongs to; the program, notebook or IDE runs another interpreter, where it does not exist.",
                fix="Install with the interpreter that runs the program: python -m pip install (in a notebook: %pip install), or activate the environment that has it. Check with which -a python pip and sys.executable.",
            ),
            Text(
                title="{module} 装在了另一个 Python 里，不是正在运行的这个（{paths}）",
                why="pip 把包装进了 pip 自己所属的环境；程序、notebook 或 IDE 用的是另一个解释器，那里没有。",
                fix="用运行程序的解释器安装：python -m pip install（notebook 里用 %pip install），或激活装有它的环境。用 which -a python pip 和 sys.executable 核对。",
            ),
        ),
        "paths": (
            Text(
                title="Several Python environments are in play: {paths}",
                why="The lines name different interpreters. The GPU build lies in one of them, the program runs in another.",
                fix="Print sys.executable and torch.__file__ in the failing program, activate the environment with the CUDA build, and use python -m pip there.",
            ),
            Text(
                title="涉及多个 Python 环境：{paths}",
                why="这些行指向不同的解释器：GPU 版在其中一个里，程序却在另一个里运行。",
                fix="在出错的程序里打印 sys.executable 和 torch.__file__，激活带 CUDA 版的环境，并在其中使用 python -m pip。",
            ),
        ),
    },
)
