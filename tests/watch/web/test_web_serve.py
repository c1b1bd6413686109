"""Where the dashboard listens, and when it refuses to begin."""

import os
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from fronts_run import ongpu

from ongpu.watch import config as configuration
from ongpu.watch.config import ConfigError
from ongpu.watch.web import serve as web
from ongpu.watch.web.tokens import create

CONFIG = configuration.parse({}, None)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "localhost.evil.example:0", "127.evil.example:0"])
def test_another_address_than_loopback_needs_a_token(tmp_path: Path, listen: str) -> None:
    with pytest.raises(ConfigError, match="ongpu watch token") as told:
        web.serve(tmp_path / "w.db", listen, tmp_path / "token", CONFIG)
    assert "令牌" in told.value.zh


def test_a_token_that_others_may_read_is_refused_on_loopback_too(tmp_path: Path) -> None:
    create(tmp_path / "token")
    (tmp_path / "token").chmod(0o644)
    for listen in ("127.0.0.1:0", "0.0.0.0:0"):
        with pytest.raises(ConfigError, match="chmod 600"):
            web.serve(tmp_path / "w.db", listen, tmp_path / "token", CONFIG)


def test_a_certificate_needs_its_key_and_both_must_be_good(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        web.serve(tmp_path / "w.db", "127.0.0.1:0", tmp_path / "token", CONFIG, cert="a.pem")
    (tmp_path / "bad.pem").write_text("no certificate")
    bad = str(tmp_path / "bad.pem")
    with pytest.raises(ConfigError, match=r"cannot be used with") as told:
        web.serve(tmp_path / "w.db", "127.0.0.1:0", tmp_path / "token", CONFIG, cert=bad, key=bad)
    assert isinstance(told.value.__cause__, (OSError, ssl.SSLError))


def test_a_taken_port_is_told_by_its_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use") as told:
            web.serve(tmp_path / "w.db", f"127.0.0.1:{port}", tmp_path / "token", CONFIG)
    assert told.value.filename == f"127.0.0.1:{port}"


def test_it_ends_with_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        should_exit = False

    server = Server()
    monkeypatch.setattr(web, "PARENT_EVERY", 0.0)
    monkeypatch.setattr(os, "getppid", iter([7, 7, 1]).__next__)
    web._follow(7, server)  # type: ignore[arg-type]
    assert server.should_exit


def test_the_token_command_prints_and_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for _ in range(2):
        told = ongpu("watch", "token", "--token-file", str(path), "--lang", "en", XDG_CONFIG_HOME=str(tmp_path))
        assert told.returncode == 0
        assert told.stdout.strip() == path.read_text().strip()
        assert str(path) in told.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_demonstration_leaves_nothing_behind_when_it_is_ended(tmp_path: Path) -> None:
    argv = [str(Path(sys.executable).parent / "ongpu"), "watch", "web", "--demo", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, env=os.environ | {"TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "making up a week" in running.stderr.readline()
        assert any(tmp_path.glob("ongpu-demo-*"))
        running.terminate()
        assert running.wait(60) == 0
    assert not any(tmp_path.glob("ongpu-demo-*"))
