"""An API server of Kubernetes, as far as the engine asks it. No cluster was at hand: it follows the published API.

Each body is checked against the API's own types (parts/kubernetes_types.py), each query against what the request may carry; objects
have versions; a merge patch is RFC 7386; server-side apply keeps who owns which field, merges lists by their keys, takes atomic lists as
a whole, and answers 409 where another manager owns what would change
(https://kubernetes.io/docs/reference/using-api/server-side-apply/). Nothing runs: tests say what becomes of pods.
"""

import copy
import json
import re
import ssl
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from parts.kubernetes_types import LATEST, problems

KUEUE_VERSION = "v1beta2"
NAMESPACED = r"/namespaces/(?P<space>[^/]+)"
ROUTES = [
    (re.compile(r"/apis/batch/v1" + NAMESPACED + r"/(?P<kind>jobs)(?:/(?P<name>[^/]+))?"), "batch"),
    (re.compile(r"/api/v1" + NAMESPACED + r"/(?P<kind>pods|events)(?:/(?P<name>[^/]+)(?:/(?P<part>log))?)?"), ""),
    (re.compile(r"/api/v1/(?P<kind>pods)(?P<name>)(?P<everywhere>)"), ""),
    (re.compile(r"/api/v1/(?P<kind>nodes)(?:/(?P<name>[^/]+)(?:/(?P<part>status))?)?"), ""),
    (re.compile(rf"/apis/kueue\.x-k8s\.io/{KUEUE_VERSION}" + NAMESPACED + r"/(?P<kind>workloads)(?:/(?P<name>[^/]+))?"), "kueue.x-k8s.io"),
    (re.compile(r"/apis/kueue\.x-k8s\.io(?P<kind>)(?P<name>)"), "kueue.x-k8s.io"),
]
QUERIES = {
    "list": {"limit", "continue", "labelSelector", "fieldSelector"}, "get": {"container", "follow"},
    "create": {"fieldManager", "fieldValidation", "dryRun"}, "delete": set(),
    "patch": {"fieldManager", "fieldValidation", "dryRun", "force"},
}  # fmt: skip
SELECTABLE = {("events", "involvedObject.name"), ("pods", "spec.nodeName"), ("pods", "status.phase")}  # some of what the API takes
IMMUTABLE = ("template", "completions", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "selector")
TEMPLATE_OF_WORKLOAD = {"apiVersion": f"kueue.x-k8s.io/{KUEUE_VERSION}", "kind": "Workload"}


