"""The closed loop of `ongpu fix`, with real processes: a real interpreter, a stand-in for pip that needs no network."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fronts_run import ongpu
from parts.machines import Box, build_nvml
from parts.torches import build_torch

from ongpu.facts.environment import Machine
from ongpu.fronts import fix
from ongpu.model import Command, Finding, Fix, Report, Risk, Verdict
from ongpu.report.recipes import commands, table

RUN = Path(__file__).parent / "fix_run.py"
# Installs what is asked for from a folder of unpacked wheels, as pip does: metadata and files, the former version removed.
PIP = """\
import pathlib, shutil, sys
site = pathlib.Path(__file__).parent.parent
house, mode = (site / "pip" / name for name in ("house", "mode"))
print("pip", *sys.argv[1:])
if mode.read_text() == "fails":
    sys.exit("ERROR: No matching distribution found")
if mode.read_text() == "works" and sys.argv[1] == "uninstall":
    for name in sys.argv[3:]:
        for old in site.glob(name.replace("-", "_") + "-*.dist-info"):
            shutil.rmtree(old)
elif mode.read_text() == "works":
    for name in [a.partition("==")[0].replace("-", "_") for a in sys.argv[1:]]:
        if not (house / name).is_dir():
            continue
        for old in [*site.glob(name + "-*.dist-info"), site / name]:
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(house / name, site, dirs_exist_ok=True)
"""


class Place:
    """A healthy recorded machine whose environment holds a CPU build of PyTorch."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.box = Box()
        self.box.write(folder / "tree")
        self.environ = json.dumps(self.box.environment(library))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        self.python = folder / "venv/bin/python"
        self.site = next((folder / "venv/lib").glob("python*/site-packages"))
        build_torch(self.site / "pip/house/torch", 1)
        (self.site / "pip/__main__.py").write_text(PIP)
        (self.site / "pip-24.0.dist-info").mkdir()
        (self.site / "torch-2.3.1+cpu.dist-info").mkdir()
        (self.site / "torch").mkdir()
        (self.site / "torch/version.py").write_text("__version__ = '2.3.1+cpu'\ncuda = None\nhip = None\n")
        self.pip("works")

    def pip(self, mode: str) -> None:
        """What pip will do: "works", "fails", "idle" (says that all went well, and did nothing)."""
        (self.site / "pip/mode").write_text(mode)

    def command(self, *arguments: str, mark: str = "") -> list[str]:
        return [sys.executable, str(RUN), str(self.box.root), self.environ, str(self.python), mark, *arguments]

    def fix(self, *arguments: str, mark: str = "") -> "subprocess.CompletedProcess[str]":
        environ = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": ""}
        return subprocess.run(
            self.command("fix", *arguments, mark=mark), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            env=environ, check=False,
        )  # fmt: skip

    def answer(self, words: str) -> tuple[int, str]:
        """Exit code and what a terminal shows, where these words are typed."""
        ours, theirs = pty.openpty()
        environ = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": ""}
        with subprocess.Popen(self.command("fix"), stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as process:
            os.close(theirs)
            os.write(ours, words.encode())
            shown = b""
            try:
                while part := os.read(ours, 65536):
                    shown += part
            except OSError:  # the other end is closed
                pass
            code = process.wait(timeout=60)
        os.close(ours)
        return code, shown.decode()

    @property
    def installed(self) -> list[str]:
        return [path.name for path in self.site.glob("torch-*.dist-info")]


CPU, CUDA = ["torch-2.3.1+cpu.dist-info"], ["torch-2.3.1+cu121.dist-info"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import shutil

    if not shutil.which("gcc"):
        pytest.skip("no gcc: the fake NVML cannot be built")
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def place(tmp_path: Path, library: Path) -> Place:
    return Place(tmp_path, library)


def test_the_safe_repair_is_run_and_the_fault_is_gone(place: Place) -> None:
    done = place.fix("--yes")
    assert "cpu-only-build: gone" in done.stdout, done.stdout + done.stderr
    assert f"{place.python} -m pip install" in done.stdout
    assert place.installed == CUDA
    assert done.returncode == 0
    again = place.fix("--yes")
    assert (again.returncode, again.stdout) == (0, "Nothing to repair was found.\n")


def test_a_repair_that_fails(place: Place) -> None:
    place.pip("fails")
    done = place.fix("--yes")
    assert "failed: exit status 1" in done.stdout
    assert "gone" not in done.stdout
    assert (done.returncode, place.installed) == (1, CPU)


def test_a_repair_that_leaves_the_fault(place: Place) -> None:
    place.pip("idle")
    done = place.fix("--yes")
    assert "cpu-only-build: still there" in done.stdout
    assert done.returncode == 1


def test_only_what_is_safe_is_run(place: Place, tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    done = place.fix("--yes", mark=str(mark))
    assert f"$ touch {mark}   [disruptive]" in done.stdout
    assert f"$ touch {mark}   [destructive]" in done.stdout
    assert not mark.exists()
    assert place.installed == CUDA


def test_without_a_terminal_nothing_is_run(place: Place) -> None:
    done = place.fix()
    assert "no terminal to ask on" in done.stdout
    assert (done.returncode, place.installed) == (1, CPU)


@pytest.mark.parametrize("words", ["n\n", "\n", "what\n", "\x04"])
def test_on_a_terminal_no_means_no(place: Place, words: str) -> None:
    code, shown = place.answer(words)
    assert "[y/N]" in shown
    assert (code, place.installed) == (1, CPU)


def test_on_a_terminal_yes_means_yes(place: Place) -> None:
    code, shown = place.answer("y\n")
    assert "cpu-only-build: gone" in shown
    assert (code, place.installed) == (0, CUDA)


def test_a_fault_that_is_not_here(place: Place) -> None:
    done = place.fix("gpu-fell-off-bus")
    assert done.returncode == 2
    assert "cpu-only-build" in done.stderr
    assert done.stderr.count("\n") == 1


def test_another_root_is_only_looked_at(place: Place) -> None:
    done = ongpu("fix", "--yes", "--root", str(place.box.root), "--python", str(place.python))
    assert "nothing is run" in done.stdout
    assert (done.returncode, place.installed) == (1, CPU)


def test_in_chinese(place: Place) -> None:
    done = place.fix("--yes", "--lang", "zh")
    assert "cpu-only-build：已消失" in done.stdout
    assert done.returncode == 0


def test_two_packages_of_one_framework(place: Place) -> None:
    subprocess.run([str(place.python), "-m", "pip", "install", "torch"], check=True, capture_output=True)
    for name in ("onnxruntime-1.18.0", "onnxruntime_gpu-1.18.0"):
        (place.site / f"{name}.dist-info").mkdir()
    (place.site / "pip/house/onnxruntime_gpu/onnxruntime_gpu-1.18.0.dist-info").mkdir(parents=True)
    done = place.fix("--yes")
    assert "duplicate-framework-packages: gone" in done.stdout, done.stdout + done.stderr
    assert "undo: " in done.stdout
    assert "pip install onnxruntime-gpu==1.18.0 onnxruntime==1.18.0" in done.stdout
    assert not list(place.site.glob("onnxruntime-*"))
    assert list(place.site.glob("onnxruntime_gpu-1.18.0*"))


def test_what_pip_cannot_bring_back_is_not_removed(place: Place) -> None:
    subprocess.run([str(place.python), "-m", "pip", "install", "torch"], check=True, capture_output=True)
    for name in ("onnxruntime-1.18.0", "onnxruntime_gpu-1.18.0"):
        (place.site / f"{name}.dist-info").mkdir()
    (place.site / "onnxruntime_gpu-1.18.0.dist-info/direct_url.json").write_text("{}")  # built here
    done = place.fix("--yes")
    assert "uninstall -y onnxruntime-gpu onnxruntime   [destructive]" in done.stdout
    assert list(place.site.glob("onnxruntime-*")), done.stdout


@pytest.mark.parametrize(
    ("run", "is_run"),
    [
        ("pip install 'nvidia-cudnn-cu12<9'", True),
        ("python -m pip install torch==2.3.1", True),
        ("sudo nvidia-smi -i 0 -c 0", True),
        ("sudo nvidia-smi -i <index> -c 0", False),
        ("sudo nvidia-smi -i <序号> -c 0", False),
        ("unset CUDA_VISIBLE_DEVICES", False),
        ("export CUDA_HOME=/usr/local/cuda", False),
        ("$env:CUDA_HOME = $env:CUDA_PATH", False),
        ("Remove-Item Env:CUDA_VISIBLE_DEVICES", False),
        ("setx CUDA_DEVICE_ORDER PCI_BUS_ID", False),
        ("uv venv --python 3.12 && . .venv/bin/activate", False),
    ],
)
def test_what_a_child_process_can_do(run: str, is_run: bool) -> None:
    assert fix._runnable(Command(run, Risk.SAFE)) is is_run
    assert bool(fix._why_not(Command(run, Risk.SAFE))) is not is_run


@pytest.mark.parametrize(
    "recipe", ["find-libcuda", "look-at-process", "look-at-disk", "look-at-traffic", "show-library-resolution", "ask-slurm-gpu"]
)
def test_a_look_is_never_taken_for_a_repair(recipe: str) -> None:
    report = Report(subject="x", verdict=Verdict.FOUND, facts=(Machine(system="linux", distribution="debian"),))
    looks = [one for one in commands(Finding(fixes=(Fix(recipe, {"pid": "7"}),)), report) if not one.run.startswith("export ")]
    assert looks
    assert not list(fix._safe(fix.Step(Finding(), tuple(looks))))
    assert {fix._why_not(one) for one in looks} == {", only looks"}


def test_every_recipe_that_sets_a_variable_is_left_to_the_reader() -> None:
    runs = [step["run"] for recipe in table().values() for step in recipe.get("command", ())]
    sets = [run for run in runs if re.match(r"(export|unset|set) |\$env:", run)]
    assert sets
    assert not [run for run in sets if fix._runnable(Command(run, Risk.SAFE))]


def test_a_variable_is_not_unset_for_the_reader(place: Place) -> None:
    subprocess.run([str(place.python), "-m", "pip", "install", "torch"], check=True, capture_output=True)
    place.environ = json.dumps({**json.loads(place.environ), "CUDA_VISIBLE_DEVICES": ""})
    done = place.fix("--yes")
    assert "$ unset CUDA_VISIBLE_DEVICES   [safe, in your own shell]" in done.stdout
    assert "still there" not in done.stdout
    assert "Nothing of this is run for you" in done.stdout
    assert done.returncode == 1
