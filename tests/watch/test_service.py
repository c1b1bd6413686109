"""The unit, checked by systemd itself where it is here."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ongpu.watch import service


@pytest.mark.real
@pytest.mark.parametrize("user", [False, True])
def test_systemd_takes_it(user: bool, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here (tools/install_debian_parts systemd)")
    path = tmp_path / service.NAME
    path.write_text(service.unit(user, "/etc/ongpu.toml", ("--listen", "0.0.0.0:9817")))
    done = subprocess.run(["systemd-analyze", "verify", "--recursive-errors=no", str(path)], capture_output=True, text=True, check=False)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if service.NAME in line]
    assert ours == []
    assert done.returncode == 0, done.stderr


@pytest.mark.real
def test_it_is_hardened_by_systemds_own_measure(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here (tools/install_debian_parts systemd)")
    path = tmp_path / service.NAME
    path.write_text(service.unit(False))
    argv = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    level = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert level, done.stdout + done.stderr
    assert float(level.group(1)) <= 3.0, level.group(0)  # below 5 is "OK"; 9 and more is what a unit without any of it gets


def test_names_with_signs_that_systemd_expands_are_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/opt/my env/100%/$x/bin/python")
    assert service.command("/etc/a b.toml") == "'/opt/my env/100%%/$$x/bin/python' -m ongpu watch --config '/etc/a b.toml'"


def test_an_interpreter_in_a_home_is_not_hidden_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/home/ada/venv/bin/python")
    assert "ProtectHome=read-only" in service.unit(False)
    monkeypatch.setattr("sys.executable", "/opt/venv/bin/python")
    assert "ProtectHome=yes" in service.unit(False)


def test_what_others_may_not_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shut: dict[str, int] = {}
    monkeypatch.setattr(service, "_others", lambda path, bit: not shut.get(str(path), 0) & bit)
    assert service.out_of_reach("/opt/venv/bin/python") == ""
    assert service.out_of_reach("/tmp/venv/bin/python") == "/tmp"
    shut["/home/ada"] = 0o001
    assert service.out_of_reach("/home/ada/venv/bin/python") == "/home/ada"
    shut["/etc/ongpu.toml"] = 0o004
    assert service.out_of_reach("/etc/ongpu.toml") == "/etc/ongpu.toml"


def test_the_bits_for_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ongpu.toml"
    path.write_text("")
    for mode, readable in ((0o640, False), (0o644, True)):
        path.chmod(mode)
        assert service._others(path, 0o004) is readable
