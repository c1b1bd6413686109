"""The driver is older than the CUDA that the program was built for."""

from collections.abc import Iterator

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Packages, TensorFlow, Torch
from ongpu.facts.hardware import Gpus
from ongpu.facts.installs import Installs
from ongpu.facts.libraries import Toolkit
from ongpu.facts.symptoms import Symptoms
from ongpu.knowledge import tensorflow
from ongpu.knowledge.cuda import branches, cuda_of_build, cuda_of_driver, oldest_driver_for, out_of_reach, support_ended_after
from ongpu.knowledge.gpus import compute_capability
from ongpu.knowledge.pci import architecture_of_device_id
from ongpu.lazy import lazy
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text, Words

SAID = ("driver-too-old-found", "driver-insufficient", "driver-code-35", "driver-newer-call")
# CUDA of a package's plain wheel, by its name: the suffix says it.
NAMED = {"cupy-cuda12x": "12.0", "cupy-cuda11x": "11.2", "cupy-cuda13x": "13.0", "jax-cuda12-plugin": "12.0", "jax-cuda13-plugin": "13.0", "jax-cuda12-pjrt": "12.0",
         "nvidia-cuda-runtime-cu12": "12.0", "nvidia-cuda-runtime-cu11": "11.0"}
INDEX = {11: "cu118", 12: "cu126"}  # the PyTorch index of each CUDA major whose wheels reach back to its first drivers
FITTING = {"pytorch": "install-torch-for-driver", "tensorflow": "install-tensorflow-for-driver", "jax": "install-jax-for-driver", "cupy": "install-cupy-for-driver"}
_PIN = lazy(r"(?:cudatoolkit|pytorch-cuda)={1,2}(?P<v>\d{1,2}\.\d{1,2})")
# paddlepaddle-gpu's plain wheel on PyPI (https://www.paddlepaddle.org.cn/documentation/docs/en/install/Tables_en.html)
PADDLE = (("2.5", "11.2"), ("2.0", "10.2"), ("1.7", "10.0"))


def check(
    symptoms: Symptoms | None, driver: Driver | None, torch: Torch | None, packages: Packages | None, machine: Machine | None, container: Container | None,
    toolkit: Toolkit | None, tf: TensorFlow | None, gpus: Gpus | None, installs: Installs | None,
) -> Iterator[Finding]:
    said = symptoms.cite(*SAID) if symptoms else ()
    unknown = symptoms.cite("card-unknown-to-driver") if symptoms else ()
    if unknown and symptoms and not _dropped(symptoms, gpus):
        mine = symptoms.value("driver", "card-unknown-to-driver") or (driver.version if driver else None) or "?"
        yield Finding(
            certainty=Certainty.LIKELY, variant="card", fixes=(Fix("update-driver"),), refs=(*unknown, *symptoms.cite("nvrm-pci-id", most=1)),
            values={"have": mine, "card": symptoms.value("id", "nvrm-pci-id") or (gpus.all_names()[0] if gpus and gpus.all_names() else "the GPU"), "branch": None},
        )  # fmt: skip
        return
    if machine and (machine.system == "macos" or machine.jetson):
        return
    if driver and (driver.module_loaded is False or driver.smi_works is False or driver.installed is False):
        return  # then the module is the cause, whatever the framework's headline says
    windows = bool(machine and (machine.system == "windows" or machine.wsl))
    have = driver.version if driver else None
    paired = _paired(symptoms)
    found = _decimal(symptoms.value("found", "driver-too-old-found") if symptoms else None) or paired[0]
    knows = found or (driver.cuda if driver else None) or (cuda_of_driver(have) if have else None)
    what, cuda, where = _need(torch, packages, tf, paired, toolkit if said else None)
    if not cuda and installs and symptoms and (missed := symptoms.cite("gpu-not-seen", "lightning-no-gpu", most=2)):
        what, cuda, where = _pinned(installs)
        where = (*where, *missed)
    if not cuda and symptoms and (said or symptoms.has("gpu-idle-complaint", "no-cuda-device", "hw-driver-silent")):
        what, cuda, where = _named(symptoms)
    if container and container.image_cuda and not (torch and torch.cuda) and not said:
        return
    if symptoms and symptoms.has("driver-too-old-docker") and not said:
        return
    floor = oldest_driver_for(cuda, windows) if cuda else None
    old = _old(have, floor, knows, cuda)
    if old is None and not said:
        return
    if not said and not old:
        return
    if old is False:  # the figures say that it is new enough: another libcuda was loaded
        if not (symptoms and symptoms.has("driver-too-old-found", "driver-insufficient")):
            return
        certainty = Certainty.POSSIBLE
    elif old or (symptoms and symptoms.has("driver-too-old-found")):
        certainty = Certainty.CERTAIN
    else:
        certainty = Certainty.LIKELY
    variant = "loaded" if old is False else "" if have and cuda else "words"
    card, why = _barred(gpus, cuda, windows) if cuda and old else ("", None)
    if why:
        variant = "barred"
    branch = (floor or "").partition(".")[0]
    yield Finding(
        certainty=certainty,
        variant=variant,
        values={"have": have or "?", "knows": knows or "?", "need": floor or "?", "cuda": cuda or "?", "what": what or "?", "branch": _branch(branch) or None, "serves": _serves(knows),
                "card": card or None, "barred": why,
                "told": Words(f"driver {have}", f"驱动 {have}") if have else Words(f"a driver for CUDA {found}", f"支持 CUDA {found} 的驱动") if found else Words("the driver", "驱动")},
        fixes=(*(() if why else (Fix("update-driver"),)), *(_fitting(what or "", knows) if old else ())),
        refs=(*said, *(driver.about("version", "cuda")[:3] if driver and (have or driver.cuda) else ()), *where, *(gpus.refs[:1] if gpus and why else ())),
    )


