"""`ongpu fleet` over a real sshd on the loopback interface: one machine that answers, one that hangs, one that is not there."""

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.prometheus import free_port

pytestmark = pytest.mark.real
SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The ssh command that reaches "here" (with ongpu), "plain" (without) and "nowhere"."""
    if SSHD is None or os.geteuid() != 0:
        pytest.skip("no sshd here, or not root: tools/install_debian_parts ssh")
    folder = tmp_path_factory.mktemp("ssh")
    folder.chmod(0o700)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    (folder / "bin").mkdir()
    (folder / "bin/ongpu").symlink_to(Path(sys.executable).parent / "ongpu")
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd separates its privileges
    number = free_port()
    (folder / "sshd_config").write_text(
        f"Port {number}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile {folder}/pid\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized\nPermitRootLogin yes\nAcceptEnv WITH\n"
        f"SetEnv PATH={folder}/bin:/usr/bin:/bin\nMaxStartups 100\n"
    )
    common = (
        f"Port {number}\nUser {getpass.getuser()}\nIdentityFile {folder}/user\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
    )
    (folder / "config").write_text(
        f"Host here*\nHostName 127.0.0.1\n{common}Host nowhere\nHostName 127.0.0.1\nPort {free_port()}\n"
        f"Host slow\nHostName 127.0.0.1\nProxyCommand sleep 60\n"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{number} " + (folder / "host.pub").read_text())
    daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", number)) == 0:
                break
        time.sleep(0.05)
    yield f"ssh -F {folder}/config"
    daemon.terminate()
    daemon.wait(10)


def fleet(ssh: str, *words: str) -> tuple[dict[str, object], int, float]:
    began = time.monotonic()
    argv = [str(Path(sys.executable).parent / "ongpu"), "fleet", "--format", "json", "--ssh", ssh, *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return json.loads(done.stdout), done.returncode, time.monotonic() - began


def test_answers_silence_and_refusal_are_told_apart(ssh: str) -> None:
    answer, code, took = fleet(ssh, "--timeout", "8", "here", "nowhere", "slow")
    nodes = {node["name"]: node for node in answer["facts"]["Fleet"]["nodes"]}  # type: ignore[index]
    assert nodes["here"]["answered"] is True
    assert "refused" in nodes["nowhere"]["problem"]
    assert "timed out" in nodes["slow"]["problem"].lower()
    assert took < 20
    assert code in (1, 3)  # this machine has a fault of its own, or none: two are unknown


def test_what_the_node_itself_finds_is_told(ssh: str) -> None:
    answer, _, _ = fleet(ssh, "here")
    argv = [str(Path(sys.executable).parent / "ongpu"), "doctor", "--format", "json"]
    own = subprocess.run(argv, capture_output=True, text=True, check=False)
    slugs = [f["slug"] for f in json.loads(own.stdout)["findings"] if f["severity"] != "note"]
    (node,) = answer["facts"]["Fleet"]["nodes"]  # type: ignore[index]
    assert [f["slug"] for f in node.get("faults", []) if f["severity"] != "note"] == slugs


def test_many_at_once(ssh: str) -> None:
    answer, _, _ = fleet(ssh, "--timeout", "40", *[f"here{n}" for n in range(12)])
    assert all(node["answered"] for node in answer["facts"]["Fleet"]["nodes"])  # type: ignore[index]
