"""The engine `ray`: jobs of a Ray cluster, by its Jobs API. Ray runs them in no stated order, forgets them with its head node, and starts
none a second time; what it cannot do is refused."""

import getpass
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ongpu.hosts.rest import Door
from ongpu.queue import job as jobs
from ongpu.queue.answers import at, chosen
from ongpu.queue.config import Config
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.ray import asking, cluster, telling
from ongpu.queue.engines.ray.cluster import Node
from ongpu.queue.job import Listing, Spec, Told, Want
from ongpu.queue.remote import Refusal, Server, cut, segment

ADDRESS = "http://127.0.0.1:8265"
JOBS = "/api/jobs/"
QUIET = 1.0  # seconds without output after which a follower looks at the job itself
SEND_LIMIT = 120.0  # seconds for a folder
HINTS = {
    401: ("set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to a file", "请设置 RAY_AUTH_TOKEN，或用 RAY_AUTH_TOKEN_PATH 指向令牌文件"),
    403: ("the token is another cluster's, or an old one", "令牌属于其他集群，或已过期"),
}


class Ray:
    """See `Engine`. Each array is a set of jobs here, for Ray knows no arrays."""

    name = "ray"
    honours = asking.HONOURS
    advisory: Mapping[str, tuple[str, str]] = asking.ADVISORY

    def __init__(self, config: Config, environ: Mapping[str, str] = os.environ) -> None:
        self._config, self._environ = config.ray, environ
        self._server = Server("Ray", Door(url=address(config, environ), headers=headers(config, environ)), _words, HINTS)

    def submit(self, specs: Sequence[Spec]) -> list[str]:
        """One job for each. Where one is refused, those before it are stopped: they pause before they begin."""
        if any(spec.at_once for spec in specs):
            raise EngineError("Ray cannot bound how many of an array run at once", "Ray 无法限制数组同时运行的作业数")
        here = self._nodes() if any(spec.gpus for spec in specs) else ()
        head = f"ongpu-{secrets.token_hex(4)}"
        user = self._user()
        sent: dict[str, str] = {}  # folder -> where it was uploaded to
        bodies = []
        for place, spec in enumerate(specs):
            name = head if len(specs) == 1 and spec.index is None else f"{head}_{place if spec.index is None else spec.index}"
            if spec.folder and spec.folder not in sent:
                sent[spec.folder] = self._send(spec.folder) if self._uploads() else ""
            bodies.append(asking.request(spec, name, here, user, sent.get(spec.folder, ""), self._config.grows))
        done: list[str] = []
        try:
            for body in bodies:
                self._server.ask("POST", JOBS, body, limit=30)
                done.append(body["submission_id"])
        except BaseException:
            for job in done:
                self._stop(job)
            raise
        return done

    def jobs(self, want: Want) -> Listing:
        """All that were submitted to the cluster, by whomever."""
        here = self._nodes() if not want.ids else ()
        every = [one for one, _ in telling.listed(self._server.ask("GET", JOBS), here)]
        shown, counts = chosen(sorted(every, key=lambda one: one.submitted), want)
        none = bool(here) and not any(node.offered for node in here)
        warning = ("no node of the Ray cluster offers a GPU", "Ray 集群中没有节点提供 GPU")
        return Listing(jobs=shown, counts=counts, cards=cluster.cards(here, every), warning=warning if none else None)

    def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
        """As Ray's agent on its node has it, bytes as they were written: the Jobs API's own /logs fails on what is not UTF-8."""
        told, _ = self._one(job)
        while follow and told.state == jobs.WAITING:
            yield b""
            _pause()
            told, _ = self._one(job)
        node = told.more.get("node_id")
        if not node:
            return
        query = f"node_id={segment(str(node))}&filename={segment(f'job-driver-{job}.log')}&lines=-1"
        if not follow:
            try:
                yield from (piece for piece in self._server.stream(f"/api/v0/logs/file?{query}") if piece)
            except Refusal:  # a node that is gone, or a dashboard without the state API
                answer = self._server.ask("GET", f"{JOBS}{segment(job)}/logs")
                yield str(at(answer, "logs") or "").encode("utf-8", "surrogateescape")
            return
        over = 0  # looks since its end that brought nothing
        for piece in self._server.stream(f"/api/v0/logs/stream?{query}&interval=0.5", QUIET):
            yield piece
            if piece:
                continue
            over = over + 1 if told.state in jobs.OVER else 0
            if over > 1:
                return
            told, _ = self._one(job)
        if self._one(job)[0].state not in jobs.OVER:
            raise cut(job)

    def cancel(self, ids: Sequence[str]) -> None:
        """Ray asks each process to end, and kills what is left after the job's own `grace`."""
        every = [one for one, _ in telling.listed(self._server.ask("GET", JOBS), ())]
        for name in ids:
            mine = [one for one in every if name in (one.id, one.array)]
            if not mine:
                raise _no_such(name)
            for one in mine:
                if one.state in jobs.LIVE:
                    self._stop(one.id)

    def hold(self, ids: Sequence[str]) -> None:
        """Ray cannot."""
        raise EngineError("Ray cannot hold a job; cancel it and submit it again", "Ray 无法挂起作业；请取消后重新提交")

    def release(self, ids: Sequence[str]) -> None:
        """Ray cannot."""
        raise EngineError("Ray holds no jobs: there is nothing to release", "Ray 不会挂起作业，没有可释放的")

    def why(self, job: Told) -> list[tuple[str, str]]:
        """What it waits for against what is free; how it ended."""
        told, row = self._one(job.id)
        if told.state == jobs.WAITING:
            return telling.why_waits(told, row, self._nodes())
        if told.state != jobs.FAILED:
            return telling.why_ended(row) if told.state in jobs.OVER else []
        from ongpu.queue.hindsight import died

        return telling.why_ended(row) or died(self.output(job.id), told.code)

    # --- the cluster

    def _one(self, job: str) -> tuple[Told, Any]:
        row = self._server.ask("GET", JOBS + segment(job), missing=True)
        told = telling.told(row, {}) if row is not None else None
        if told is None:
            raise _no_such(job)
        return told, row

    def _nodes(self) -> tuple[Node, ...]:
        listed = self._server.ask("GET", cluster.NODES)
        return cluster.nodes(listed, self._server.ask("GET", cluster.SUMMARY), self._server.ask("GET", cluster.STATUS))

    def _stop(self, job: str) -> None:
        self._server.ask("POST", f"{JOBS}{segment(job)}/stop", missing=True)

    def _uploads(self) -> bool:
        if self._config.folder:
            return self._config.folder == "upload"
        return not any(f"//{host}" in self._server.door.url for host in ("127.", "localhost", "[::1]"))

    def _send(self, folder: str) -> str:
        """Uploads it where the cluster does not have it yet; the address that a runtime environment takes."""
        from ongpu.queue.engines.ray.upload import package

        name, data = package(folder)
        if self._server.answer("GET", f"/api/packages/gcs/{name}").status != 200:
            self._server.ask("PUT", f"/api/packages/gcs/{name}", data, kind="application/octet-stream", limit=SEND_LIMIT)
        return f"gcs://{name}"

    def _user(self) -> str:
        try:
            return getpass.getuser()
        except (OSError, KeyError):
            return str(os.getuid())