def _barred(gpus: Gpus | None, cuda: str, windows: bool) -> tuple[str, Words | None]:
    """(card, why no newer driver helps it): its last branch is older than that CUDA needs, or that CUDA has no code for it."""
    for name, capability in gpus.cards() if gpus else ():
        found = out_of_reach(cuda, capability, windows)
        if found and found[0] == "driver":
            return name, Words(f"drivers after branch {found[1]} leave this card without any", f"{found[1]} 之后的驱动分支不再支持这张卡，换了就没有驱动可用")
        if found:
            return name, Words(f"CUDA {found[1]} is the last with code for this card", f"CUDA {found[1]} 是最后一个支持这张卡的版本")
    return "", None


def _need(
    torch: Torch | None, packages: Packages | None, tf: TensorFlow | None, paired: tuple[str | None, str | None, tuple[Ref, ...]], toolkit: Toolkit | None
) -> tuple[str | None, str | None, tuple[Ref, ...]]:
    """(program, its CUDA, the lines that say so)."""
    if torch and torch.cuda:
        return f"PyTorch {torch.version or ''}".strip(), torch.cuda, torch.about("cuda", "version")
    if paired[1]:
        return f"CUDA {paired[1]} runtime", paired[1], paired[2]
    if tf and tf.cuda:
        return f"TensorFlow {tf.version or ''}".strip(), tf.cuda, tf.about("cuda", "version")
    if packages:
        for name, package in packages.packages.items():
            if name in NAMED:
                return name, NAMED[name], packages.cite(name)
            if name in ("paddlepaddle-gpu",):
                build = cuda_of_build(package.local.replace("post", "cu")) if package.local else None
                for since, default in () if build else PADDLE:
                    if _numbers(package.version) >= _numbers(since):
                        build = default
                        break
                if build:
                    return f"{name} {package.version}", build, packages.cite(name)
            if name in ("mxnet-cu110", "mxnet-cu112", "mxnet-cu102", "mxnet-cu101", "mxnet-cu100", "mxnet-cu92"):
                return name, cuda_of_build(name.partition("-")[2]), packages.cite(name)
        for name in ("tensorflow-gpu", "tensorflow"):
            if (whole := packages.get(name)) and (release := tensorflow.release(whole.public)) and release.cuda:
                return f"{name} {whole.version}", release.cuda, packages.cite(name)
    if toolkit and (toolkit.nvcc or toolkit.told_cuda):
        cuda = toolkit.nvcc or toolkit.told_cuda
        return f"CUDA {cuda} program", cuda, toolkit.about("nvcc", "told_cuda")[:2]
    return None, None, ()


def _pinned(installs: Installs) -> tuple[str | None, str | None, tuple[Ref, ...]]:
    """(build, its CUDA, the command) of the last conda install that asked for a CUDA by number: cudatoolkit=10.2, pytorch-cuda=12.1."""
    for item in reversed(installs.of("cudatoolkit", "pytorch-cuda")):
        for asked in item.asked:
            if match := _PIN.search(asked):
                return f"PyTorch ({asked})", match["v"], (item.ref,)
    return None, None, ()


def _dropped(symptoms: Symptoms, gpus: Gpus | None) -> bool:
    """Whether the card that the driver does not know is one that drivers have dropped, not one that came later."""
    found = architecture_of_device_id(symptoms.value("id", "nvrm-pci-id") or "")
    capability = found.capability if found else next((c for name in (gpus.all_names() if gpus else ()) if (c := compute_capability(name))), None)
    return bool(capability and support_ended_after(capability))


