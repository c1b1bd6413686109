"""The repair commands of one machine: which packages, which versions, which interpreter."""

import pytest

from ongpu.facts.driver import Driver, SystemPackages
from ongpu.facts.environment import Machine
from ongpu.facts.framework import Package, Packages, Python
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.model import Fact, Finding, Fix, Report, Risk, Verdict
from ongpu.report.recipes import commands


def runs(recipe: str, *facts: Fact, **values: str) -> list[str]:
    """The commands of one recipe on a machine of which these facts are known."""
    report = Report(subject="x", verdict=Verdict.FOUND, facts=facts)
    return [command.run for command in commands(Finding(fixes=(Fix(recipe, values),)), report)]


def card(capability: str) -> Gpus:
    return Gpus(gpus=(Gpu(index=0, capability=capability),))


@pytest.mark.parametrize(
    ("installed", "wanted"),
    [
        ("nvidia-driver-535", "nvidia-driver-550 "),
        ("nvidia-driver-535-server", "nvidia-driver-550-server "),
        ("nvidia-driver-535-open", "nvidia-driver-550-open "),
        ("nvidia-driver-535-server-open", "nvidia-driver-550-server-open "),
    ],
)
def test_the_driver_package_keeps_its_kind(installed: str, wanted: str) -> None:
    packages = SystemPackages(packages={installed: "535.183.01"})
    assert any(f"apt install {wanted}" in run for run in runs("update-driver", packages, branch="550"))
    assert runs("reinstall-packages", packages, meta=installed)[-1] == f"sudo apt install --reinstall {installed} && sudo reboot"


@pytest.mark.parametrize("system", ["ubuntu", "debian", "fedora", "rhel", "arch", "opensuse"])
@pytest.mark.parametrize(("capability", "last"), [("2.0", 390), ("3.7", 470), ("6.1", 580)])
def test_no_driver_is_installed_that_drops_the_card(system: str, capability: str, last: int) -> None:
    machine = Machine(system="linux", distribution=system)
    for recipe in ("install-driver", "update-driver"):
        for run in runs(recipe, machine, card(capability), branch="595"):
            assert "595" not in run
            assert "open" not in run  # the open modules begin with Turing
            assert "pacman -S" not in run  # a rolling release has the newest branch only
            assert "legacy" not in run
    old = runs("install-driver", machine, card(capability))
    assert system not in ("fedora", "arch") or any(str(last) in run for run in old)
    assert runs("install-driver", machine, card("8.6"))


def test_a_repair_stays_near_the_version_that_is_there() -> None:
    torch = Packages(packages={"torch": Package(name="torch", version="2.9.1+cu130")})
    (run,) = runs("install-torch-cuda", card("6.1"), Driver(version="580.95.05"), Python(version="3.12"), torch)
    assert run.startswith("pip install torch==2.9.1+cu126 ")
    torch = Packages(packages={"torch": Package(name="torch", version="2.6.0+cu124")})  # the next minor is the first with code
    (run,) = runs("install-torch-cuda", card("12.0"), Driver(version="580.95.05"), Python(version="3.12"), torch)
    assert run.startswith("pip install torch==2.7.1+cu128 ")


def test_nothing_stands_in_where_no_build_runs() -> None:
    here = (card("3.7"), Driver(version="390.157"), Python(version="3.13"))
    assert runs("install-torch-for-driver", *here, build="cu118") == []
    assert runs("install-torch-for-driver", build="cu118") == [
        "pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu118"
    ]


@pytest.mark.parametrize(
    ("executable", "has_pip", "run"),
    [
        ("/opt/venv/bin/python", True, "/opt/venv/bin/python -m pip install 'numpy<2'"),
        ("/opt/venv/bin/python", False, "uv pip install 'numpy<2' --python /opt/venv/bin/python"),
        ("/opt/venv/lib/python3.11/site-packages", True, "/opt/venv/bin/python -m pip install 'numpy<2'"),
        ("/opt/venv/lib/python3.11/site-packages", False, "uv pip install 'numpy<2' --python /opt/venv"),
        (r"C:\venv\Lib\site-packages", True, r"C:\venv\Scripts\python.exe -m pip install 'numpy<2'"),
        (r"C:\venv\Lib\site-packages", False, r"uv pip install 'numpy<2' --python C:\venv"),
        (r"C:\My Work\Scripts\python.exe", True, r""" "C:\My Work\Scripts\python.exe" -m pip install 'numpy<2'""".strip()),
    ],
)
def test_the_environment_that_was_examined(executable: str, has_pip: bool, run: str) -> None:
    names = {"pip": Package(name="pip", version="24.0")} if has_pip else {}
    assert runs("numpy-1", Python(executable=executable), Packages(packages=names, complete=True)) == [run]


def test_what_ends_or_starts_the_service_of_others_is_disruptive() -> None:
    report = Report(subject="x", verdict=Verdict.FOUND, facts=(Machine(system="linux"),))
    told = commands(Finding(fixes=(Fix("restart-mps"),)), report)
    risks = {command.run: command.risk for command in told if not command.looks}
    assert set(risks) == {"echo quit | nvidia-cuda-mps-control", "nvidia-cuda-mps-control -d"}
    assert set(risks.values()) == {Risk.DISRUPTIVE}
