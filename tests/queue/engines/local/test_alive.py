import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ongpu.queue.engines.local import alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the queue runs on Linux")


def stamp(ago: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - ago))


HOLDER = """import sys
from pathlib import Path
from ongpu.queue.engines.local import alive
alive.lock(Path(sys.argv[1]))
print()
sys.stdin.read()"""  # another process: a lock of ours is none to us


@pytest.mark.parametrize(
    ("log", "dead", "lives"),
    [
        ("", "", ""),
        ("@5@ daemon 7 of /q\n", "", ""),
        ("@5@ fault: no room left on the disk\n", "fault: no room left on the disk", "fault: no room left on the disk"),
        ("@900@ fault: no room left on the disk\n", "fault: no room left on the disk", ""),
        ("@9@ fault: no room\n@5@ nothing to do: ended\n", "", ""),
        ("Traceback (most recent call last):\nImportError: broken\n\n", "ImportError: broken", ""),
        ("/usr/bin/python: No module named ongpu\n", "/usr/bin/python: No module named ongpu", ""),
        ("x.py:3: a warning of somebody\n", "", ""),
        ("Error: " + "x" * 9000, "", ""),
    ],
)
def test_what_a_daemon_that_failed_said_last(tmp_path: Path, log: str, dead: str, lives: str) -> None:
    (tmp_path / alive.LOG).write_text(re.sub(r"@([0-9]{1,4})@", lambda ago: stamp(float(ago[1])), log))
    assert alive.fault(tmp_path, time.time()) == dead
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert alive.fault(tmp_path, time.time()) == lives
        process.communicate()


def test_nothing_is_said_of_a_folder_without_a_log(tmp_path: Path) -> None:
    assert alive.fault(tmp_path, time.time()) == ""
    begin = time.monotonic()
    assert not alive.begun(tmp_path, 0.1)
    assert 0.1 <= time.monotonic() - begin < 5