def address(config: Config, environ: Mapping[str, str]) -> str:
    """Of the dashboard: RAY_API_SERVER_ADDRESS, the configuration, RAY_ADDRESS where it is of HTTP, this machine."""
    told = (environ.get("RAY_API_SERVER_ADDRESS"), config.ray.address, environ.get("RAY_ADDRESS"))
    return next((one for one in told if one and one.startswith(("http://", "https://"))), ADDRESS)


def headers(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """The token as Ray's own programs find it (RAY_AUTH_TOKEN, the file RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token), and RAY_JOB_HEADERS."""
    found: dict[str, str] = {}
    if more := environ.get("RAY_JOB_HEADERS"):
        try:
            given = json.loads(more)
            found = {str(name): str(value) for name, value in given.items()}
        except (ValueError, AttributeError, RecursionError):
            raise EngineError("RAY_JOB_HEADERS is no JSON table", "RAY_JOB_HEADERS 不是 JSON 表") from None
    if environ.get("RAY_AUTH_MODE", "").lower() == "disabled" or any(name.lower() == "authorization" for name in found):
        return found
    token = environ.get("RAY_AUTH_TOKEN", "").strip()
    named = environ.get("RAY_AUTH_TOKEN_PATH") or config.ray.token_file
    path = Path(named) if named else Path(environ.get("HOME") or "/", ".ray", "auth_token")
    if not token:
        try:
            token = path.read_text("utf-8").strip()
        except (OSError, ValueError):
            if named:
                raise EngineError(f"{path}: Ray's token cannot be read", f"{path}：无法读取 Ray 令牌") from None
    if not token.isascii() or not token.isprintable():
        raise EngineError("Ray's token holds what no header can carry", "Ray 令牌含有请求头不能携带的字符")
    return found | ({"Authorization": f"Bearer {token}"} if token else {})


def _words(body: bytes) -> str:
    """Of an error: the message, or the last line of the traceback that Ray sends."""
    text = body[-8192:].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip(" .")]
    return lines[-1] if lines else ""


def _no_such(job: str) -> EngineError:
    return EngineError(f"{job}: Ray has no such job", f"{job}：Ray 没有这个作业", 1)


def _pause() -> None:
    import time

    time.sleep(1)
