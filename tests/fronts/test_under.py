"""`ongpu run --sanitize` and `--profile`: with programs that print what the real ones print (there is no GPU here), and real PyTorch.

How these stand-ins behave was seen with the real programs on a machine without a GPU: compute-sanitizer 2026.4 (wheel
nvidia-cuda-sanitizer-api 13.5.25) ends at SIGTERM without its command and gives 0 for a command that fails; the one of the wheel
nvidia-cuda-sanitizer-api-cu12 12.9.79 starts nothing and gives 0; nsys 2022.4 writes its own words to standard output. The report is
one of PyTorch's issues (https://github.com/pytorch/pytorch/issues/140777).
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from parts import profiles
from parts.interpreters import bare
from parts.machines import build_nvml
from parts.runs import Machine

from ongpu.hosts import tools as programs
from ongpu.queue import tools

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs commands as Linux does")
REPORT = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at matmul_kernel+0xec0 in matmul_triton2.py:43
=========     by thread (18,0,0) in block (0,0,0)
=========     Access to 0x74505bcccca0 is out of bounds
=========     and is 161 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch(at::Tensor, int) [0x9544e] in my_ext.so
=========
========= ERROR SUMMARY: 1 error
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
SANITIZER = """#!/bin/sh

echo '========= words of the tool'
while [ "$1" != --log-file ]; do shift; done
cat {report} > "$2"; shift 2
{start}
"""
NSYS = """#!/bin/sh
case $1 in
profile) while :; do case $1 in --output) out=$2; shift 2; break;; *) shift;; esac; done
  "$@"; code=$?; echo "Generating '/tmp/nsys-report-1c3a.qdstrm'"; : > $out.nsys-rep; exit $code;;
export) cp {database} "$5";;
esac
"""


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("no gcc: the fake NVML cannot be built")
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.chdir(tmp_path)
    machine = Machine(tmp_path, nvml, cards=1)
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "VIRTUAL_ENV"):
        machine.environ.pop(name, None)
    return machine


def program(machine: Machine, name: str, text: str) -> Path:
    """A stand-in for a tool, first on PATH."""
    path = machine.folder / "tools" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    machine.environ["PATH"] = f"{path.parent}:{os.environ['PATH']}"
    return path


def sanitizer(machine: Machine, report: str, start: str = '"$@"; exit 0') -> None:
    (machine.folder / "report").write_text(report)
    program(machine, "compute-sanitizer", SANITIZER.format(report=machine.folder / "report", start=start))

SAVES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), print('saved'), sys.exit(7)))
print('up', flush=True)
time.sleep(30)
"""


