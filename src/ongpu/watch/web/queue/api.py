"""The queue over HTTP: reading as the pages do; submitting, cancelling, holding and releasing behind the guard's token, outputs too."""

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response

from ongpu.queue import job as jobs
from ongpu.queue.engines import EngineError
from ongpu.queue.words import because
from ongpu.watch.web import models as common
from ongpu.watch.web.api import NOT_FOUND, REFUSALS
from ongpu.watch.web.guard import ALLOWED
from ongpu.watch.web.queue import models
from ongpu.watch.web.queue.reading import SPANS, Queue, Seen, title
from ongpu.watch.web.queue.sums import shares

Id = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$")]
Span = Annotated[Literal["6h", "24h", "7d"], Query(alias="range", description="the time up to now")]
REFUSED = {**REFUSALS, 409: {"model": common.Problem, "description": "The engine refuses it: the reason"}}
TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
router = APIRouter(prefix="/api/v1/queue", responses=REFUSED)


def queue(request: Request) -> Queue:
    """The queue of this application."""
    found: Queue = request.app.state.queue
    return found


@router.get("")
def listing(request: Request) -> models.Jobs:
    """The queue as it is; at most 200 that wait and 200 that ended, `counts` has all. Without a queue: empty, with the reason."""
    of = queue(request)
    seen = of.seen()
    told = seen.listing
    return models.Jobs(
        at=seen.at, engine=seen.engine, problem=seen.problem.english if seen.problem else "",
        warning=told.warning[0] if told and told.warning else "", may_submit=of.submits, counts=dict(told.counts) if told else {},
        gpus=[card(one) for one in seen.cards], jobs=[job(one, seen) for one in seen.jobs],
    )  # fmt: skip


def card(one: jobs.Card) -> models.Card:
    """One GPU."""
    return models.Card(
        id=one.id, index=one.index, node=one.node, name=one.name, memory_mib=one.memory, used_mib=one.used, util=one.util, state=one.state,
        slug=one.slug, since=one.since, foreign=list(one.foreign), holder=one.holder, drained_by=one.drained_by,
        jobs=list(one.jobs),
    )  # fmt: skip


def job(one: jobs.Told, seen: Seen) -> models.Job:
    """One job."""
    said = {lang: text for lang in ("en", "zh") if (text := because(one, lang))}
    return models.Job(
        id=one.id, name=title(one), user=one.user, project=one.spec.project, state=one.state,  # type: ignore[arg-type]
        array=one.array, index=one.spec.index, gpus_asked=one.spec.gpus, memory_mib=one.spec.memory, limit=one.spec.limit,
        submitted=one.submitted or None, since=one.since, started=one.started, ended=one.ended, expected=seen.expected.get(one.id),
        gpus=list(one.gpus), node=one.node, attempts=one.attempts, code=one.code, ending=one.ending, slug=one.slug,
        gpu_hours=one.attained / 3600, busy_share=one.busy, memory_peak_mib=one.peak,
        energy_kwh=None if one.energy is None else one.energy / 3.6e6, said=said,
    )  # fmt: skip


@router.get("/runs")
def runs(request: Request, range_: Span = "24h") -> models.Runs:
    """What ran where."""
    seen = queue(request).seen()
    start = seen.at - SPANS[range_]
    found = [
        models.Run(
            job=one.job, name=one.name, user=one.user, project=one.project, gpus=list(one.gpus), started=one.started, ended=one.ended,
            ending=one.ending, slug=one.slug,
        ) for one in seen.runs if one.ended is None or one.ended > start
    ]  # fmt: skip
    return models.Runs(start=start, end=seen.at, cut=seen.cut, runs=found)


@router.get("/use")
def use(request: Request, by: Literal["user", "project"] = "user", range_: Span = "24h") -> models.Shares:
    """Who had how much."""
    of = queue(request)
    seen = of.seen()
    rows = [
        models.Share(
            name=one.name, gpus_now=one.running, waiting=one.waiting, runs=one.runs, gpu_hours=one.hours, energy_kwh=one.kwh, cost=one.cost,
        ) for one in shares(seen, SPANS[range_], by, of.cost)
    ]  # fmt: skip
    return models.Shares(by=by, start=seen.at - SPANS[range_], end=seen.at, currency=of.currency, rows=rows)


@router.post("/jobs", status_code=201)
def submit(request: Request, wanted: models.NewJob) -> models.Submitted:
    """Runs a command as the user of this server, as soon as GPUs are free and fit. Needs the token, and that this server allows it."""
    spec = jobs.Spec(
        command=tuple(wanted.command), name=wanted.name, gpus=wanted.gpus, memory=wanted.memory_mib, share=wanted.share, model=wanted.model,
        limit=wanted.limit, cpus=wanted.cpus, host_memory=wanted.host_memory_mib, folder=wanted.folder, environ=dict(wanted.environ),
        project=wanted.project, priority=wanted.priority, checkpoint=wanted.checkpoint,
    )  # fmt: skip
    return models.Submitted(id=queue(request).submit([spec], wanted.retries)[0])


@router.get("/jobs/{job_id}", responses=NOT_FOUND)
def one_job(request: Request, job_id: Id) -> models.OneJob:
    """One job, and why it waits or ended so."""
    of = queue(request)
    told = _known(of, job_id)
    lines = of.why(told)
    why = {"en": [line[0] for line in lines], "zh": [line[1] for line in lines]}
    return models.OneJob(job=job(told, Seen(time.time())), why=why)


@router.get("/jobs/{job_id}/output", responses={**NOT_FOUND, **TEXT}, response_class=Response)
def output(request: Request, job_id: Id) -> Response:
    """The end of what it wrote, 64 KiB at most. Needs the token on loopback too: it is the user's own, not everybody's on the machine."""
    if not request.scope.get(ALLOWED):
        raise HTTPException(401, "the token is needed: `ongpu watch token` prints it", {"www-authenticate": "Bearer"})
    of = queue(request)
    _known(of, job_id)
    return Response(of.tail(job_id), media_type="text/plain; charset=utf-8")


@router.post("/jobs/{job_id}/{action}", responses=NOT_FOUND)
def act(request: Request, job_id: Id, action: Literal["cancel", "hold", "release"]) -> models.OneJob:
    """Cancels it, holds it back, or lets it go on waiting for its turn. Needs the token."""
    of = queue(request)
    _known(of, job_id)
    of.change(action, [job_id])
    return one_job(request, job_id)


def _known(of: Queue, job_id: str) -> jobs.Told:
    told = of.told(job_id)
    if told is None:
        raise HTTPException(404, "there is no such job")
    return told


async def refused(request: Request, error: Exception) -> Response:
    """What an engine says no to: 409 with its words; 503 where it cannot be asked; 403 where this server does not allow it."""
    told, code = (error.english, error.code) if isinstance(error, EngineError) else (str(error), 2)
    status = {69: 503, 75: 503, 77: 403}.get(code, 409)
    return Response(common.Problem(detail=told).model_dump_json(), status, media_type="application/json")
