"""A Ray dashboard, as far as the engine asks it: answers as Ray 2.60 gave them (2026-11-30), requests checked as Ray checks them."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-that-is-not-to-be-seen"
# JobSubmitRequest of ray/dashboard/modules/job/common.py: a field that is not here is a TypeError there, and status 400.
FIELDS: dict[str, Any] = {
    "entrypoint": str, "submission_id": str, "job_id": str, "runtime_env": dict, "metadata": dict, "entrypoint_num_cpus": (int, float),
    "entrypoint_num_gpus": (int, float), "entrypoint_memory": int, "entrypoint_resources": dict, "entrypoint_label_selector": dict,
}  # fmt: skip


def node(name: str, gpus: int, model: str = "NVIDIA A100-SXM4-80GB", kind: str = "A100", mib: int = 81920, **more: float) -> dict[str, Any]:
    """One node, as the three questions about it are answered."""
    total = {"CPU": 16.0, "memory": 6.4e10, f"node:{name}": 1.0, **more}
    if gpus:
        total |= {"GPU": float(gpus), f"accelerator_type:{kind}": 1.0}
    uuid = f"GPU-{name}-{{}}"
    cards = [
        {"index": i, "name": model, "uuid": uuid.format(i), "utilizationGpu": 10, "memoryUsed": 9521, "memoryTotal": mib}
        for i in range(gpus)
    ]
    return {"id": f"id-{name}", "name": name, "total": total, "kind": kind if gpus else "", "gpus": cards, "used": 0.0}


@dataclass
class RayServer:
    """It, on a free loopback port."""

    nodes: list[dict[str, Any]] = field(default_factory=lambda: [node("n1", 4)])
    token: str = ""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    packages: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    refuse_after: int | None = None  # submissions; those beyond fail
    state_api: bool = True

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append((self.command, self.path))
                outer.answer(self, body)

            do_GET = do_POST = do_PUT = do_DELETE = _any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()

    def become(self, job: str, status: str, **more: Any) -> None:
        """A job's state changes."""
        self.jobs[job] |= {"status": status, **more}
        if status != "PENDING":
            self.jobs[job].setdefault("driver_node_id", None)
            self.jobs[job]["driver_node_id"] = self.jobs[job]["driver_node_id"] or self.nodes[0]["id"]

    def answer(self, to: BaseHTTPRequestHandler, body: bytes) -> None:
        """One request."""
        if self.token and to.headers.get("Authorization") != f"Bearer {self.token}":
            missing = not to.headers.get("Authorization")
            return _text(to, 401 if missing else 403, "Unauthorized: Missing authentication token" if missing else "Forbidden: Invalid authentication token")  # fmt: skip # noqa: E501
        where = urlsplit(to.path)
        parts = where.path.strip("/").split("/")
        if where.path == "/api/v0/nodes":
            rows = [
                {"node_id": n["id"], "node_name": n["name"], "state": "ALIVE", "resources_total": n["total"],
                 "labels": {"ray.io/node-id": n["id"], **({"ray.io/accelerator-type": n["kind"]} if n["kind"] else {})}}
                for n in self.nodes
            ]  # fmt: skip
            return _json(to, {"result": True, "data": {"result": {"total": len(rows), "result": rows}}})
        if where.path == "/nodes":
            found = [{"hostname": n["name"], "gpus": n["gpus"], "raylet": {"nodeId": n["id"]}} for n in self.nodes]
            return _json(to, {"result": True, "data": {"summary": found}})
        if where.path == "/api/cluster_status":
            usage = {n["id"]: {"GPU": [n["used"], n["total"].get("GPU", 0.0)]} for n in self.nodes}
            return _json(to, {"result": True, "data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": usage}}}})
        if where.path.startswith("/api/v0/logs/") and self.state_api:
            return self._log(to, parts[-1], parse_qs(where.query))
        if parts[:2] == ["api", "packages"]:
            if to.command == "PUT":
                self.packages[parts[3]] = body
                return _text(to, 200, "")
            return _text(to, 200 if parts[3] in self.packages else 404, "")
        if parts[:2] == ["api", "jobs"]:
            return self._jobs(to, parts[2:], body)
        return _text(to, 404, "404: Not Found")

    def _jobs(self, to: BaseHTTPRequestHandler, parts: list[str], body: bytes) -> None:
        if not parts and to.command == "POST":
            asked = json.loads(body)
            for name, value in asked.items():
                if name not in FIELDS or not isinstance(value, FIELDS[name]):
                    return _text(to, 400, f"Traceback (most recent call last):\n  File ...\nTypeError: {name}: {value!r}\n")
            for table in ("metadata", "entrypoint_resources"):
                kind = str if table == "metadata" else (int, float)
                assert all(isinstance(k, str) and isinstance(v, kind) for k, v in asked.get(table, {}).items()), asked
            assert all(isinstance(v, str) for v in asked["runtime_env"].get("env_vars", {}).values()), asked
            if self.refuse_after is not None and len(self.bodies) >= self.refuse_after:
                return _text(to, 500, "Traceback (most recent call last):\nRuntimeError: No available agent\n.\n")
            self.bodies.append(asked)
            job = asked["submission_id"]
            self.jobs[job] = {
                "type": "SUBMISSION", "job_id": None, "submission_id": job, "status": "PENDING", "message": "Job has not started yet.",
                "error_type": None, "start_time": int(time.time() * 1000), "end_time": None, "driver_node_id": None,
                "driver_exit_code": None, "driver_info": None, "entrypoint": asked["entrypoint"],
                **{key: asked.get(key) for key in ("metadata", "runtime_env", "entrypoint_num_gpus")},
            }  # fmt: skip
            return _json(to, {"job_id": job, "submission_id": job})
        if not parts:
            return _json(to, list(self.jobs.values()))
        if parts[0] not in self.jobs:
            return _text(to, 404, f"Job {parts[0]} does not exist")
        if parts[1:] == ["stop"]:
            self.become(parts[0], "STOPPED", end_time=int(time.time() * 1000))
            return _json(to, {"stopped": True})
        if parts[1:] == ["logs"]:
            return _json(to, {"logs": self.logs.get(parts[0], b"").decode()})
        return _json(to, self.jobs[parts[0]])

    def _log(self, to: BaseHTTPRequestHandler, kind: str, query: dict[str, list[str]]) -> None:
        job = query["filename"][0].removeprefix("job-driver-").removesuffix(".log")
        if not any(n["id"] == query["node_id"][0] for n in self.nodes):
            return _text(to, 500, "node not found")
        to.send_response(200)
        to.end_headers()
        sent = 0
        while True:
            text = self.logs.get(job, b"")
            to.wfile.write(text[sent:])
            sent = len(text)
            if kind == "file":
                return
            time.sleep(0.05)
            if to.rfile.closed or self._gone(to):
                return

    @staticmethod
    def _gone(to: BaseHTTPRequestHandler) -> bool:
        import select

        return bool(select.select([to.connection], [], [], 0)[0])


def _text(to: BaseHTTPRequestHandler, status: int, text: str) -> None:
    to.send_response(status)
    to.send_header("Content-Length", str(len(text.encode())))
    to.end_headers()
    to.wfile.write(text.encode())


def _json(to: BaseHTTPRequestHandler, data: Any) -> None:
    _text(to, 200, json.dumps(data))