class TestSanitize:
    def test_what_it_found_is_explained_and_the_command_keeps_its_own_streams_and_code(self, machine: Machine) -> None:
        sanitizer(machine, REPORT)
        done = machine.run("--sanitize", "--", "sh", "-c", "echo out; echo caching=$PYTORCH_NO_CUDA_MEMORY_CACHING; exit 3")
        assert (done.returncode, done.stdout) == (3, "out\ncaching=1\n"), "the stand-in says 0, and writes to its standard output"
        for words in ("illegal-memory-access", "matmul_kernel", "matmul_triton2.py:43", "161 bytes after", "launch(at::Tensor, int)"):
            assert words in " ".join(done.stderr.split()), done.stderr
        assert (machine.folder / "ongpu-sanitize" / tools.REPORT).read_text() == REPORT

    def test_a_command_that_goes_well_is_explained_too_in_chinese(self, machine: Machine) -> None:
        sanitizer(machine, REPORT)
        done = machine.run("--sanitize", "racecheck", "--lang", "zh", "--", "true")
        assert done.returncode == 0
        assert "compute-sanitizer (racecheck) 的结果" in done.stderr
        assert "非法访问" in done.stderr

    def test_nothing_found_is_said_and_nothing_is_overwritten(self, machine: Machine) -> None:
        sanitizer(machine, CLEAN)
        for _ in range(2):
            assert "compute-sanitizer (memcheck) found nothing wrong" in machine.run("--sanitize", "--", "true").stderr
        assert sorted(path.name for path in machine.folder.glob("ongpu-*")) == ["ongpu-sanitize", "ongpu-sanitize-2"]

    def test_quiet_says_nothing_of_what_is_well(self, machine: Machine) -> None:
        sanitizer(machine, CLEAN)
        assert machine.run("--quiet", "--sanitize", "--", "true").stderr == ""
        sanitizer(machine, REPORT)
        assert "illegal-memory-access" in machine.run("--quiet", "--sanitize", "--", "true").stderr

    def test_files_lie_beside_the_report(self, machine: Machine) -> None:
        sanitizer(machine, REPORT)
        (machine.folder / "kept").mkdir()
        machine.run("--sanitize", "--report", "kept/a.json", "--", "true")
        assert (machine.folder / "kept/ongpu-sanitize" / tools.REPORT).exists()
        assert "illegal-memory-access" in (machine.folder / "kept/a.json").read_text()

    def test_a_tool_that_starts_nothing_is_no_clean_answer(self, machine: Machine) -> None:
        sanitizer(machine, CLEAN, "exit 0")
        done = machine.run("--sanitize", "--", "true")
        assert done.returncode == 126
        assert "did not start the command" in done.stderr
        assert "found nothing wrong" not in done.stderr

    def test_a_command_without_cuda_was_not_checked(self, machine: Machine) -> None:
        sanitizer(machine, f"========= COMPUTE-SANITIZER\n========= {tools.UNUSED}\n")
        assert "no CUDA call: nothing was checked" in machine.run("--sanitize", "--", "true").stderr

    def test_a_signal_reaches_the_command_and_its_end_is_waited_for(self, machine: Machine) -> None:
        sanitizer(machine, CLEAN, '"$@" & trap "exit 143" TERM; wait; exit 0')
        one = machine.start("--sanitize", "--", sys.executable, "-c", SAVES)
        assert one.stdout
        assert one.stdout.readline() == "up\n"
        one.send_signal(signal.SIGTERM)
        out, _ = one.communicate(timeout=30)
        assert (one.returncode, out) == (7, "saved\n")

    def test_a_tool_that_dies_leaves_a_command_that_is_still_ours(self, machine: Machine) -> None:
        sanitizer(machine, CLEAN, '"$@" & sleep 1; exit 143')
        done = machine.run("--sanitize", "--", "sh", "-c", "sleep 3; echo late; exit 4")
        assert (done.returncode, done.stdout) == (4, "late\n")

    @pytest.mark.parametrize(("arguments", "words"), [
        (("--sanitize", "python", "train.py"), "one of memcheck"),
        (("--profile", "magic", "--", "true"), "one of auto, nsys, torch"),
        (("--sanitize", "--profile", "--", "true"), "one at a time"),
        (("--sanitize", "--", "true"), "pip install nvidia-cuda-sanitizer-api"),
        (("--profile", "nsys", "--", "true"), "sudo apt install nsight-systems-cli"),
    ])  # fmt: skip
    def test_what_cannot_be_is_one_line_in_both_languages(self, machine: Machine, arguments: tuple[str, ...], words: str) -> None:
        machine.environ["PATH"] = "/usr/bin:/bin"
        for locale in ("C.UTF-8", "zh_CN.UTF-8"):
            done = machine.run(*arguments, LC_ALL=locale)
            assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
            assert words in done.stderr or locale.startswith("zh")
            assert locale.startswith("C") or any("\u4e00" <= char <= "\u9fff" for char in done.stderr)
        assert not list(machine.folder.glob("ongpu-*"))

    def test_where_nothing_can_be_written_nothing_is_started(self, machine: Machine) -> None:
        sanitizer(machine, CLEAN)
        done = machine.run("--sanitize", "--report", "/proc/a.json", "--", "echo", "started")
        assert (done.returncode, done.stdout) == (2, "")
        assert "/proc/ongpu-sanitize: " in done.stderr


