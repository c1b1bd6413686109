"""`python -m ongpu.hook`: the script runs as without it; only an exception about GPUs is followed by a diagnosis."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SRC = str(Path(__file__).parents[2] / "src")
SHOWS = "import sys\nprint(sys.argv, sys.path[0], __name__, __file__, __spec__, __package__, __doc__, sorted(k for k in globals()))\n"
OOM = (
    "class OutOfMemoryError(RuntimeError): pass\n"
    "def step():\n    raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.20 GiB is free. Process 4242 has 70.00 GiB memory in use. Including non-PyTorch memory, this process has 7.90 GiB "
    "memory in use. Of the allocated memory 7.10 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.')\n"
    "step()\n"
)
SCRIPTS = {
    "shows": SHOWS,
    "exits": "import atexit, sys\natexit.register(print, 'bye')\nsys.exit(7)\n",
    "exits-with-words": "import sys\nsys.exit('no data')\n",
    "ends-early": "import os\nprint('x', flush=True)\nos._exit(3)\n",
    "interrupted": "raise KeyboardInterrupt\n",
    "wrong-syntax": "x = (\n",
    "own-fault": "d = {}\ndef f():\n    return d['cuda']\nf()\n",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e\n",
    "own-excepthook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0])\nraise ValueError('x')\n",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start(); t.join()\nprint('on')\n",
    "pickles": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))\n",
    "spawns": (
        "import multiprocessing as m\ndef f(q): q.put(__name__)\nif __name__ == '__main__':\n    c = m.get_context('spawn')\n"
        "    q = c.Queue()\n    p = c.Process(target=f, args=(q,))\n    p.start()\n    print(q.get(timeout=60))\n    p.join()\n"
    ),
}


def python(*arguments: str, cwd: Path, hook: bool, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-m", "ongpu.hook"] if hook else []), *arguments]
    env = {**os.environ, "PYTHONPATH": SRC, "LC_ALL": "C.UTF-8", "LANGUAGE": "en", **environ}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", SCRIPTS)
def test_as_without_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "script.py").write_text(SCRIPTS[name])
    alone, hooked = (python("folder/script.py", "--lr", "3", cwd=tmp_path, hook=hook) for hook in (False, True))
    assert (hooked.returncode, hooked.stdout) == (alone.returncode, alone.stdout)
    assert hooked.stderr == alone.stderr


def test_a_module_as_without_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "tool.py").write_text(SHOWS + "raise ValueError('bad')\n")
    alone, hooked = (python("-m", "package.tool", "--lr", "3", cwd=tmp_path, hook=hook) for hook in (False, True))
    assert "package.tool" in alone.stdout
    assert (hooked.returncode, hooked.stderr) == (alone.returncode, alone.stderr)
    assert re.sub("0x[0-9a-f]+", "", hooked.stdout) == re.sub("0x[0-9a-f]+", "", alone.stdout)


def test_a_folder_as_without_it(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import sys, other\nprint(sys.argv, sys.path[0], __name__, other.X)\n")
    (tmp_path / "app" / "other.py").write_text("X = 3\n")
    alone, hooked = (python("app", "a", cwd=tmp_path, hook=hook) for hook in (False, True))
    assert alone.returncode == 0
    assert (hooked.returncode, hooked.stdout, hooked.stderr) == (0, alone.stdout, alone.stderr)


def test_the_traceback_first_then_the_diagnosis(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OOM)
    alone, hooked = (python("train.py", cwd=tmp_path, hook=hook) for hook in (False, True))
    assert hooked.returncode == 1
    assert hooked.stderr.startswith(alone.stderr)
    diagnosis = hooked.stderr[len(alone.stderr) :]
    assert "error: oom-other-process" in diagnosis
    assert "70.00 GiB" in diagnosis
    assert "为什么" not in diagnosis
    assert "oom-other-process" in python("train.py", cwd=tmp_path, hook=True, LC_ALL="zh_CN.UTF-8").stderr


def test_secrets_are_masked(tmp_path: Path) -> None:
    secret = "token = 'hf_abcdefghijklmnopqrstuvwxyz0123'\n"
    (tmp_path / "train.py").write_text(secret + "raise RuntimeError('CUDA error: no kernel image ' + token)\n")
    alone, hooked = (python("train.py", cwd=tmp_path, hook=hook) for hook in (False, True))
    diagnosis = hooked.stderr[len(alone.stderr) :]
    assert "ongpu" in diagnosis
    assert "hf_abc" not in diagnosis


def test_our_own_failure_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import ongpu.engine\nongpu.engine.collect = None\n" + OOM)
    hooked = python("train.py", cwd=tmp_path, hook=True)
    assert hooked.returncode == 1
    assert hooked.stderr.splitlines()[-1].startswith("ongpu: the diagnosis failed: TypeError")
    assert hooked.stderr.count("Traceback") == 1


@pytest.mark.parametrize("arguments", [[], ["-m"], ["none.py"]])
def test_bad_usage(arguments: list[str], tmp_path: Path) -> None:
    hooked = python(*arguments, cwd=tmp_path, hook=True)
    assert hooked.returncode == 2
    assert "ongpu.hook" in hooked.stderr
    assert "Traceback" not in hooked.stderr


def test_an_old_python_runs_the_script_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OOM)
    (tmp_path / "old.py").write_text("import sys, ongpu.hook as h\nh.OLDEST = (4, 0)\nsys.argv[1:] = ['train.py']\nh.main()\n")
    run = python("old.py", cwd=tmp_path, hook=False)
    assert run.returncode == 1
    assert "needs Python 3.11 or newer" in run.stderr.splitlines()[0]
    assert run.stderr.count("OutOfMemoryError: CUDA out of memory") == 1
    assert "oom-other-process" not in run.stderr


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0), (["none.py"], 2)])
def test_its_own_words_in_chinese(arguments: list[str], code: int, tmp_path: Path) -> None:
    hooked = python(*arguments, cwd=tmp_path, hook=True, LC_ALL="zh_CN.UTF-8", PYTHONUTF8="1")
    assert hooked.returncode == code
    shown = hooked.stdout + hooked.stderr
    assert ("没有这个文件" if arguments == ["none.py"] else "示例：python -m ongpu.hook train.py") in shown
    assert "no such" not in shown
    assert "usage:" not in shown


def test_the_help_explains_and_gives_an_example(tmp_path: Path) -> None:
    hooked = python("--help", cwd=tmp_path, hook=True)
    assert "example: python -m ongpu.hook train.py" in hooked.stdout
    assert hooked.stderr == ""


def test_the_users_own_line_is_the_first_evidence(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OOM)
    shown = python("train.py", cwd=tmp_path, hook=True).stderr
    seen = next(line for line in shown.splitlines() if line.strip().startswith("seen"))
    assert seen.split()[1] == "train.py:3"
    assert "raise OutOfMemoryError" in seen
