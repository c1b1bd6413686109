"""Submitted shell scripts are copied: what runs is what they said then, under their own name and in the job's folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from queues import Queue, until

from ongpu.queue.engines.local import scripts
from ongpu.queue.job import Spec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local engine is Linux's")
NAMES = "echo $0 $# $1 $PWD; . ${0%/*}/beside.sh"


def write(folder: Path, text: str, name: str = "job.sh") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


def ran(queue: Path, folder: Path, *command: str) -> str:
    """What the command prints, as it would be started after the script says something else."""
    spec = Spec(command=command, folder=str(folder), script=scripts.copied(queue, command, str(folder)))
    assert spec.script
    (folder / "job.sh").write_text("echo changed\n")
    return subprocess.run(scripts.arguments(queue, spec), cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash", "#!/bin/bash -eu", "#! /bin/sh -e"])
@pytest.mark.parametrize("before", [(), ("sh",), ("/bin/bash", "-e"), ("/usr/bin/env", "bash")])
def test_the_copy_runs_under_its_own_name_in_the_jobs_folder(tmp_path: Path, first: str, before: tuple[str, ...]) -> None:
    work = tmp_path / "my work"
    write(work, f"{first}\n{NAMES}\nexit 3\n")
    write(work, "echo beside\n", "beside.sh")
    assert ran(tmp_path, work, *before, "./job.sh", "an argument") == f"./job.sh 1 an argument {work}\nbeside\n"


def test_the_exit_code_and_errors_are_the_scripts(tmp_path: Path) -> None:
    for text, code in (("exit 7", 7), ("false", 1), ("set -e\nfalse\necho on", 1), ("no-such-command-x", 127), ("kill -9 $$", -9)):
        file = write(tmp_path / "work", f"#!/bin/sh\n{text}\n")
        spec = Spec(command=(str(file),), script=scripts.copied(tmp_path, (str(file),), ""))
        done = subprocess.run(scripts.arguments(tmp_path, spec), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (code, "")
        assert ("job.sh" in done.stderr) == (code == 127)


@pytest.mark.parametrize("text", [
    "#!/usr/bin/env python3\nimport beside\n", "#!/bin/zsh\n", "#!/bin/bash -c\n", "#!/bin/sh -s\n", "#!/usr/bin/env -S bash -e\n",
    "echo no shebang\n",
    '#!/bin/bash\ncd "$(dirname "${BASH_SOURCE[0]}")"\n', "#!/bin/bash\n(return 0) && echo sourced\n", "#!/bin/sh\n\0", "", "#!",
    "#!/bin/sh\n" + "#" * scripts.MOST,
])  # fmt: skip
def test_what_is_not_copied(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    assert scripts.copied(tmp_path, ("./job.sh",), str(tmp_path)) == ""
    assert not (tmp_path / scripts.FOLDER).exists()


@pytest.mark.parametrize("command", [
    ("sh", "-c", "./job.sh"), ("bash", "-ec", "./job.sh"), ("bash", "-s", "./job.sh"), ("python", "./job.sh"), ("job.sh",), ("sh",),
    ("env",), ("/usr/bin/env", "A=1", "sh", "./job.sh"), ("./none.sh",), ("/",), ("sh", "none.sh"), ("sh", "-"), ("bash", "--", "./job.sh"),
])  # fmt: skip
def test_commands_that_run_no_script_of_a_shell(tmp_path: Path, command: tuple[str, ...]) -> None:
    write(tmp_path, "#!/bin/sh\n")
    assert scripts.copied(tmp_path, command, str(tmp_path)) == ""
    assert scripts.arguments(tmp_path, Spec(command=command)) == list(command)


def test_a_script_without_its_run_bit_is_copied_only_where_a_shell_is_named(tmp_path: Path) -> None:
    write(tmp_path, "#!/bin/sh\n").chmod(0o644)
    assert scripts.copied(tmp_path, ("./job.sh",), str(tmp_path)) == ""
    assert scripts.copied(tmp_path, ("/bin/sh", "./job.sh"), str(tmp_path)).startswith("1:")


def test_one_copy_for_all_only_for_their_user_and_gone_with_the_last_job(tmp_path: Path) -> None:
    write(tmp_path, "#!/bin/sh\n", "odd 'name.sh")
    first = scripts.copied(tmp_path, ("./odd 'name.sh",), str(tmp_path))
    assert first == scripts.copied(tmp_path, ("./odd 'name.sh", "x"), str(tmp_path))
    write(tmp_path, "#!/bin/sh\necho\n", "odd 'name.sh")
    second = scripts.copied(tmp_path, ("./odd 'name.sh",), str(tmp_path))
    folder = tmp_path / scripts.FOLDER
    assert sorted(path.name for path in folder.iterdir()) == sorted(one.partition(":")[2] for one in (first, second))
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())} == {0o700}
    written = max(path.stat().st_mtime for path in folder.iterdir())
    scripts.prune(tmp_path, [], written + scripts.SPARED - 10)
    assert len(list(folder.iterdir())) == 2, "a job that is about to be submitted may have it"
    scripts.prune(tmp_path, [second], written + scripts.SPARED + 10)
    assert [path.name for path in folder.iterdir()] == [second.partition(":")[2]]
    scripts.prune(tmp_path / "none", [], written)


def test_a_copy_that_is_gone_is_told(tmp_path: Path) -> None:
    spec = Spec(command=("./job.sh",), script="0:0123456789abcdef-job.sh")
    done = subprocess.run(scripts.arguments(tmp_path, spec), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "0123456789abcdef-job.sh" in done.stderr


def test_a_job_runs_what_its_script_said_when_it_was_submitted(one: Queue) -> None:
    script = write(one.work, '#!/bin/bash\necho "first $0 $1 $ONGPU_JOB"\n')
    (job,) = one.submit(one.spec("./job.sh", "x", begin=4e9))
    write(one.work, "#!/bin/sh\necho second\n")
    (other,) = one.submit(one.spec("./job.sh", gpus=0))
    script.unlink()
    assert one.done(other)[0].code == 0
    assert one.output(other) == "second\n"
    assert one.job(job).spec.command == ("./job.sh", "x")
    one.engine.cancel([job])
    write(one.work, '#!/bin/bash\necho "third $0 $1 $ONGPU_JOB"\n')
    array = one.submit(*(one.spec("./job.sh", "y", gpus=0, index=place) for place in range(3)))
    script.unlink()
    one.done(*array)
    assert [one.output(job) for job in array] == [f"third ./job.sh y {job}\n" for job in array]
    until(lambda: len(os.listdir(one.place / scripts.FOLDER)) == 3)