def _named(symptoms: Symptoms) -> tuple[str | None, str | None, tuple[Ref, ...]]:
    """(package, its CUDA, lines) of a package that is told without its version, or with an extra."""
    refs = symptoms.cite("cuda-named-package", most=2)
    if found := symptoms.value("tf", "cuda-named-package"):
        release = tensorflow.release(found)
        return f"tensorflow[and-cuda] {found}", release.cuda if release else None, refs
    name, major = symptoms.value("name", "cuda-named-package"), symptoms.value("major", "cuda-named-package")
    return (name, f"{major}.0", refs) if major else (None, None, ())


def _paired(symptoms: Symptoms | None) -> tuple[str | None, str | None, tuple[Ref, ...]]:
    """(driver's CUDA, runtime's CUDA) where one line names both and the driver's is the older."""
    for hit in symptoms.seen("driver-runtime-versions") if symptoms else ():
        groups = [v for k, v in sorted(hit.groups.items())]
        if len(groups) == 2:
            drivers = next(v for k, v in hit.groups.items() if k.startswith("driver"))
            runtime = next(v for k, v in hit.groups.items() if k.startswith("runtime"))
            return _decimal(drivers) or drivers, _decimal(runtime) or runtime, (hit.ref,)
    return None, None, ()


def _decimal(number: str | None) -> str | None:
    """"10010" -> "10.1"; "9000" -> "9.0"; None where it is none."""
    if not number or not number.isdigit() or int(number) < 4000:
        return None
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _old(have: str | None, floor: str | None, knows: str | None, cuda: str | None) -> bool | None:
    """Whether the driver is below the floor; None where it cannot be told."""
    if have and floor:
        return _numbers(have) < _numbers(floor)
    if knows and cuda:
        mine, need = _numbers(knows), _numbers(cuda)
        return mine[0] < need[0] if need[0] >= 11 else mine < need
    return None


def _fitting(what: str, knows: str | None) -> Iterator[Fix]:
    """The recipe that installs a build which this driver runs."""
    for name, recipe in FITTING.items():
        if what.lower().startswith(name):
            major = _numbers(knows)[:1] if knows else ()
            yield Fix(recipe, {"build": INDEX.get(major[0]) if major else None})
            return


def _serves(knows: str | None) -> Words | str:
    """The builds that a driver of this CUDA runs: from CUDA 11 on all minors of its major."""
    if not knows or not _numbers(knows):
        return ""
    major = _numbers(knows)[0]
    index = f"https://download.pytorch.org/whl/{INDEX[major]}" if major in INDEX else ""
    more = (f" (PyTorch: --index-url {index})", f"（PyTorch：--index-url {index}）") if index else ("", "")
    return Words(f"any CUDA {major}.x build, or older{more[0]}", f"任何 CUDA {major}.x 或更旧的构建{more[1]}") if major >= 11 else Words(f"CUDA {knows} or older", f"CUDA {knows} 或更旧")


def _branch(number: str) -> str:
    """A branch that distributions ship, at least as new as the floor."""
    shipped = ("470", "535", "550", "570", "580")
    known = [b.number for b in branches()]
    return next((b for b in shipped if number and int(b) >= int(number)), known[-1] if number else "")


