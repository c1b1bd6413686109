"""A compiled package was built for another NumPy ABI than the NumPy installed."""

from collections.abc import Iterator

from ongpu.facts.framework import Packages, TensorFlow, Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Rule, Severity, Text

_SAID = ("numpy-1x-module", "numpy-not-available", "numpy-dtype-size", "numpy-abi-version", "numpy-removed")


def check(
    symptoms: Symptoms, packages: Packages | None, torch: Torch | None, flow: TensorFlow | None
) -> Iterator[Finding]:
    if not symptoms.has(*_SAID):
        return
    numpy = packages.version("numpy") if packages else None
    if symptoms.has("numpy-1x-running"):  # the words of the warning itself, over two lines
        numpy = symptoms.value("version", "numpy-1x-running")
    older = symptoms.has("numpy-dtype-size", "numpy-abi-version") and not symptoms.has(
        "numpy-1x-module", "numpy-not-available"
    )
    new = bool(numpy and numpy.split(".")[0].isdigit() and int(numpy.split(".")[0]) >= 2) or symptoms.has(
        "numpy-1x-module"
    )
    yield Finding(
        variant="" if new or not older else "size",
        certainty=Certainty.CERTAIN
        if symptoms.has("numpy-1x-module", "numpy-abi-version", "numpy-dtype-size") or new
        else Certainty.LIKELY,
        values={"numpy": numpy or "2.x", "torch": (torch.version if torch else None) or "?"},
        fixes=(Fix("numpy-1"),) if new or not older else (),
        refs=(
            *symptoms.cite(*_SAID, most=2),
            *symptoms.cite("numpy-1x-running", most=1),
            *(packages.cite("numpy") if packages else ()),
            *(torch.about("version") if torch else ()),
        ),
    )


RULE = Rule(
    slug="numpy-abi-mismatch",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("cpu-only-build", "companion-package-mismatch"),
    settle=("pip list | grep -iE '^(numpy|torch|tensorflow|opencv|pandas|scipy)'",),
    see=(
        "https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
        "https://github.com/pytorch/pytorch/issues/107302",
    ),
    en=Text(
        title="A package built for NumPy 1.x meets NumPy {numpy}",
        why="NumPy 2.0 changed its binary interface. Packages compiled against 1.x (torch before 2.3{torch:, here *}; old TensorFlow, OpenCV, pandas and others) cannot use it: 'Numpy is not available', '_ARRAY_API not found'. It has nothing to do with the GPU.",
        fix="pip install 'numpy<2', or update the package that complains to a release built for NumPy 2 (torch 2.3 or newer, TensorFlow 2.18 or newer).",
    ),
    zh=Text(
        title="为 NumPy 1.x 编译的包遇到了 NumPy {numpy}",
        why="NumPy 2.0 改变了二进制接口。针对 1.x 编译的包（2.3 之前的 torch{torch:，此处为 *}；旧的 TensorFlow、OpenCV、pandas 等）不能与之配合：'Numpy is not available'、'_ARRAY_API not found'。这与 GPU 无关。",
        fix="pip install 'numpy<2'；或把报错的包升级到支持 NumPy 2 的版本（torch 2.3 及以上，TensorFlow 2.18 及以上）。",
    ),
    variants={
        "size": (
            Text(
                title="A compiled package and NumPy ({numpy}) have different binary interfaces",
                why="'numpy.dtype size changed' or 'module compiled against ABI version': the package was compiled against a newer or older NumPy than the one installed.",
                fix="Reinstall the package that the traceback names so that it is built for this NumPy (pip install --force-reinstall --no-cache-dir PACKAGE), or install the NumPy it wants: upgrade NumPy where the package is newer, pip install 'numpy<2' where it is older.",
            ),
            Text(
                title="某个编译型包与 NumPy（{numpy}）的二进制接口不一致",
                why="'numpy.dtype size changed' 或 'module compiled against ABI version' 表示该包编译时所用的 NumPy 比现装的更新或更旧。",
                fix="重装回溯中提到的包，使其与当前 NumPy 匹配（pip install --force-reinstall --no-cache-dir 包名）；或安装它所需的 NumPy：包较新就升级 NumPy，包较旧就 pip install 'numpy<2'。",
            ),
        ),
    },
)
