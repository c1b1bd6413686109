"""The requests that the engine makes of the API server (https://kubernetes.io/docs/reference/using-api/)."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from ongpu.queue.answers import at, rows
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes.account import Account, account
from ongpu.queue.engines.kubernetes.parts import MINE, text
from ongpu.queue.remote import Refusal, Server, segment

MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
PAGE = 500  # objects in one answer
MOST_PAGES = 200
KUEUE = "kueue.x-k8s.io"


class Api:
    """The API server, in one namespace."""

    def __init__(self, context: str = "", namespace: str = "", environ: Mapping[str, str] = os.environ, who: Account | None = None) -> None:
        self.account = who or account(context, namespace, environ)
        here = repr(self.account.name)
        again = (
            f"the credentials of the context {here} are not valid, or no longer: log in again",
            f"上下文 {here} 的凭据无效或已过期：请重新登录",
        )
        granted = ("the administrator grants it by RBAC", "需要管理员通过 RBAC 授权")
        self.server = Server("Kubernetes", self.account.door, _words, {401: again, 403: granted})
        space = segment(self.account.namespace)
        self.jobs, self.pods = f"/apis/batch/v1/namespaces/{space}/jobs", f"/api/v1/namespaces/{space}/pods"
        self.everywhere = "/api/v1/pods"
        self.events, self.nodes = f"/api/v1/namespaces/{space}/events", "/api/v1/nodes"

    def every(self, path: str, **query: str) -> list[Any]:
        """All objects, page by page."""
        return self._pages(path, MOST_PAGES, query)[0]

    def _pages(self, path: str, most: int, query: Mapping[str, str]) -> tuple[list[Any], bool]:
        """And whether these are all."""
        found: list[Any] = []
        more = {"limit": str(PAGE), **query}
        for _ in range(most):
            answer = self.server.ask("GET", f"{path}?{urlencode(more)}")
            found += rows(at(answer, "items"))
            if not (mark := text(at(answer, "metadata", "continue"), 8192)):
                return found, True
            more["continue"] = mark
        return found, False

    def allowed(self, path: str, most: int = MOST_PAGES, **query: str) -> list[Any] | None:
        """The same; None where it is not allowed, not there, or more than `most` pages."""
        try:
            found, whole = self._pages(path, most, query)
            return found if whole else None
        except Refusal as error:
            if error.status in (403, 404):
                return None
            raise

    def get(self, path: str, name: str) -> Any:
        """One object; None where there is none."""
        return self.server.ask("GET", f"{path}/{segment(name)}", missing=True)

    def create(self, path: str, body: Any, dry: bool = False) -> Any:
        """Creates it; a field that the server does not know is an error. dry: it only checks."""
        more = {"dryRun": "All"} if dry else {}
        query = urlencode({"fieldManager": MINE, "fieldValidation": "Strict", **more})
        return self.server.ask("POST", f"{path}?{query}", body, limit=20)

    def delete(self, path: str, name: str) -> bool:
        """Deletes it, then its dependents before it is gone; whether it was there."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        return self.server.ask("DELETE", f"{path}/{segment(name)}", body, missing=True) is not None

    def patch(self, path: str, name: str, body: Any, *, kind: str = MERGE, part: str = "", dry: bool = False) -> Any:
        """Changes it. part: "/status". kind APPLY: server-side apply as the manager "ongpu", which takes nothing from other managers."""
        query = {"fieldManager": MINE, **({"dryRun": "All"} if dry else {})}
        if kind == APPLY:
            query["fieldValidation"] = "Strict"
        return self.server.ask("PATCH", f"{path}/{segment(name)}{part}?{urlencode(query)}", json.dumps(body).encode(), kind=kind)

    def log(self, pod: str, container: str, follow: bool) -> Iterator[bytes]:
        """What a container printed, as bytes; b"" where nothing is new."""
        query = urlencode({"container": container, **({"follow": "true"} if follow else {})})
        return self.server.stream(f"{self.pods}/{segment(pod)}/log?{query}")

    def workloads(self) -> str:
        """The path of Kueue's workloads, in the version that this server prefers; "" where Kueue is not there."""
        group = self.server.ask("GET", f"/apis/{KUEUE}", missing=True)
        version = text(at(group, "preferredVersion", "version"), 40)
        return f"/apis/{KUEUE}/{segment(version)}/namespaces/{segment(self.account.namespace)}/workloads" if version else ""


def _words(body: bytes) -> str:
    """Of an error: the message of its Status object."""
    try:
        return text(at(json.loads(body), "message"), 4096)
    except (ValueError, RecursionError):
        return ""


def no_such(job: str) -> EngineError:
    """There is no job of that name."""
    return EngineError(f"{job}: Kubernetes has no such job", f"{job}：Kubernetes 没有这个作业", 1)