RULE = Rule(
    slug="driver-too-old-for-cuda",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("cpu-only-build", "wrong-index-for-gpu", "driver-not-installed", "cuda-lib-missing", "jax-without-cuda"),
    settle=("nvidia-smi", "python -c 'import torch; print(torch.__version__, torch.version.cuda)'"),
    see=("https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/", "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"),
    en=Text(
        title="Driver {have} is too old for CUDA {cuda}: {what} needs {need} or newer{knows: (this driver knows CUDA *)}",
        why="{what} brings its own CUDA {cuda} runtime, but the driver decides which runtimes can start. The CUDA Version that nvidia-smi prints is the driver's own; from CUDA 11 on it runs programs of any minor version of that major. An installed toolkit does not change it.",
        fix="Update the driver to {need} or newer and reboot, or install a build for a CUDA that this driver runs{serves:: *}.",
    ),
    zh=Text(
        title="驱动 {have} 太旧，跑不了 CUDA {cuda}：{what} 至少需要 {need}{knows:（该驱动自带 CUDA *）}",
        why="{what} 自带 CUDA {cuda} 运行时，但能启动哪个运行时由驱动决定。nvidia-smi 显示的 CUDA Version 是驱动自带的版本；从 CUDA 11 起，同一主版本内任何次版本的程序都能运行。装什么工具包都不会改变它。",
        fix="把驱动升级到 {need} 或更新并重启；或安装该驱动能运行的构建{serves:：*}。",
    ),
    variants={
        "barred": (
            Text(
                title="Driver {have} is too old for CUDA {cuda} ({what}), and no newer driver helps the {card}: {barred}",
                why="{what} brings its own CUDA {cuda} runtime, which needs driver {need} or newer. For the {card} that does not help: {barred}.",
                fix="Keep a driver that supports the card, and install an older build that both run: `ongpu pick` names the newest whose libraries have code for the card. Else use a newer card.",
            ),
            Text(
                title="驱动 {have} 太旧，跑不了 CUDA {cuda}（{what}），而更新的驱动对 {card} 也没有用：{barred}",
                why="{what} 自带 CUDA {cuda} 运行时，需要驱动 {need} 或更新。但对 {card} 没有用：{barred}。",
                fix="保留支持这张卡的驱动，安装驱动和显卡都能运行的较旧构建：`ongpu pick` 会给出库里仍有这张卡代码的最新构建。否则换新卡。",
            ),
        ),
        "card": (
            Text(
                title="The NVIDIA driver {have} does not know this card ({card}): it is older than the card",
                why="The kernel module compares the card's PCI id with the list of its release, and passes over cards that came later.",
                fix="Install a newer driver branch (for a GeForce or data-centre card of the last years: the newest production branch, 580 or newer; Blackwell wants the open "
                "modules, 570 or newer), then reboot.",
            ),
            Text(
                title="NVIDIA 驱动 {have} 不认识这张卡（{card}）：驱动比显卡旧",
                why="内核模块按本版本的列表核对显卡的 PCI ID，之后才发布的卡会被跳过。",
                fix="安装更新的驱动分支（近几年的 GeForce 或数据中心卡用最新的生产分支 580 及以上；Blackwell 需要 570 以上的开放内核模块），然后重启。",
            ),
        ),
        "words": (
            Text(
                title="The CUDA runtime{what: (*)} is newer than what {told} serves{need:: it needs * or newer}",
                why="Error 35 (CUDA driver version is insufficient for CUDA runtime version): the driver is older than the CUDA that the program was built for. The same line is printed where no driver answers at all: run nvidia-smi to see which.",
                fix="Compare \"CUDA Version\" of nvidia-smi with the program's CUDA. Update the driver{need: to * or newer} and reboot, or install a build for the older CUDA. CUDA 13 needs driver 580, CUDA 12 needs 525.60.13, CUDA 11 needs 450.80.02, CUDA 10.2 needs 440.33, CUDA 10.1 418.39, CUDA 10.0 410.48, CUDA 9.0 384.81.",
            ),
            Text(
                title="{what:* 的 }CUDA 运行时比{told}支持的新{need:：至少需要 *}",
                why="错误 35（CUDA driver version is insufficient for CUDA runtime version）：驱动比程序构建所用的 CUDA 旧。如果根本没有驱动应答，也会打印同样的话：运行 nvidia-smi 即可区分。",
                fix="把 nvidia-smi 显示的 “CUDA Version” 与程序的 CUDA 对比。升级驱动{need:到 * 或更新}并重启，或安装面向旧 CUDA 的构建。CUDA 13 需要驱动 580，CUDA 12 需要 525.60.13，CUDA 11 需要 450.80.02，CUDA 10.2 需要 440.33，CUDA 10.1 需要 418.39，CUDA 10.0 需要 410.48，CUDA 9.0 需要 384.81。",
            ),
        ),
        "loaded": (
            Text(
                title="The program says that the driver is too old, yet the installed one ({told}) is new enough for CUDA {cuda}: another libcuda is loaded",
                why="The program loaded a libcuda of another driver or a stub (an old copy in the image, a stubs folder in LD_LIBRARY_PATH), or the driver was updated without a reboot.",
                fix="See which libcuda is loaded: ldconfig -p | grep libcuda and LD_DEBUG=libs. Remove stubs and old copies from LD_LIBRARY_PATH, reboot after a driver update.",
            ),
            Text(
                title="程序说驱动太旧，但{told}对 CUDA {cuda} 已足够新：加载的是另一个 libcuda",
                why="程序加载了其他驱动版本的 libcuda 或桩库（镜像里的旧副本、LD_LIBRARY_PATH 中的 stubs 目录），或驱动升级后没有重启。",
                fix="查看实际加载的 libcuda：ldconfig -p | grep libcuda，以及 LD_DEBUG=libs。从 LD_LIBRARY_PATH 去掉 stubs 和旧副本；升级驱动后重启。",
            ),
        ),
    },
)
