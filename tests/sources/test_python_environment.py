"""An interpreter's packages and libraries, as facts; and how the machine's side finds them."""

import json
import sys
from pathlib import Path

import pytest

from ongpu.facts.framework import Jax, Packages, Python, TensorFlow, Torch
from ongpu.facts.libraries import Loader
from ongpu.hosts import interpreter
from ongpu.hosts.live import Live
from ongpu.model import Evidence, Fact
from ongpu.sources.python_environment import SOURCES


def facts(machine: Live) -> dict[type[Fact], Fact]:
    text, problem = interpreter.ask(machine, 10)
    return {type(fact): fact for fact in SOURCES[0].read(Evidence("python-environment", text, "x", problem=problem))}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A recorded environment."""
    folder = tmp_path / "opt/venv/lib/python3.11/site-packages"
    for name in (
        "torch-2.3.1+cu121",
        "numpy-1.26.4",
        "jax-0.4.30",
        "jax_cuda12_plugin-0.4.30",
        "tensorflow-2.16.1",
        "Foo.Bar-1.0",
    ):
        (folder / f"{name}.dist-info").mkdir(parents=True)
    (folder / "old_one-0.1-py3.11.egg-info").mkdir()
    (folder / "torch").mkdir()
    (folder / "torch/version.py").write_text(
        "__version__ = '2.3.1+cu121'\ncuda: Optional[str] = '12.1'\nhip: Optional[str] = None\n"
    )
    (folder / "tensorflow/python/platform").mkdir(parents=True)
    (folder / "tensorflow/python/platform/build_info.py").write_text(
        "build_info = collections.OrderedDict([('cuda_version', '12.3'), ('cudnn_version', '8'), ('is_cuda_build', True)])\n"
    )
    return folder


def test_a_recorded_environment(site: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "torch.py").touch()
    found = facts(Live(root=tmp_path, python=str(site), environ={"PYTHONPATH": str(project)}))
    python, packages, torch, jax, flow = (found[kind] for kind in (Python, Packages, Torch, Jax, TensorFlow))
    assert isinstance(python, Python)
    assert python.version == "3.11"
    assert python.shadows == (("torch", str(project / "torch.py")),)
    assert isinstance(packages, Packages)
    assert packages.complete
    assert {"foo-bar", "old-one", "jax-cuda12-plugin"} <= packages.packages.keys()
    assert isinstance(torch, Torch)
    assert (torch.version, torch.cuda, torch.hip, torch.available) == ("2.3.1+cu121", "12.1", None, None)
    assert isinstance(jax, Jax)
    assert (jax.version, jax.plugin) == ("0.4.30", "0.4.30")
    assert isinstance(flow, TensorFlow)
    assert (flow.version, flow.cuda, flow.cudnn) == ("2.16.1", "12.3", "8")


def test_a_cpu_build(site: Path, tmp_path: Path) -> None:
    (site / "torch/version.py").write_text("__version__ = '2.3.1+cpu'\ncuda: Optional[str] = None\n")
    torch = facts(Live(root=tmp_path, python=str(site), environ={}))[Torch]
    assert isinstance(torch, Torch)
    assert torch.cuda == ""


def test_second_copies_and_conda(site: Path, tmp_path: Path) -> None:
    (site / "numpy-1.24.0.dist-info").mkdir()
    packages = facts(Live(root=tmp_path, python=str(site), environ={}))[Packages]
    assert isinstance(packages, Packages)
    assert [(p.name, p.version) for p in packages.duplicates] == [("numpy", "1.26.4")]
    meta = tmp_path / "conda/conda-meta"
    meta.mkdir(parents=True)
    for name in ("pytorch-2.3.1-py3.11_cuda12.1_cudnn8.9.2_0", "pytorch-mutex-1.0-cuda", "zlib-1.3-h4ab18f5_1"):
        (meta / f"{name}.json").touch()
    assert interpreter.conda(tmp_path / "conda") == [
        ["pytorch", "2.3.1", str(meta), "py3.11_cuda12.1_cudnn8.9.2_0"], ["pytorch-mutex", "1.0", str(meta), "cuda"],
    ]  # fmt: skip


def test_this_interpreter() -> None:
    found = facts(Live(python=sys.executable))
    python, packages = found[Python], found[Packages]
    assert isinstance(python, Python)
    assert python.version == sys.version.split()[0]
    assert isinstance(packages, Packages)
    assert packages.get("pytest")


def test_loader_order(tmp_path: Path) -> None:
    """RPATH, LD_LIBRARY_PATH, RUNPATH, the cache; RPATH counts only where there is no RUNPATH."""
    lib = tmp_path / "site/torch/lib/libtorch_cuda.so"
    lib.parent.mkdir(parents=True)
    for folder in ("site/nvidia/lib", "ld"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "libcudart.so.12").touch()
    machine = Live(root=tmp_path, environ={"LD_LIBRARY_PATH": str(tmp_path / "ld")})

    def where(**about: list[str]) -> str:
        return interpreter.resolve(
            {str(lib): {"needed": ["libcudart.so.12", "libcuda.so.1", "libc.so.6"], **about}}, machine
        )[0][1]

    assert where(rpath=["$ORIGIN/../../nvidia/lib"]) == str(tmp_path / "site/nvidia/lib/libcudart.so.12")
    assert where(runpath=["$ORIGIN/../../nvidia/lib"]) == str(tmp_path / "ld/libcudart.so.12")
    assert where(rpath=["$ORIGIN/../../nvidia/lib"], runpath=["/nowhere"]) == str(tmp_path / "ld/libcudart.so.12")
    assert interpreter.resolve({str(lib): {"needed": ["libcudnn.so.9"]}}, machine) == [["libcudnn.so.9", "", str(lib)]]


def test_a_broken_interpreter_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Fatal Python error: init_fs_encoding'\nexit 1\n")
    python.chmod(0o755)
    text, problem = interpreter.ask(Live(python=str(python)), 5)
    assert text == ""
    assert problem
    assert "Fatal Python error" in problem
    assert interpreter.ask(Live(python=None), 5)[1]


def test_which_interpreter(site: Path, tmp_path: Path) -> None:
    assert interpreter.choose({"PATH": ""}, str(site)) == str(site)
    assert interpreter.choose({"PATH": ""}, sys.executable) == sys.executable
    assert interpreter.choose({"PATH": ""}, str(tmp_path / "nothing")) is None
    assert interpreter.choose({"VIRTUAL_ENV": sys.prefix, "PATH": ""}) == f"{sys.prefix}/bin/python"


def test_found_nearby(tmp_path: Path) -> None:
    (tmp_path / ".venv/lib/python3.12/site-packages/torch-2.4.0+cu121.dist-info").mkdir(parents=True)
    assert interpreter.others(tmp_path, Live(environ={})) == [f"{tmp_path / '.venv'}: torch 2.4.0+cu121"]


def test_unresolved_libraries_are_cited() -> None:
    about = {
        "version": "3.11",
        "executable": "p",
        "resolved": [["libcudnn.so.9", "", "/x/libtorch_cuda.so"], ["libcudart.so.12", "/y", "/x/libtorch_cuda.so"]],
    }
    loader = next(
        f for f in SOURCES[0].read(Evidence("python-environment", json.dumps(about), "x")) if isinstance(f, Loader)
    )
    assert [item.name for item in loader.missing()] == ["libcudnn.so.9"]
    assert loader.refs[0].quote == "libcudnn.so.9 => not found"
