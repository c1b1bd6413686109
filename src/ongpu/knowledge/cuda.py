"""CUDA and drivers: which driver runs which CUDA, which toolkit and which driver know which GPU."""

from datetime import date
from functools import cache

from ongpu.knowledge._tables import rows, table
from ongpu.knowledge._versions import capability_numbers, cuda_numbers, numbers
from ongpu.knowledge.gpus import OpenModules, architecture
from ongpu.lazy import dataclass

# Windows numbers its drivers up to this far above the branch: 551 and 552 belong to R550, 475 to R470.
BRANCH_REACH = 5


@dataclass(frozen=True, slots=True)
class Branch:
    """A driver branch. Dates are ISO, a day or a month ('2028-06'); None: no source names one."""

    number: str  # '535'
    cuda: str  # newest CUDA its drivers know: "CUDA Version" in nvidia-smi
    kind: str | None = None  # 'production', 'new feature', 'long term', 'legacy'
    first_release: str | None = None
    end_of_life: str | None = None
    newest_seen: str | None = None
    note: str | None = None

    def ended(self, today: date) -> bool | None:
        """Whether support has ended by `today`; None when no source names an end."""
        if self.end_of_life is None:
            return None
        return today.isoformat()[: len(self.end_of_life)] > self.end_of_life


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A toolkit release and the driver that came with it, which is not the floor for running its programs."""

    version: str
    linux_driver: str | None
    windows_driver: str | None


@dataclass(frozen=True, slots=True)
class ForwardCompatibility:
    """Where the cuda-compat package lets a newer CUDA run on an older driver."""

    since_cuda: str
    kinds: tuple[str, ...]  # kinds of GPU, as in gpus.Model.kind
    platforms: tuple[str, ...]
    error_on_other_cards: int
    error_when_stale: int
    note: str


def cuda_of_build(build: str) -> str | None:
    """CUDA version of a wheel's tag: 'cu118' -> '11.8', 'cu130' -> '13.0'; None for 'cpu', 'rocm6.2' and others."""
    found = cuda_numbers(build) if build.strip().lower().startswith("cu") else ()
    return ".".join(map(str, found)) or None


@cache
def _floors() -> dict[tuple[int, ...], tuple[str, str]]:
    return {numbers(row["cuda"]): (row["linux"], row["windows"]) for row in table("cuda_driver")["floor"]}


def oldest_driver_for(cuda: str, windows: bool = False) -> str | None:
    """Oldest driver that runs programs built with a CUDA version ('12.1', '11', 'cu124'); None when unknown.

    From CUDA 11 on the floor is that of the major version: NVIDIA's minor-version compatibility. It covers machine code,
    not PTX newer than the driver, and a GPU may need a newer driver: see oldest_driver_for_gpu.
    """
    asked = cuda_numbers(cuda)
    found = _floors().get(asked[:2]) or _floors().get(asked[:1])
    if found is None and len(asked) == 1:  # '10' alone: what its first release needs
        minors = sorted(known for known in _floors() if known[0] == asked[0])
        found = _floors()[minors[0]] if minors else None
    return found[int(windows)] if found else None


@cache
def branches() -> tuple[Branch, ...]:
    """All branches of the table, oldest first."""
    return tuple(Branch(**row) for row in table("cuda_driver")["branch"])


def branch(driver: str) -> Branch | None:
    """Branch of a driver version, Linux or Windows ('535.104.05', '537.13'); None when no known branch is near below it."""
    asked = numbers(driver)[:1]
    if not asked:
        return None
    below = [known for known in branches() if numbers(known.number) <= asked]
    if not below or asked[0] - int(below[-1].number) >= BRANCH_REACH:
        return None
    return below[-1]


def cuda_of_driver(driver: str) -> str | None:
    """Newest CUDA that a driver knows: what nvidia-smi prints as "CUDA Version"; None when its branch is not known."""
    found = branch(driver)
    return found.cuda if found else None


@cache
def toolkits() -> tuple[Toolkit, ...]:
    """All toolkit releases, newest first."""
    found = []
    for version, linux, windows in rows(table("cuda_driver")["toolkits"]["rows"], "|"):
        found.append(Toolkit(version, None if linux == "-" else linux, None if windows == "-" else windows))
    return tuple(found)


def newest_toolkit() -> str:
    """Newest toolkit that the tables know, for instance '13.5'."""
    return str(table("cuda_driver")["newest_toolkit"])


def newest_branch() -> str:
    """Newest driver branch that the tables know."""
    return str(table("cuda_driver")["newest_branch"])


def newest_branch_for(capability: str) -> str | None:
    """Last driver branch that supports a compute capability: '580' for '6.1'; the newest known branch when support goes on.

    None when the capability is unknown, or a Jetson's, whose driver comes with the system image.
    """
    found = architecture(capability)
    if found is None or found.system_on_chip:
        return None
    return found.last_driver or newest_branch()


def support_ended_after(capability: str) -> str | None:
    """Branch after which a capability is no longer supported; None when support goes on or the capability is unknown."""
    found = architecture(capability)
    return found.last_driver if found else None


def oldest_driver_for_gpu(capability: str) -> str | None:
    """Oldest driver branch that can know a GPU of that capability: '570' for '12.0'; None when unknown.

    A lower bound: it is the branch of the first toolkit for the capability; single cards need later drivers.
    """
    found = architecture(capability)
    return found.first_driver if found else None


def out_of_reach(cuda: str, capability: str, windows: bool = False) -> tuple[str, str] | None:
    """Why no driver lets a card run programs of a CUDA version: ("driver", "470") its last branch is older than CUDA needs,
    ("code", "12.9") the last CUDA that compiles for it is older; None where a driver does, or the tables do not say."""
    found, need = architecture(capability), oldest_driver_for(cuda, windows)
    if found is None or need is None:
        return None
    if found.last_driver and numbers(found.last_driver) < numbers(need)[:1]:
        return "driver", found.last_driver
    if found.cuda_last and numbers(found.cuda_last)[:1] < cuda_numbers(cuda)[:1]:
        return "code", found.cuda_last
    return None


def open_modules(capability: str) -> OpenModules | None:
    """NVIDIA's open kernel modules for a capability: required (Blackwell and newer), supported (Turing to Hopper), unsupported.

    None when the capability is unknown. Grace Hopper (9.0 on Arm) requires them too.
    """
    found = architecture(capability)
    return found.open_modules if found else None


def toolkit_supports(cuda: str, capability: str) -> bool | None:
    """Whether a toolkit's compiler has the capability as a target; None when either is unknown or newer than the tables."""
    asked, found = cuda_numbers(cuda)[:2], architecture(capability)
    if not asked or capability_numbers(capability) is None or found is None or asked > numbers(newest_toolkit()):
        return None
    asked = asked if len(asked) == 2 else (*asked, 0)
    return numbers(found.cuda_first) <= asked and (found.cuda_last is None or asked <= numbers(found.cuda_last))


@cache
def forward_compatibility() -> ForwardCompatibility:
    """The facts of the cuda-compat package."""
    row = table("cuda_driver")["forward_compatibility"]
    return ForwardCompatibility(
        row["since_cuda"],
        tuple(row["kinds"]),
        tuple(row["platforms"]),
        row["error_on_other_cards"],
        row["error_when_stale"],
        row["note"],
    )