class Refused(Exception):
    """Status and message."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.reason = code, message, reason


@dataclass
class KubernetesServer:
    """It, on a free loopback port. trust: certificate and key for TLS."""

    token: str = ""
    tls: tuple[str, str] | None = None
    version: str = LATEST
    kueue: bool = False
    forbidden: set[tuple[str, str]] = field(default_factory=set)  # (verb, resource)
    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)  # kind, namespace, name
    owners: dict[tuple[str, str], dict[tuple[str, ...], str]] = field(default_factory=dict)  # kind, name -> path -> manager
    logs: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)  # what was wrong with requests
    fail: Refused | None = None  # the next request's answer
    before_patch: Any = None  # called once, before the next patch
    page: int = 500
    _count: int = 0

    # --- what tests do

    def node(
        self, name: str, gpus: int = 8, product: str = "NVIDIA-A100-SXM4-80GB", memory: int = 81920, capability: str = "8.0", **more: Any
    ) -> None:
        """A node with the labels of GPU feature discovery."""
        major, minor = capability.split(".")
        labels = {"kubernetes.io/hostname": name}
        if gpus:
            labels |= {
                "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.memory": str(memory),
                "nvidia.com/gpu.compute.major": major,
                "nvidia.com/gpu.compute.minor": minor,
            }
        taints = {"taints": more["taints"]} if "taints" in more else {}
        self.put("nodes", "", {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {**taints},
            "status": {"allocatable": {"cpu": "64", "memory": "512Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
                       "conditions": [{"type": "Ready", "status": "True"}]},
        })  # fmt: skip

    def pod(
        self, job: str, phase: str, index: int | None = None, node: str = "n1", container: Any = None, conditions: Any = (), **more: Any
    ) -> str:
        """A pod of a Job, made of its template; its name."""
        owner = self.objects["jobs", "ml", job]
        self._count += 1
        name = f"{job}-{'' if index is None else f'{index}-'}{self._count:05}"
        labels = {**owner["spec"]["template"]["metadata"]["labels"], "batch.kubernetes.io/job-name": job, "job-name": job}
        notes = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
        spec = {**copy.deepcopy(owner["spec"]["template"]["spec"]), **({"nodeName": node} if node else {})}
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [
                {"type": "PodScheduled", "status": "True"}
                if node
                else {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": more.get("message", "")},
                *conditions,
            ],
        }
        if container:
            status["containerStatuses"] = [{
                "name": "main", "image": "img", "imageID": "", "ready": False, "restartCount": 0, "state": container,
                **more.get("extra", {}),
            }]  # fmt: skip
        if more.get("reason"):
            status |= {"reason": more["reason"], "message": more.get("message", "")}
        meta = {
            "name": name,
            "namespace": "ml",
            "labels": labels,
            "annotations": notes,
            "creationTimestamp": f"2026-11-30T10:00:{self._count % 60:02}Z",
        }
        self.put("pods", "ml", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status})
        return name

    def event(self, about: str, reason: str, message: str) -> None:
        """A warning."""
        self._count += 1
        self.put("events", "ml", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{self._count}", "namespace": "ml"}, "type": "Warning",
            "involvedObject": {"kind": "Pod", "name": about, "namespace": "ml"}, "reason": reason, "message": message,
        })  # fmt: skip

    def workload(self, job: str, *conditions: Any, **spec: Any) -> str:
        """Kueue's object of a Job."""
        owner = self.objects["jobs", "ml", job]
        meta = {"name": f"job-{job}-0a1b2", "namespace": "ml", "labels": {"kueue.x-k8s.io/job-uid": owner["metadata"]["uid"]}}
        self.put(
            "workloads",
            "ml",
            {
                **TEMPLATE_OF_WORKLOAD,
                "metadata": meta,
                "spec": {"queueName": "gpu", "active": True, **spec},
                "status": {"conditions": list(conditions)},
            },
        )
        return str(meta["name"])

    def status(self, job: str, *conditions: Any, **more: Any) -> None:
        """A Job's status."""
        self.objects["jobs", "ml", job]["status"] = {**({"conditions": list(conditions)} if conditions else {}), **more}

    def put(self, kind: str, space: str, data: dict[str, Any]) -> None:
        """An object of somebody else's; it is of the API's types too."""
        if kind != "workloads":
            assert not (wrong := problems(data, self.version)), wrong
        self._save(kind, space, data)

    # --- the server

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append((self.command, self.path))
                try:
                    outer._answer(self, body)
                except Refused as error:
                    self.say(
                        error.code,
                        {
                            "kind": "Status",
                            "apiVersion": "v1",
                            "metadata": {},
                            "status": "Failure",
                            "message": error.message,
                            "reason": error.reason,
                            "code": error.code,
                        },
                    )

            do_GET = do_POST = do_PATCH = do_DELETE = _any

            def say(self, code: int, data: Any) -> None:
                text = json.dumps(data).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that trusts us not
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()
        assert not self.bad or kind, self.bad

    def _answer(self, to: Any, body: bytes) -> None:
        if self.token and to.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        if self.fail:
            error, self.fail = self.fail, None
            raise error
        where = urlsplit(to.path)
        query = dict(parse_qsl(where.query, strict_parsing=bool(where.query)))
        for route, group in ROUTES:
            if match := route.fullmatch(where.path):
                return self._route(to, {key: unquote(value or "") for key, value in match.groupdict().items()}, group, query, body)
        raise Refused(404, "the server could not find the requested resource", "NotFound")

    def _route(self, to: Any, path: dict[str, str], group: str, query: dict[str, str], body: bytes) -> None:
        kind, name, part, space = path["kind"], path.get("name", ""), path.get("part", ""), path.get("space", "")
        verb = {"GET": "get" if name or not kind else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[to.command]
        self._check(set(query) <= QUERIES[verb], f"{verb} {kind}: query {query}")
        full = f"{kind}/{part}" if part else kind
        if (verb, full) in self.forbidden or ("everywhere" in path and (f"{verb} everywhere", full) in self.forbidden):
            scope = f'in the namespace "{space}"' if space else "at the cluster scope"
            raise Refused(
                403, f'{kind} is forbidden: User "ada" cannot {verb} resource "{full}" in API group "{group}" {scope}', "Forbidden"
            )
        if group.startswith("kueue") and not self.kueue:
            raise Refused(404, "the server could not find the requested resource", "NotFound")
        if not kind:
            return to.say(
                200,
                {
                    "kind": "APIGroup",
                    "apiVersion": "v1",
                    "name": group,
                    "versions": [],
                    "preferredVersion": {"groupVersion": f"{group}/{KUEUE_VERSION}", "version": KUEUE_VERSION},
                },
            )
        if verb == "list":
            return to.say(200, self._list(kind, space, query))
        if verb == "create":
            return to.say(201, self._create(kind, space, json.loads(body), query))
        key = (kind, space, name)
        if key not in self.objects:
            raise Refused(404, f'{kind}.{group} "{name}" not found' if group else f'{kind} "{name}" not found', "NotFound")
        if part == "log":
            return self._log(to, name, query)
        if verb == "delete":
            options = json.loads(body)
            self._check(
                not problems(options, self.version) and options["propagationPolicy"] in ("Foreground", "Background"), f"delete: {options}"
            )
            gone = self.objects[key]
            gone["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"  # its pods end first
            return to.say(200, gone)
        if verb == "patch":
            return to.say(200, self._patch(key, part, json.loads(body), to.headers.get("Content-Type"), query))
        return to.say(200, self.objects[key])

    def _list(self, kind: str, space: str, query: dict[str, str]) -> dict[str, Any]:
        found = [one for (k, s, _), one in self.objects.items() if k == kind and (s == space or (not space and kind == "pods"))]
        for wish in filter(None, query.get("labelSelector", "").split(",")):
            key, _, value = wish.partition("=")
            found = [one for one in found if one["metadata"].get("labels", {}).get(key) == value]
        for wish in filter(None, query.get("fieldSelector", "").split(",")):
            key, sign, value = re.fullmatch(r"([a-zA-Z.]+)(=|!=)([^=]*)", wish).groups()
            self._check((kind, key) in SELECTABLE, f"fieldSelector {wish}")
            found = [one for one in found if (standing(one, key) == value) == (sign == "=")]
        start, size = int(query.get("continue", 0)), min(int(query.get("limit", 500)), self.page)
        more = {"continue": str(start + size)} if start + size < len(found) else {}
        return {"kind": "List", "apiVersion": "v1", "metadata": more, "items": found[start : start + size]}

    def _create(self, kind: str, space: str, data: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        self._check(query.get("fieldManager") == "ongpu" and query.get("fieldValidation") == "Strict", f"create: {query}")
        self._valid(data)
        if (kind, space, data["metadata"]["name"]) in self.objects:
            raise Refused(409, f'{kind} "{data["metadata"]["name"]}" already exists', "AlreadyExists")
        if "dryRun" not in query:
            self._save(kind, space, data)
        return data

    def _save(self, kind: str, space: str, data: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        meta = {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": "2026-11-30T10:00:00Z",
            **data["metadata"],
            "resourceVersion": str(self._count),
        }
        whole = {**copy.deepcopy(data), "metadata": meta}
        self.objects[kind, space, meta["name"]] = whole
        return whole

    def _patch(self, key: tuple[str, str, str], part: str, change: Any, how: str, query: dict[str, str]) -> dict[str, Any]:
        if self.before_patch:
            act, self.before_patch = self.before_patch, None
            act()
        self._check(query.get("fieldManager") == "ongpu", f"patch: {query}")
        old = self.objects[key]
        seen = change.get("metadata", {}).get("resourceVersion")
        if seen is not None and seen != old["metadata"]["resourceVersion"]:
            raise Refused(
                409,
                f'Operation cannot be fulfilled on {key[0]} "{key[2]}": the object has been modified; please try again',
                "Conflict",
            )
        if how == "application/apply-patch+yaml":
            self._check("fieldManager" in query and change.get("metadata", {}).get("name") == key[2], f"apply: {change}")
            self._valid(change)
            new = self._apply(key, part, old, change, query)
        elif how == "application/merge-patch+json":
            new = merged(old, change)
        else:
            raise Refused(415, f"the body of the request was in an unknown format: {how}", "UnsupportedMediaType")
        other = ("status",) if not part else tuple(set(new) - {"status", "metadata", "kind", "apiVersion"})
        for name in other:  # a request to the object leaves its status alone, and the other way
            new[name] = old.get(name, {})
        if key[0] != "workloads":
            self._valid({**new, "metadata": {k: v for k, v in new["metadata"].items() if k != "resourceVersion"}})
        if key[0] == "jobs" and any(new["spec"].get(name) != old["spec"].get(name) for name in IMMUTABLE):
            raise Refused(422, f'Job.batch "{key[2]}" is invalid: spec: field is immutable', "Invalid")
        if query.get("dryRun") == "All":
            return new
        return self._save(key[0], key[1], new)

    def _apply(self, key: tuple[str, str, str], part: str, old: Any, wanted: Any, query: dict[str, str]) -> dict[str, Any]:
        owners = dict(self.owners.get((key[0], key[2]), {}))
        manager = query["fieldManager"]
        have, want = dict(fields(old)), dict(fields({k: v for k, v in wanted.items() if k not in ("metadata", "kind", "apiVersion")}))
        clash = sorted({who for path, value in want.items() if (who := owners.get(path, manager)) != manager and have.get(path) != value})
        if clash and query.get("force") != "true":
            paths = ", ".join("." + ".".join(path) for path in want if owners.get(path, manager) != manager)
            raise Refused(409, f'Apply failed with {len(clash)} conflict: conflict with "{clash[0]}" using v1: {paths}', "Conflict")
        for path in [path for path, who in owners.items() if who == manager and path not in want]:
            have.pop(path, None)  # what it no longer applies is gone
            del owners[path]
        have |= want
        owners |= dict.fromkeys(want, manager)
        if "dryRun" not in query:
            self.owners[key[0], key[2]] = owners
        return {**old, **built(have)}

    def _log(self, to: Any, name: str, query: dict[str, str]) -> None:
        self._check(query.get("container") == "main", f"log: {query}")
        pod = self.objects["pods", "ml", name]
        state = (pod["status"].get("containerStatuses") or [{}])[0].get("state", {})
        if not {"running", "terminated"} & state.keys():
            raise Refused(400, f'container "main" in pod "{name}" is waiting to start: ContainerCreating', "BadRequest")
        to.send_response(200)
        to.send_header("Transfer-Encoding", "chunked")
        to.end_headers()
        sent = 0
        while True:
            text = self.logs.get(name, b"")
            if text[sent:]:
                to.wfile.write(b"%x\r\n%s\r\n" % (len(text) - sent, text[sent:]))
                sent = len(text)
            running = "running" in (self.objects["pods", "ml", name]["status"].get("containerStatuses") or [{}])[0].get("state", {})
            if query.get("follow") != "true" or (not running and sent == len(self.logs.get(name, b""))):
                break
            time.sleep(0.02)
        to.wfile.write(b"0\r\n\r\n")

    def _valid(self, data: dict[str, Any]) -> None:
        if wrong := problems(data, self.version):
            self.bad += wrong
            raise Refused(422, f"{data.get('kind')} is invalid: {'; '.join(wrong)}", "Invalid")

    def _check(self, good: bool, what: str) -> None:
        if not good:
            self.bad.append(what)
            raise Refused(400, what, "BadRequest")


def standing(data: Any, path: str) -> str:
    """What stands at a path of a field selector; "" where nothing does."""
    for key in path.split("."):
        data = data.get(key, {})
    return data or ""


def merged(old: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    found = dict(copy.deepcopy(old)) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def fields(data: Any, path: tuple[str, ...] = ()) -> Any:
    """(path, value) of each field that can be owned: conditions by their type; other lists (taints, ...) are atomic."""
    if path == ("status", "conditions"):
        for row in data:
            yield from fields(row, (*path, f"type={row['type']}"))
    elif isinstance(data, dict) and data:
        for key, value in data.items():
            yield from fields(value, (*path, key))
    else:
        yield path, data


def built(pairs: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    """The object again."""
    found: dict[str, Any] = {}
    for path, value in pairs.items():
        if path[:2] == ("status", "conditions"):
            rows = found.setdefault("status", {}).setdefault("conditions", [])
            kind = path[2].removeprefix("type=")
            row = next((one for one in rows if one["type"] == kind), None)
            if row is None:
                rows.append(row := {"type": kind})
            row[path[3]] = value
            continue
        here = found
        for key in path[:-1]:
            here = here.setdefault(key, {})
        here[path[-1]] = value
    return found