class TestProfile:
    def nsys(self, machine: Machine, **trace: object) -> None:
        database = profiles.nsys(machine.folder / "made.sqlite", profiles.kineto(**trace))  # type: ignore[arg-type]
        program(machine, "nsys", NSYS.format(database=database))

    def test_what_nsys_recorded_is_explained(self, machine: Machine) -> None:
        self.nsys(machine, load=3000.0)
        done = machine.run("--profile", "--", "sh", "-c", "echo out; exit 3")
        assert (done.returncode, done.stdout) == (3, "out\n")
        assert "Nsight Systems found" in done.stderr
        assert "where-time-goes" in done.stderr
        assert (machine.folder / "ongpu-profile/trace.sqlite").exists()

    def test_a_recording_that_cannot_be_read_is_told(self, machine: Machine) -> None:
        (machine.folder / "bad").write_bytes(b"SQLite format 3\0" + bytes(200))
        program(machine, "nsys", NSYS.format(database=machine.folder / "bad"))
        done = machine.run("--profile", "nsys", "--", "true")
        assert done.returncode == 0
        assert "Nsight Systems recorded nothing: " in done.stderr

    def test_without_nsys_and_without_torch_it_says_how_to_get_it(self, machine: Machine) -> None:
        machine.environ["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        done = machine.run("--profile", "--", sys.executable, "-c", "print(1)")
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert "no PyTorch was used: nothing was recorded. nsys is not there" in done.stderr


HOOK = Path(programs.__file__).parents[1] / "probes/profiling"
FAKE_TORCH = """
class Profile:
    def __init__(self, activities, schedule): self.steps = 0
    def start(self): print('start')
    def step(self): self.steps += 1
    def stop(self): print('stop', self.steps)
    def export_chrome_trace(self, path): open(path, 'w').write('{}')
class N:
    def __init__(self, **names): self.__dict__.update(names)
cuda, version = N(is_initialized=lambda: False), N(cuda=None)
autograd = N(_profiler_enabled=lambda: BUSY)
profiler = N(profile=Profile, ProfilerActivity=N(CPU=0, CUDA=1), ProfilerAction=N(RECORD=2))
BUSY = False
"""
OPTIMIZER = "hooks = []\nregister_optimizer_step_post_hook = hooks.append\n"
STEPS = """
import torch, sys
from torch.optim.optimizer import hooks
for n in range(int(sys.argv[1])): [hook('o', 0, 0) for hook in hooks]
print('end')
"""


class TestHook:
    """The recorder inside the program, with a stand-in for torch."""

    def run(self, folder: Path, *arguments: str, torch: str = FAKE_TORCH, hook: Path = HOOK) -> "subprocess.CompletedProcess[str]":
        package = folder / "site/torch/optim"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").write_text(torch)
        (package / "__init__.py").write_text("")
        (package / "optimizer.py").write_text(OPTIMIZER)
        (folder / "out").mkdir()
        environ = {**os.environ, "PYTHONPATH": f"{hook}:{folder / 'site'}", "ONGPU_PROFILE": str(folder / "out")}
        return subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, text=True, timeout=30, check=False)

    def test_some_steps_are_recorded_once(self, tmp_path: Path) -> None:
        done = self.run(tmp_path, "-c", STEPS, "30")
        assert (done.stdout, done.stderr) == ("start\nstop 5\nend\n", "")
        assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".gz"]

    def test_a_program_that_ends_early_is_told_or_kept(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, "-c", STEPS, "3").stdout == "end\n"
        assert "ended after 3 steps" in (tmp_path / "out/notes.txt").read_text()
        shutil.rmtree(tmp_path / "site")
        shutil.rmtree(tmp_path / "out")
        assert self.run(tmp_path, "-c", STEPS, "7").stdout == "start\nend\nstop 2\n"

    def test_a_profiler_of_the_program_is_left_alone(self, tmp_path: Path) -> None:
        done = self.run(tmp_path, "-c", STEPS, "30", torch=FAKE_TORCH.replace("BUSY = False", "BUSY = True"))
        assert done.stdout == "end\n"
        assert "profiler of its own" in (tmp_path / "out/notes.txt").read_text()

    def test_without_steps_some_seconds_are_recorded(self, tmp_path: Path) -> None:
        waits = "import time, torch; print('up', flush=True); time.sleep(1.5)"
        hook = (HOOK / "sitecustomize.py").read_text().replace("LATE, SECONDS = 30.0, 3.0", "LATE, SECONDS = 0.3, 0.3")
        (tmp_path / "hook").mkdir()
        (tmp_path / "hook/sitecustomize.py").write_text(hook)
        assert self.run(tmp_path, "-c", waits, hook=tmp_path / "hook").stdout == "up\nstart\nstop 0\n"

    def test_one_that_begins_meanwhile_ends_ours(self, tmp_path: Path) -> None:
        begins = STEPS.replace("print('end')", "torch.profiler.profile(0, 0).start(); print('end')")
        assert self.run(tmp_path, "-c", begins, "7").stdout == "start\nstop 2\nstart\nend\n"

    def test_what_fails_in_it_does_not_fail_the_program(self, tmp_path: Path) -> None:
        done = self.run(tmp_path, "-c", STEPS, "30", torch=FAKE_TORCH.replace("print('start')", "1 / 0"))
        assert (done.returncode, done.stdout) == (0, "end\n")
        assert "ZeroDivisionError" in (tmp_path / "out/notes.txt").read_text()

    def test_the_environments_own_sitecustomize_runs_as_it_would(self, tmp_path: Path) -> None:
        (tmp_path / "site").mkdir()
        (tmp_path / "site/sitecustomize.py").write_text("print('mine')")
        shutil.copytree(tmp_path / "site", tmp_path / "kept")
        environ = {**os.environ, "PYTHONPATH": f"{HOOK}:{tmp_path / 'site'}", "ONGPU_PROFILE": str(tmp_path)}
        show = "import sys, sitecustomize; print(sitecustomize.__file__, any('profiling' in p for p in sys.path))"
        done = subprocess.run([sys.executable, "-c", show], env=environ, capture_output=True, text=True, timeout=30, check=True)
        assert done.stdout == f"mine\n{tmp_path}/site/sitecustomize.py False\n"


