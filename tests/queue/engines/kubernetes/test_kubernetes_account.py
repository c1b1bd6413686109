"""How the API server is reached: every form of the kubeconfig, and what is wrong with it in one line."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from parts.kubernetes_server import KubernetesServer

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.account import account
from ongpu.queue.engines.kubernetes.api import Api

TOKEN = "of-the-kubeconfig"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate authority, a server's certificate (for 127.0.0.1 and "api.lab"), a client's."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    folder = tmp_path_factory.mktemp("pki")

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "30")
    for name, subject, more in (
        ("server", "/CN=api.lab", "subjectAltName=IP:127.0.0.1,DNS:api.lab"),
        ("client", "/CN=ada", "extendedKeyUsage=clientAuth"),
    ):
        (folder / "ext").write_text(more)
        run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        run(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-out",
            f"{name}.crt",
            "-days",
            "30",
            "-extfile",
            "ext",
        )
    return folder


def config(folder: Path, server: str, user: Any, name: str = "config", **cluster: Any) -> dict[str, str]:
    """The environment that names a kubeconfig."""
    path = folder / name
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "contexts": [
                    {"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
                    {"name": "bad", "context": {"cluster": "none"}},
                ],
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return {"KUBECONFIG": str(path), "HOME": str(folder)}


def works(environ: dict[str, str]) -> None:
    assert Api(environ=environ).every("/api/v1/nodes") == []


def wrong(environ: dict[str, str], *words: str) -> str:
    with pytest.raises(EngineError) as error:
        works(environ)
    assert all(word in error.value.english for word in words), error.value.english
    assert "\n" not in error.value.english + error.value.chinese
    assert TOKEN not in error.value.english + error.value.chinese
    return error.value.english


class TestToken:
    def test_in_the_file_and_in_another(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(TOKEN + "\n")
        with KubernetesServer(token=TOKEN) as server:
            for user in ({"token": TOKEN}, {"tokenFile": "token"}, {"tokenFile": str(tmp_path / "token")}):
                found = account(environ=config(tmp_path, server.url, user))
                assert (found.namespace, found.name) == ("ml", "lab")
                assert TOKEN not in repr(found)
                works(config(tmp_path, server.url, user))
            wrong(config(tmp_path, server.url, {"token": "another"}), "does not know who asks", "'lab'")

    @pytest.mark.parametrize("version", ["v1", "v1beta1"])
    def test_of_a_credential_plugin(self, tmp_path: Path, version: str) -> None:
        answer = {"kind": "ExecCredential", "status": {"token": TOKEN}}
        script = tmp_path / "plugin"
        script.write_text(f"""#!{sys.executable}
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential" and asked["spec"] == {{"interactive": False, "cluster": {{"server": "SERVER"}}}}, asked
assert sys.argv[1:] == ["--for", "lab"] and os.environ["REGION"] == "x" and sys.stdin.read() == ""
print(json.dumps({answer!r}))
""")
        script.chmod(0o755)
        plugin = {
            "apiVersion": f"client.authentication.k8s.io/{version}",
            "command": "./plugin",
            "args": ["--for", "lab"],
            "env": [{"name": "REGION", "value": "x"}],
            "provideClusterInfo": True,
        }
        with KubernetesServer(token=TOKEN) as server:
            script.write_text(script.read_text().replace("SERVER", server.url))
            works(config(tmp_path, server.url, {"exec": plugin}))

    def test_a_plugin_that_fails(self, tmp_path: Path) -> None:
        def plugin(**more: Any) -> dict[str, str]:
            return config(tmp_path, "http://127.0.0.1:9", {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **more}})

        wrong(plugin(command="no-such-program", installHint="install it\nso"), "not installed; install it so")
        wrong(plugin(command="false"), "gave no credential")
        wrong(plugin(command="echo", args=[TOKEN]), "gave no credential")
        wrong(plugin(command="echo", apiVersion="client.authentication.k8s.io/v1alpha1"), "known are")

    def test_a_plugin_that_hangs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ongpu.queue.engines.kubernetes.account.PLUGIN_LIMIT", 0.2)
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["9"]}
        wrong(config(tmp_path, "http://127.0.0.1:9", {"exec": plugin}), "gave no credential")

    def test_of_the_pod_that_we_run_in(self, tmp_path: Path, pki: Path) -> None:
        folder = tmp_path / "var/run/secrets/kubernetes.io/serviceaccount"
        folder.mkdir(parents=True)
        for name, text in (("token", TOKEN), ("namespace", "ml"), ("ca.crt", (pki / "ca.crt").read_text())):
            (folder / name).write_text(text)
        with KubernetesServer(token=TOKEN, tls=(str(pki / "server.crt"), str(pki / "server.key"))) as server:
            environ = {
                "HOME": "/nonexistent",
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": server.url.rpartition(":")[2],
            }
            found = account(environ=environ, root=tmp_path)
            assert found.namespace == "ml"
            assert Api(who=found).every("/api/v1/nodes") == []
        with pytest.raises(EngineError, match="no kubeconfig"):
            account(environ={"HOME": "/nonexistent"}, root=tmp_path)


class TestCertificates:
    def test_each_form(self, tmp_path: Path, pki: Path) -> None:
        inline = {
            key: base64.b64encode((pki / name).read_bytes()).decode()
            for key, name in (("ca", "ca.crt"), ("crt", "client.crt"), ("key", "client.key"))
        }
        with KubernetesServer(tls=(str(pki / "server.crt"), str(pki / "server.key"))) as server:
            data = {"certificate-authority-data": inline["ca"]}
            works(config(tmp_path, server.url, {"client-certificate-data": inline["crt"], "client-key-data": inline["key"]}, **data))
            files = {"client-certificate": str(pki / "client.crt"), "client-key": str(pki / "client.key")}
            works(config(tmp_path, server.url, files, **{"certificate-authority": os.path.relpath(pki / "ca.crt", tmp_path)}))
            works(config(tmp_path, server.url, {}, **{"insecure-skip-tls-verify": True}))
            works(config(tmp_path, server.url.replace("127.0.0.1", "localhost"), {}, **data, **{"tls-server-name": "api.lab"}))
            wrong(config(tmp_path, server.url.replace("127.0.0.1", "localhost"), {}, **data), "certificate is not trusted")
            wrong(config(tmp_path, server.url, {}), "certificate is not trusted")
            wrong(config(tmp_path, server.url, {}, **{"certificate-authority-data": "%"}), "not base64")
            wrong(config(tmp_path, server.url, {}, **{"certificate-authority-data": inline["key"]}), "is no certificate")
            mixed = {
                "client-certificate-data": inline["crt"],
                "client-key-data": base64.b64encode((pki / "server.key").read_bytes()).decode(),
            }
            wrong(config(tmp_path, server.url, mixed, **data), "do not belong together")
            wrong(config(tmp_path, server.url, {"client-certificate": "none.crt"}, **data), "none.crt", "cannot be read")

    def test_tls_to_one_that_speaks_none(self, tmp_path: Path) -> None:
        with KubernetesServer() as server:
            wrong(config(tmp_path, server.url.replace("http:", "https:"), {}), "speaks no TLS")


class TestFile:
    def test_several_are_joined(self, tmp_path: Path) -> None:
        with KubernetesServer(token=TOKEN) as server:
            first = config(tmp_path, "http://127.0.0.1:9", {}, "first")["KUBECONFIG"]
            data = yaml.safe_load(Path(first).read_text())
            Path(first).write_text(yaml.safe_dump({"current-context": "lab", "contexts": data["contexts"]}))
            second = config(tmp_path, server.url, {"token": TOKEN}, "second")["KUBECONFIG"]
            works({"KUBECONFIG": f"/nonexistent{os.pathsep}{first}{os.pathsep}{second}"})

    def test_what_is_wrong_with_it(self, tmp_path: Path) -> None:
        file = tmp_path / "config"
        environ = {"KUBECONFIG": str(file)}
        wrong(environ, "no such file")
        for text, words in (
            ("a: [", "not YAML"),
            ("- a", "is no kubeconfig"),
            ("a: b", "no current-context"),
            ("current-context: x", "no context named 'x'"),
        ):
            file.write_text(text)
            wrong(environ, words)
        given = config(tmp_path, "http://127.0.0.1:9", {"auth-provider": {"name": "gcp"}})
        wrong(given, "no longer part of Kubernetes")
        with pytest.raises(EngineError, match=r"no cluster named 'none'; there is: c"):
            account("bad", environ=given)
        wrong(config(tmp_path, "ftp://127.0.0.1", {}), "not one that can be asked over HTTP")
        wrong(config(tmp_path, "http://127.0.0.1:9", {"token": "a\nb"}), "no header can carry")
        wrong(config(tmp_path, "http://127.0.0.1:9", {}), "connection refused")

    def test_basic_and_another_user(self, tmp_path: Path) -> None:
        found = account(environ=config(tmp_path, "http://127.0.0.1:9", {"username": "ada", "password": "x", "as": "bob"}))
        assert found.door.headers == {"Authorization": "Basic YWRhOng=", "Impersonate-User": "bob"}

    @given(
        st.recursive(
            st.none() | st.integers() | st.sampled_from(["c", "u", "lab", "https://x", "http://x", "a"]),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "contexts",
                            "context",
                            "clusters",
                            "cluster",
                            "users",
                            "user",
                            "name",
                            "server",
                            "exec",
                            "token",
                            "current-context",
                            "command",
                            "args",
                        ]
                    ),
                    inner,
                    max_size=6,
                )
            ),
            max_leaves=20,
        )
    )
    @settings(max_examples=100, deadline=None)
    def test_any_file_is_read_or_refused(self, tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
        path = tmp_path_factory.mktemp("k") / "config"
        path.write_text(json.dumps(data))
        with contextlib.suppress(EngineError):
            account(environ={"KUBECONFIG": str(path)})
