"""How the API server is reached, and as whom: from the kubeconfig (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/), or from
within a pod. Tokens, keys and what a credential plugin prints come back in no message.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ongpu.hosts.rest import Door
from ongpu.lazy import dataclass
from ongpu.queue.answers import at, rows
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.parts import text

POD = Path("var/run/secrets/kubernetes.io/serviceaccount")  # under the root
MOST = 4 << 20  # bytes of a kubeconfig
PLUGIN_LIMIT = 20.0  # seconds for a credential plugin: those of clouds ask a server
PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """door: to the API server. namespace: where jobs go. name: of the context, for messages."""

    door: Door
    namespace: str
    name: str


def account(context: str = "", namespace: str = "", environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Account:
    """Of the context that is named, else the current one; without a kubeconfig, of the pod that we run in. Raises EngineError."""
    paths = _paths(environ)
    found = [(path, data) for path in paths if (data := _read(path, bool(environ.get("KUBECONFIG")) and len(paths) == 1)) is not None]
    if not found:
        return _pod(namespace, environ, root)
    name = context or next((told for _, data in found if (told := text(at(data, "current-context")))), "")
    if not name:
        raise _wrong(found[0][0], "it has no current-context; set [kubernetes] context in queue.toml", "没有 current-context；请在 queue.toml 的 [kubernetes] 中设 context")  # fmt: skip # noqa: E501
    _, chosen = _named(found, "contexts", "context", name)
    where, cluster = _named(found, "clusters", "cluster", text(at(chosen, "cluster")))
    mine, user = _named(found, "users", "user", text(at(chosen, "user"))) if at(chosen, "user") else (where, {})
    headers, certificate = _credentials(mine, user, cluster)
    door = Door(
        url=text(at(cluster, "server")), headers=headers | _another(user), trust=_trust(where, cluster, mine, certificate),
        server_name=text(at(cluster, "tls-server-name")), proxy=text(at(cluster, "proxy-url")),
    )  # fmt: skip
    return Account(door=door, namespace=namespace or text(at(chosen, "namespace")) or "default", name=name)


# --- the file


def _paths(environ: Mapping[str, str]) -> list[Path]:
    if told := environ.get("KUBECONFIG"):
        return [Path(one) for one in told.split(os.pathsep) if one]
    return [Path(environ.get("HOME") or os.path.expanduser("~"), ".kube", "config")]


def _read(path: Path, needed: bool) -> Any:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST + 1)
    except (FileNotFoundError, NotADirectoryError):
        if needed:
            raise _wrong(path, "no such file", "没有这个文件") from None
        return None
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}", f"无法读取：{error.strerror}") from None
    import yaml

    try:
        if len(data) > MOST:
            raise ValueError
        found = yaml.safe_load(data)
    except (ValueError, yaml.YAMLError, RecursionError):
        raise _wrong(path, "is no kubeconfig: not YAML", "不是 kubeconfig：无法按 YAML 解析") from None
    if not isinstance(found, dict):
        raise _wrong(path, "is no kubeconfig", "不是 kubeconfig")
    return found


def _named(found: list[tuple[Path, Any]], kind: str, key: str, name: str) -> tuple[Path, Any]:
    """The first of that name in any of the files, as kubectl takes them."""
    for path, data in found:
        for row in rows(at(data, kind)):
            if at(row, "name") == name and isinstance(at(row, key), dict):
                return path, at(row, key)
    there = sorted({text(at(row, "name")) for _, data in found for row in rows(at(data, kind))})
    listed = ", ".join(there) or "-"
    raise _wrong(found[0][0], f"no {key} named {name!r}; there is: {listed}", f"没有名为 {name!r} 的 {key}；现有：{listed}")


def _bytes(path: Path, table: Any, key: str) -> bytes | None:
    """What stands in the file itself (KEY-data), or in the file that it names; a relative name is from the kubeconfig's folder."""
    if inline := at(table, f"{key}-data"):
        try:
            return base64.b64decode(str(inline), validate=True)
        except ValueError:
            raise _wrong(path, f"{key}-data is not base64", f"{key}-data 不是 base64") from None
    if named := text(at(table, key)):
        file = path.parent / named
        try:
            return file.read_bytes()
        except OSError as error:
            raise _wrong(file, f"cannot be read: {error.strerror}", f"无法读取：{error.strerror}") from None
    return None


# --- as whom


