"""The engine `kubernetes`: each job, or array, is a Job of batch/v1; with [kubernetes] queue set, Kueue decides when it starts.

Written from the API's published types and documents, and tested against a recorded server: no cluster was at hand.
"""

import getpass
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ongpu.lazy import replace
from ongpu.queue import job as jobs
from ongpu.queue.answers import at, chosen
from ongpu.queue.config import Config
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.kubernetes import manifest, nodes, telling, waiting
from ongpu.queue.engines.kubernetes.account import Account
from ongpu.queue.engines.kubernetes.api import Api, no_such
from ongpu.queue.engines.kubernetes.manifest import CONTAINER, HELD, QUEUE
from ongpu.queue.engines.kubernetes.parts import MANAGED, MINE, label, text
from ongpu.queue.job import Card, Listing, Spec, Told, Want
from ongpu.queue.remote import Refusal, cut

OURS = f"{MANAGED}={MINE}"
BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"  # pods that hold what they were given
MOST_POD_PAGES = 8  # of the whole cluster: of a larger one the GPUs are not told
DEAD = 15  # silent seconds after which a stream may be dead
PAUSE = 1.0  # seconds between two looks at a job that has not begun


class Kubernetes:
    """See `Engine`."""

    name = "kubernetes"
    honours = manifest.HONOURS
    advisory: Mapping[str, tuple[str, str]] = manifest.ADVISORY

    def __init__(self, config: Config, environ: Mapping[str, str] = os.environ, who: Account | None = None) -> None:
        self._keep = config.keep
        self._settings = replace(config.kubernetes, image=environ.get("ONGPU_IMAGE") or config.kubernetes.image)
        self._api = Api(self._settings.context, self._settings.namespace, environ, who)

    def submit(self, specs: Sequence[Spec]) -> list[str]:
        """One Job for each; one for an array. Where one is refused, those before it are deleted again."""
        user = _user()
        here = self._nodes() if any(spec.gpus and (spec.model or spec.memory or spec.capability) for spec in specs) else None
        made, ids = [], []
        for group in _groups(specs):
            resource = nodes.resource_of(group[0], self._settings.resource)
            terms = nodes.terms(group[0], resource, here)
            name = manifest.name(group[0], secrets.token_hex(4))
            made.append(manifest.job(group, name, user, self._settings, resource, terms, self._keep))
            ids += [f"{name}_{spec.index}" if spec.index is not None else name for spec in group]
        done: list[str] = []
        try:
            for one in made:
                self._api.create(self._api.jobs, one)
                done.append(one["metadata"]["name"])
        except BaseException:
            for name in done:
                self._api.delete(self._api.jobs, name)
            raise
        return ids

    def jobs(self, want: Want) -> Listing:
        """Those that ongpu made in the namespace."""
        want = replace(want, user=label(want.user))
        names = sorted({one.partition("_")[0] for one in want.ids})
        if want.ids and len(names) <= 4:
            every = [one for name in names if (job := self._api.get(self._api.jobs, name)) is not None for one in self._told(job)]
            shown, counts = chosen(every, want)
            return Listing(jobs=shown, counts=counts)
        pods = telling.by_job(self._api.every(self._api.pods, labelSelector=OURS))
        listed = self._api.every(self._api.jobs, labelSelector=OURS)
        every = [one for job in listed for one in telling.told(job, pods.get(text(at(job, "metadata", "name")), []))]
        shown, counts = chosen(every, want)
        return Listing(jobs=shown, counts=counts, cards=() if want.ids else self._cards(every))

    def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
        """What its container printed: the last pod's, or that of the attempt. A pod that was removed took its output with it."""
        told = self._one(job)
        pods = told.more["pods"]
        if attempt is not None and not 1 <= attempt <= len(pods):
            raise EngineError(f"{job}: no pod of attempt {attempt} is left", f"{job}：第 {attempt} 次运行的 Pod 已不存在")
        if attempt is not None:
            yield from self._log(pods[attempt - 1], follow)
        elif follow:
            yield from self._follow(told)
        else:
            for pod in reversed(pods):  # the last that began
                began = False
                for piece in self._log(pod, False):
                    began = True
                    yield piece
                if began:
                    return

    def _log(self, pod: str, follow: bool) -> Iterator[bytes]:
        """Nothing where its container has not begun, or the pod is gone."""
        try:
            for piece in self._api.log(pod, CONTAINER, follow):
                if piece or follow:
                    yield piece
        except Refusal as error:
            if error.status not in (400, 404):
                raise

    def _follow(self, told: Told) -> Iterator[bytes]:
        """One pod after the other, until the job is over. A stream that stays silent may be dead: the job itself is looked at then."""
        job, seen, waited = told.id, 0, 0
        while True:
            began = quiet = 0
            for pod in told.more["pods"][seen : seen + 1]:
                for piece in self._log(pod, True):
                    began = 1
                    yield piece
                    quiet = 0 if piece else quiet + 1
                    if quiet >= DEAD and self._one(job).state in jobs.OVER:
                        break
            seen += began
            waited = 0 if began else waited + 1
            if not began and told.state in jobs.OVER:
                return
            if told.state == jobs.RUNNING and seen == len(told.more["pods"]) and waited >= DEAD:
                raise cut(job)  # its pod's stream has ended, and it has not
            if not began:
                yield b""
                time.sleep(PAUSE)
            told = self._one(job)

    def cancel(self, ids: Sequence[str]) -> None:
        """Deletes them: their processes get SIGTERM, and SIGKILL after `grace`. Kubernetes keeps no record of them, nor their output."""
        for job, _ in self._each(ids):
            self._api.delete(self._api.jobs, text(at(job, "metadata", "name")))

    def hold(self, ids: Sequence[str]) -> None:
        """Suspends those that have not begun; with Kueue, by its Workload."""
        for job, told in self._each(ids):
            if any(one.state in (jobs.RUNNING, jobs.STARTING, jobs.ENDING) for one in told):
                raise EngineError(f"{told[0].id}: it runs: holding it would end it", f"{told[0].id}：已在运行，挂起会终止它")
            if any(one.state in jobs.LIVE for one in told):
                self._mark(job, True)

    def release(self, ids: Sequence[str]) -> None:
        """They may start again."""
        for job, told in self._each(ids):
            if any(one.state in jobs.LIVE for one in told) and (
                at(job, "metadata", "annotations", HELD) or at(job, "spec", "suspend") is True
            ):
                self._mark(job, False)

    def why(self, job: Told) -> list[tuple[str, str]]:
        """From the scheduler, Kueue, the container and the events."""
        found = self._get(job.id)
        told = self._one(job.id)
        name = text(at(found, "metadata", "name"))
        pod = self._api.get(self._api.pods, told.more["pods"][-1]) if told.more["pods"] else None
        if told.state in (jobs.FAILED, jobs.LOST):
            said = waiting.ended(found, pod)
            return said + self._died(told) if told.ending in ("program", "signal") else said
        if told.state not in (jobs.WAITING, jobs.STARTING, jobs.HELD):
            return []
        about = text(at(pod, "metadata", "name")) or name
        events: Sequence[Any] = self._api.allowed(self._api.events, fieldSelector=f"involvedObject.name={about}") or []
        kueue = bool(at(found, "metadata", "labels", QUEUE)) and at(found, "spec", "suspend") is True
        try:
            workload = self._workload(found)[1] if kueue else None
        except Refusal as error:  # most likely: Kueue's objects may not be read
            return [(error.english, error.chinese), *waiting.lines(found, pod, None, events, False, self._settings.resource)]
        return waiting.lines(found, pod, workload, events, kueue, self._settings.resource)

    def _died(self, told: Told) -> list[tuple[str, str]]:
        """By the end of its output, where there is some."""
        from ongpu.queue.hindsight import died

        try:
            return died(self.output(told.id), told.code)
        except Refusal:  # its pod is gone
            return []

    # --- the cluster

    def _nodes(self) -> tuple[nodes.Node, ...] | None:
        """None: they may not be listed."""
        listed = self._api.allowed(self._api.nodes)
        return None if listed is None else nodes.nodes({"items": listed}, self._settings.resource)

    def _cards(self, every: Sequence[Told]) -> tuple[Card, ...]:
        """None where nodes, or the pods of other namespaces, may not be seen: a GPU that is taken would be told as free."""
        here = self._nodes()
        bound = self._api.allowed(self._api.everywhere, MOST_POD_PAGES, fieldSelector=BOUND) if here else None
        if not here or bound is None:
            return ()
        mine: dict[str, list[str]] = {}
        for one in every:
            if one.node and one.state in (jobs.RUNNING, jobs.STARTING, jobs.ENDING):
                mine.setdefault(one.node, []).extend([one.id] * one.spec.gpus)
        return nodes.cards(here, mine, nodes.others(bound, self._settings.resource))

    def _get(self, job: str) -> Any:
        found = self._api.get(self._api.jobs, job.partition("_")[0])
        if found is None:
            raise no_such(job)
        return found

    def _told(self, job: Any) -> list[Told]:
        name = text(at(job, "metadata", "name"))
        key = telling.JOB_LABELS[0]
        pods = self._api.every(self._api.pods, labelSelector=f"{key}={name}") or self._api.every(
            self._api.pods, labelSelector=f"job-name={name}"
        )
        return telling.told(job, telling.by_job(pods).get(name, []))

    def _one(self, job: str) -> Told:
        found = next((one for one in self._told(self._get(job)) if one.id == job), None)
        if found is None:
            raise EngineError(f"{job}: an array; name one of it: {job}_0", f"{job}：是数组，请指明其中一个：{job}_0", 1)
        return found

    def _each(self, ids: Sequence[str]) -> list[tuple[Any, list[Told]]]:
        """The Jobs of these ids. An array is one Job: its name, or all of it that lives. Raises EngineError for a part of one."""
        found = []
        for name in dict.fromkeys(one.partition("_")[0] for one in ids):
            job = self._get(name)
            told = self._told(job)
            left = [one.id for one in told if one.state in jobs.LIVE and one.id not in ids]
            if name not in ids and left:
                raise EngineError(
                    f"Kubernetes takes an array only as a whole: {name} (and {left[0]} was not named)",
                    f"Kubernetes 只能整体处理数组：{name}（未包含 {left[0]}）",
                )
            found.append((job, told))
        return found

    def _mark(self, job: Any, held: bool) -> None:
        """Held or not. The version that was seen is named, so that a job which begins just now is refused (409), not ended."""
        name = text(at(job, "metadata", "name"))
        body: dict[str, Any] = {"metadata": {
            "annotations": {HELD: "true" if held else None}, "resourceVersion": text(at(job, "metadata", "resourceVersion"), 80),
        }}  # fmt: skip
        if at(job, "metadata", "labels", QUEUE):
            path, workload = self._workload(job)
            if workload is None:
                raise EngineError(f"{name}: Kueue has made no Workload of it yet", f"{name}：Kueue 尚未为它建立 Workload")
            self._api.patch(path, text(at(workload, "metadata", "name")), {"spec": {"active": not held}})
        else:
            body["spec"] = {"suspend": held}
        self._api.patch(self._api.jobs, name, body)

    def _workload(self, job: Any) -> tuple[str, Any]:
        """Kueue's object of the job, None where there is none, and the path of such."""
        path = self._api.workloads()
        uid = text(at(job, "metadata", "uid"))
        found = self._api.every(path, labelSelector=f"kueue.x-k8s.io/job-uid={uid}") if path and uid else []
        return path, found[0] if found else None


def _groups(specs: Sequence[Spec]) -> list[list[Spec]]:
    """Arrays (specs with an index that stand together, alike but for it), and single jobs."""
    found: list[list[Spec]] = []
    for spec in specs:
        last = found[-1][0] if found else None
        if last is not None and spec.index is not None and last.index is not None and replace(spec, index=last.index) == last:
            found[-1].append(spec)
        else:
            found.append([spec])
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
