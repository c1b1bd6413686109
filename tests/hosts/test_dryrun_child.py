"""The child's outer shell, with a pretend child: no PyTorch is needed."""

import json
import os
import sys
import time
from pathlib import Path

import pytest
from parts.dryruns import CALL, answer, error

from ongpu.hosts import dryrun
from ongpu.model import Evidence

CHILD = """
import json, os, subprocess, sys, time
spec = json.load(open(sys.argv[1]))
what = sys.argv[2]
print("printed by the script")
if what == "sleeps":
    subprocess.Popen([sys.executable, "-c", "import time; open(%r, 'w').close(); time.sleep(60)" % sys.argv[3]])
    time.sleep(60)
if what == "dies":
    os._exit(9)
if what == "leaves":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2); open(%r, 'w').close()" % sys.argv[3]])
told = {"schema": 1, "outcome": "finished", "script": what, "argv": sys.argv[2:], "spec": spec, "home": os.environ.get("HERE")}
if not sys.stdin.isatty():
    told["said"] = sys.stdin.read()
open(os.path.join(spec["scratch"], "x"), "w").close()
json.dump(told, open(spec["answer"], "w"))
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    monkeypatch.setattr(dryrun, "PROGRAM", program)
    monkeypatch.setattr(dryrun, "GRACE", 1.0)
    return tmp_path


def told(evidence: list[Evidence]) -> dict[str, object]:
    found: dict[str, object] = json.loads(evidence[0].text)
    return found


def test_the_child_gets_its_order_and_gives_its_answer(child: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = told(dryrun.run(sys.executable, ["-m", "job", "--lr", "3"], {"steps": 2}, 5.0, {**os.environ, "HERE": "yes"}))
    assert found["argv"] == ["-m", "job", "--lr", "3"]
    assert found["home"] == "yes"
    assert found["spec"]["steps"] == 2  # type: ignore[index]
    assert found["spec"]["seconds"] == 5.0  # type: ignore[index]
    assert found["folder"] == os.getcwd()
    out, err = capfd.readouterr()
    assert "printed by the script" in err
    assert out == ""


def test_nothing_is_left_behind(child: Path) -> None:
    found = told(dryrun.run(sys.executable, ["x"], {}, 5.0))
    assert not Path(found["spec"]["scratch"]).exists()  # type: ignore[index]


def test_at_the_limit_the_whole_group_is_ended(child: Path) -> None:
    began = time.monotonic()
    (evidence,) = dryrun.run(sys.executable, ["sleeps", str(child / "started")], {}, 0.5)
    assert time.monotonic() - began < 8
    assert evidence.problem == "timed out after 1.5 s"
    assert (child / "started").exists()


def test_what_the_script_leaves_running_is_ended(child: Path) -> None:
    dryrun.run(sys.executable, ["leaves", str(child / "late")], {}, 5.0)
    time.sleep(2.5)
    assert not (child / "late").exists()


def test_a_child_that_dies_is_told(child: Path) -> None:
    (evidence,) = dryrun.run(sys.executable, ["dies"], {}, 5.0)
    assert evidence.problem == "exit status 9"
    assert evidence.text == ""


class TestEvidence:
    def test_a_traceback_is_pasted_text_too(self) -> None:
        found = dryrun.evidence(json.dumps(answer(outcome="error", error=error("cuda", "device-side assert"))), "/home/me")
        assert [item.kind for item in found] == ["dryrun", "pasted"]
        assert 'File "train.py", line 18' in found[1].text

    @pytest.mark.parametrize("kind", ["internal", "unsupported"])
    def test_our_own_errors_are_no_evidence_about_the_script(self, kind: str) -> None:
        found = dryrun.evidence(json.dumps(answer(outcome="crashed", error=error(kind, "boom"))), "/home/me")
        assert [item.kind for item in found] == ["dryrun"]

    def test_where_two_devices_met_the_source_is_read(self, tmp_path: Path) -> None:
        script = tmp_path / "train.py"
        script.write_text("x = 1\n")
        at = {**CALL, "file": str(script)}
        found = dryrun.evidence(json.dumps(answer(outcome="error", error=error("device", "on the same device", place=at))), str(tmp_path))
        assert [(item.kind, item.origin) for item in found][2:] == [("python", "train.py")]
        other = dryrun.evidence(json.dumps(answer(outcome="error", error=error("oom", "out of memory", place=at))), str(tmp_path))
        assert [item.kind for item in other] == ["dryrun", "pasted"]


    def test_the_program_is_followed_from_the_script_on_and_the_operands_are_told(self, tmp_path: Path) -> None:
        script, model = tmp_path / "train.py", tmp_path / "model.py"
        script.write_text("import model\n")
        model.write_text("x = 1\n")
        told = error("device", "on the same device", place={**CALL, "file": str(model)})
        told["operands"] = '{"what": "failure", "frames": []}'
        told_by = json.dumps(answer(outcome="error", error=told, script=str(script), sources=[str(script), str(model)]))
        found = dryrun.evidence(told_by, str(tmp_path))
        assert [(item.kind, item.origin) for item in found][2:] == [("objects", "dry run"), ("python", "train.py")]
        assert [item.origin for item in dryrun.program(found)] == ["train.py", "model.py"]


class TestTorch:
    def folder(self, tmp_path: Path, version: str) -> dict[str, str]:
        info = tmp_path / f"torch-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        return {**os.environ, "PYTHONPATH": str(tmp_path)}

    @pytest.mark.parametrize("version", ["2.4.0", "2.13.0+cpu", "3.0"])
    def test_new_enough(self, tmp_path: Path, version: str) -> None:
        assert dryrun.torch_version(sys.executable, self.folder(tmp_path, version)) == version

    @pytest.mark.parametrize("version", ["2.3.1+cu121", "1.13.1"])
    def test_too_old(self, tmp_path: Path, version: str) -> None:
        with pytest.raises(dryrun.NoTorch) as caught:
            dryrun.torch_version(sys.executable, self.folder(tmp_path, version))
        assert caught.value.found == version

    def test_no_interpreter(self, tmp_path: Path) -> None:
        broken = tmp_path / "python"
        broken.write_text("#!/bin/sh\nexit 3\n")
        broken.chmod(0o755)
        with pytest.raises(dryrun.NoTorch) as caught:
            dryrun.torch_version(str(broken))
        assert caught.value.found == ""