def _credentials(path: Path, user: Any, cluster: Any) -> tuple[dict[str, str], tuple[bytes, bytes] | None]:
    """Headers, and a client certificate with its key."""
    if at(user, "auth-provider"):
        raise _wrong(path, "auth-provider is no longer part of Kubernetes (1.26); use its exec plugin", "auth-provider 已从 Kubernetes 1.26 移除；请改用 exec 插件")  # fmt: skip # noqa: E501
    certificate, key = _bytes(path, user, "client-certificate"), _bytes(path, user, "client-key")
    token = text(at(user, "token"), 65536)
    if not token and (named := text(at(user, "tokenFile"))):
        try:
            token = (path.parent / named).read_text("utf-8").strip()
        except (OSError, ValueError):
            raise _wrong(path.parent / named, "the token cannot be read", "无法读取令牌") from None
    if not token and not certificate and (plugin := at(user, "exec")):
        token, certificate, key = _plugin(path, plugin, cluster)
    if token:
        return {"Authorization": f"Bearer {_sendable(path, token)}"}, None
    if certificate and key:
        return {}, (certificate, key)
    if name := text(at(user, "username")):
        pair = base64.b64encode(f"{name}:{text(at(user, 'password'), 4096)}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}, None
    return {}, None


def _another(user: Any) -> dict[str, str]:
    """`as`: in the name of another user."""
    name = text(at(user, "as"))
    return {"Impersonate-User": name} if name else {}


def _plugin(path: Path, plugin: Any, cluster: Any) -> tuple[str, bytes | None, bytes | None]:
    """What a credential plugin says (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins)."""
    version, command = text(at(plugin, "apiVersion")), text(at(plugin, "command"))
    if version not in PLUGIN_VERSIONS or not command:
        known = ", ".join(PLUGIN_VERSIONS)
        raise _wrong(path, f"exec: {version or '?'}: known are {known}", f"exec：{version or '?'}：支持 {known}")
    program = command if os.sep not in command or os.path.isabs(command) else str(path.parent / command)
    asked: dict[str, Any] = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    if at(plugin, "provideClusterInfo"):
        asked["spec"]["cluster"] = {key: value for key, value in cluster.items() if isinstance(value, (str, bool))}
    environ = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    environ |= {text(at(row, "name")): text(at(row, "value"), 65536) for row in rows(at(plugin, "env"))}
    words = [str(word) for word in at(plugin, "args") or []] if isinstance(at(plugin, "args") or [], list) else []
    try:
        done = subprocess.run(
            [program, *words], env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=PLUGIN_LIMIT, check=False
        )
        told = json.loads(done.stdout) if done.returncode == 0 else None
    except FileNotFoundError:
        hint = text(at(plugin, "installHint")).strip()[:200]
        more = f"; {' '.join(hint.split())}" if hint else ""
        raise EngineError(f"{command}: the kubeconfig's credential plugin is not installed{more}", f"{command}：kubeconfig 的凭据插件未安装{more}") from None  # fmt: skip # noqa: E501
    except (OSError, ValueError, subprocess.TimeoutExpired, RecursionError):
        told = None
    status = at(told, "status")
    token = text(at(status, "token"), 65536)
    pair = [text(at(status, key), 65536).encode() for key in ("clientCertificateData", "clientKeyData")]
    if not token and not all(pair):
        raise EngineError(f"{command}: the kubeconfig's credential plugin gave no credential; try it by hand", f"{command}：kubeconfig 的凭据插件没有给出凭据；请手动运行检查")  # fmt: skip # noqa: E501
    return token, pair[0] or None, pair[1] or None


def _sendable(path: Path, token: str) -> str:
    if not token.isascii() or not token.isprintable():
        raise _wrong(path, "the token holds what no header can carry", "令牌含有请求头不能携带的字符")
    return token


# --- whom we trust


def _trust(path: Path, cluster: Any, mine: Path, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext | None:
    if not text(at(cluster, "server")).startswith("https"):
        return None
    authority = _bytes(path, cluster, "certificate-authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError):
        raise _wrong(path, "certificate-authority is no certificate", "certificate-authority 不是证书") from None
    # Python 3.13 asks for more than Kubernetes' own certificates have, and more than kubectl asks for
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if at(cluster, "insecure-skip-tls-verify") is True:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        with tempfile.TemporaryDirectory() as folder:  # the ssl module takes them from files alone
            file = Path(folder, "pair.pem")
            file.touch(0o600)
            file.write_bytes(certificate[0] + b"\n" + certificate[1])
            try:
                context.load_cert_chain(file)
            except (ssl.SSLError, ValueError, OSError):
                words = ("client-certificate and client-key do not belong together", "client-certificate 与 client-key 不匹配")
                raise _wrong(mine, *words) from None
    return context


def _pod(namespace: str, environ: Mapping[str, str], root: Path) -> Account:
    """The service account of the pod that we run in."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    folder = root / POD
    try:
        token = (folder / "token").read_text("utf-8").strip()
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        here = (folder / "namespace").read_text("utf-8").strip()
    except (OSError, ValueError):
        host = ""
    if not host:
        raise EngineError(
            "no kubeconfig: neither KUBECONFIG nor ~/.kube/config is there, and this is no pod with a service account",
            "没有 kubeconfig：KUBECONFIG 与 ~/.kube/config 都不存在，也不是带服务账号的 Pod",
        )
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Account(door=Door(url=address, headers={"Authorization": f"Bearer {_sendable(folder, token)}"}, trust=context),
                   namespace=namespace or here or "default", name="in-cluster")  # fmt: skip


def _wrong(path: Path, english: str, chinese: str) -> EngineError:
    return EngineError(f"{path}: {english}", f"{path}：{chinese}")