TRAIN = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(20):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
print(torch.__spec__.loader.__class__.__name__)
"""


def test_signs_that_mean_something_in_names_of_files() -> None:
    for line in (tools.sanitizer("cs", "leakcheck", "/a%p"), tools.nsys("nsys", "/a%p")):
        assert any("/a%%p/" in word for word in line)
    assert "--leak-check" in tools.sanitizer("cs", "leakcheck", "/a")


@pytest.mark.real
def test_the_hook_records_a_real_training_loop(machine: Machine) -> None:
    """With the PyTorch of an environment that holds one (its CPU build): what it did on a GPU cannot be shown here."""
    python = bare("torch")
    (machine.folder / "train.py").write_text(TRAIN)
    done = machine.run("--gpus", "0", "--profile", "torch", "--", python, "train.py")
    assert (done.returncode, done.stdout) == (0, "SourceFileLoader\n")
    assert "the profile shows no activity of a GPU" in done.stderr
    assert len(list((machine.folder / "ongpu-profile").glob("trace-*.json.gz"))) == 1


class TestFinding:
    def whole(self, path: Path, helper: bool = True) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
        if helper:
            (path.parent / programs.NEEDED).write_text("")
        return path

    def test_the_newest_toolkit_where_none_is_the_default(self, tmp_path: Path) -> None:
        for version in ("12.9", "12.10"):
            self.whole(tmp_path / f"usr/local/cuda-{version}/bin/compute-sanitizer")
        newest = tmp_path / "usr/local/cuda-12.10/bin/compute-sanitizer"
        assert programs.find(programs.SANITIZER, {"PATH": ""}, None, str(tmp_path)) == str(newest)

    def test_the_wheel_that_is_whole_and_not_the_one_that_starts_nothing(self, tmp_path: Path) -> None:
        site, python = tmp_path / "v/lib/python3.11/site-packages/nvidia", str(tmp_path / "v/bin/python")
        self.whole(site / "cuda_sanitizer_api/bin/compute-sanitizer", helper=False)
        self.whole(site / "cu12/bin/compute-sanitizer", helper=False)
        assert programs.find(programs.SANITIZER, {"PATH": ""}, python, str(tmp_path)) is None
        self.whole(site / "cu13/compute-sanitizer/compute-sanitizer")
        self.whole(site / "cu13/bin/compute-sanitizer", helper=False)
        assert programs.find(programs.SANITIZER, {"PATH": ""}, python, str(tmp_path)) == str(site / "cu13/bin/compute-sanitizer")

    def test_cuda_home_and_path(self, tmp_path: Path) -> None:
        home = self.whole(tmp_path / "home/bin/nsys")
        assert programs.find(programs.NSYS, {"PATH": "", "CUDA_HOME": str(tmp_path / "home")}, None, str(tmp_path)) == str(home)
        assert programs.find(programs.NSYS, {"PATH": str(home.parent)}, None, str(tmp_path)) == str(home)
