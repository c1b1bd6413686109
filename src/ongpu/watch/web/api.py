"""The HTTP API: what the pages show, as JSON. Reading asks the store; what changes something has passed the guard before it comes here."""

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from pydantic import StringConstraints

import ongpu
from ongpu.facts.sample import COLUMNS
from ongpu.store import StoreError
from ongpu.store import Used as UsedRow
from ongpu.watch.processes import Proc
from ongpu.watch.state import GpuState
from ongpu.watch.web import figures, models
from ongpu.watch.web.pages import work as work_page
from ongpu.watch.web.reading import RANGES, Body, Reader, Told, View, covered

MOST_ROWS = 10_000  # of work that one answer holds
SPAN = 400 * 86400.0  # seconds that one question may look at
Metric = Literal["util", "mem_util", "mem_used", "temp", "power", "sm_clock", "mem_clock", "reasons", "energy", "fan", "pcie_tx", "pcie_rx",
                 "ecc", "replays", "idle"]  # fmt: skip
By = Literal["user", "job", "command", "gpu"]
Span = Literal["1h", "6h", "24h", "7d", "30d"]
Time = Annotated[float | None, Query(ge=0, le=1e11, allow_inf_nan=False, description="seconds since the epoch")]
Range = Annotated[Span | None, Query(alias="range", description="the time up to now, instead of start and end")]
Name = Annotated[str, StringConstraints(max_length=80)]
Number = Annotated[int, Path(ge=1, le=models.MOST)]
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": models.Problem, "description": "The question makes no sense, or the body is no JSON"},
    401: {"model": models.Problem, "description": "The token is needed"},
    403: {"model": models.Problem, "description": "The request comes from another site"},
    413: {"model": models.Problem, "description": "The body is too large"},
    421: {"model": models.Problem, "description": "The Host is not this server's"},
    429: {"model": models.Problem, "description": "Too many wrong tokens"},
    503: {"model": models.Problem, "description": "The store cannot be read or written"},
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": models.Problem, "description": "There is none of that number"}}
CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
router = APIRouter(prefix="/api/v1", responses=REFUSALS)


def reader(request: Request) -> Reader:
    """The store's reader of this application."""
    found: Reader = request.app.state.reader
    return found


def span(range_: Span | None, start: float | None, end: float | None, usual: float) -> tuple[float, float]:
    """(start, end) in seconds. Raises 400 where it ends before it begins, or is too long."""
    now = time.time()
    end = now if end is None or range_ else end
    start = end - (RANGES[range_] if range_ else usual) if start is None or range_ else start
    if not start < end:
        raise HTTPException(400, "it ends before it begins")
    if end - start > SPAN:
        raise HTTPException(400, f"longer than {SPAN:.0f} s")
    return max(start, 0.0), end


def agent(view: View) -> Literal["ok", "silent", "never", "no store"]:
    """What is known of the agent."""
    return "no store" if view.problem else "never" if view.state is None else "silent" if view.silent else "ok"


@router.get("/health")
def health(request: Request) -> models.Health:
    """Whether there is something to be known at all; always 200, the body says what is so."""
    view = reader(request).view()
    told = view.state if view.state and not view.silent else None
    return models.Health(
        version=ongpu.__version__, agent=agent(view), age=view.age, up=told.up if told else None,
        reason=str(view.problem) if view.problem else told.reason if told else "", gpus=len(view.gpus),
        not_answering=sum(gpu.condition != "ok" for gpu in view.gpus) if told else None, open_incidents=len(view.incidents),
    )  # fmt: skip


@router.get("/state")
def state(request: Request) -> models.State:
    """The machine and all GPUs as they are now."""
    view = reader(request).view()
    told = view.state
    known = told if told and not view.silent else None
    return models.State(
        at=view.at, written=view.written, agent=agent(view), up=known.up if known else None,
        reason=str(view.problem) if view.problem else known.reason if known else "", driver=told.driver if told else None,
        cuda=told.cuda if told else None, samples=told.samples if told else 0, late=told.late if told else 0,
        restarts=told.restarts if told else 0, gpus=[gpu_of(view, gpu) for gpu in view.gpus],
        machine=[verdict(one) for one in view.verdicts if one.gpu is None and not view.silent],
    )  # fmt: skip


@router.get("/gpus")
def gpus(request: Request) -> list[models.Gpu]:
    """All GPUs as they are now, the lost ones too."""
    view = reader(request).view()
    return [gpu_of(view, gpu) for gpu in view.gpus]


def gpu_of(view: View, gpu: GpuState) -> models.Gpu:
    """One GPU; while the agent is silent, nothing of it is told as so."""
    known = gpu.condition == "ok" and not view.silent
    return models.Gpu(
        index=gpu.index, uuid=gpu.uuid, name=gpu.name, bus=gpu.bus, condition="unknown" if view.silent else gpu.condition, code=gpu.code,
        since=gpu.since, seen=gpu.seen, values={name: gpu.value(name) if known else None for name in COLUMNS},
        not_told={name: code for name, code in gpu.why.items() if isinstance(code, int)}, identity=gpu.identity,
        held_down=figures.held(gpu, "en") if known else [], xids={str(code): count for code, count in gpu.xids.items()},
        processes=[process(one) for one in gpu.processes] if known else [],
        verdicts=[verdict(one) for one in view.of(gpu)] if not view.silent else [],
    )  # fmt: skip


def process(one: Proc) -> models.Process:
    """One process."""
    names = ("user", "command", "job", "container")
    text: dict[str, Any] = {name: None if one.host.get(name) is None else str(one.host[name]) for name in names}
    rss = one.host.get("rss")
    return models.Process(
        pid=one.pid, kind=one.kind, memory_mib=one.mem, sm_percent=one.sm, cpu_cores=one.cpu_share,
        host_memory_mib=rss if isinstance(rss, int) else None, **text,
    )  # fmt: skip


def verdict(one: Told) -> models.Verdict:
    """One finding."""
    title = {lang: one.text(lang) for lang in ("en", "zh")}
    return models.Verdict(slug=one.slug, severity=one.severity, certainty=one.certainty, title=title)


@router.get("/series")
def series(
    request: Request, metric: Metric,
    gpu: Annotated[list[Name] | None, Query(max_length=64, description="indices or UUIDs; all where none is named")] = None,
    range_: Range = None, start: Time = None, end: Time = None, points: Annotated[int, Query(ge=2, le=2000)] = 600,
) -> list[models.Series]:  # fmt: skip
    """One metric over time, of each GPU that is named. The points stand at most that many apart; gaps stay gaps."""
    begin, stop = span(range_, start, end, RANGES["1h"])
    store = reader(request)
    wanted = [one for one in store.gpus() if gpu is None or one.uuid in gpu or (one.place is not None and str(one.place) in gpu)][:64]
    found = store.series(metric, begin, stop, points, [one.id for one in wanted])
    return [
        models.Series(
            gpu=one.place, uuid=one.uuid, metric=metric, start=begin, end=stop,
            points=[models.Point(t=p.t, mean=p.avg, max=p.max) for p in found.get(one.id, ())],
        ) for one in wanted
    ]  # fmt: skip


@router.get("/incidents")
def incidents(
    request: Request, open_only: Annotated[bool, Query(alias="open")] = False, start: Time = None, end: Time = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100, offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> models.Incidents:  # fmt: skip
    """Incidents that were open at some time between start and end, the latest first."""
    store = reader(request)
    found = store.incidents(open_only=open_only, start=start, end=end, limit=offset + limit + 1)
    silences = store.silences()
    more = offset + limit if len(found) > offset + limit else None
    return models.Incidents(incidents=[incident_of(one, silences) for one in found[offset : offset + limit]], next=more)


@router.get("/incidents/{number}", responses=NOT_FOUND)
def incident(request: Request, number: Number) -> models.Incident:
    """One incident with its diagnosis."""
    store = reader(request)
    found = store.incident(number)
    if found is None:
        raise HTTPException(404, "there is no such incident")
    return incident_of(found, store.silences())


def incident_of(body: Body, silences: list[Body]) -> models.Incident:
    """What the store holds of it."""
    return models.Incident.model_validate({**body, "silenced": body.get("closed") is None and covered(body, silences)})


@router.post("/incidents/{number}/acknowledge", responses=NOT_FOUND)
def acknowledge(request: Request, number: Number, ack: models.NewAck | None = None) -> models.Incident:
    """Says that somebody has seen it. Needs the token."""
    store = reader(request)
    if store.incident(number) is None:
        raise HTTPException(404, "there is no such incident")
    store.acknowledge(number, ack.note if ack else "")
    return incident(request, number)


@router.get("/work")
def work(request: Request, by: By = "user", range_: Range = None, start: Time = None, end: Time = None) -> models.Work:
    """Who used what, with what it cost."""
    store, (begin, stop) = reader(request), span(range_, start, end, RANGES["7d"])
    rows = store.work(begin, stop, by)
    told = [used(row, store.price_gpu_hour) for row in rows[:MOST_ROWS]]
    return models.Work(by=by, start=begin, end=stop, currency=store.currency, rows=told)


def used(row: UsedRow, price: float | None) -> models.Used:
    """One row."""
    return models.Used(
        name=row.name, state={1: "held", 0: "free"}.get(row.state, "unknown"),  # type: ignore[arg-type]
        gpu_hours=row.gpu_seconds / 3600, busy_share=figures.share(row.busy_seconds, row.gpu_seconds),
        held_idle_hours=None if row.held_idle_seconds is None else row.held_idle_seconds / 3600,
        held_idle_cost=work_page.idle_cost(row, price), energy_kwh=None if row.energy_j is None else row.energy_j / 3.6e6,
        energy_estimated_kwh=row.estimated_j / 3.6e6, cost=row.cost, memory_peak_mib=row.memory_mib,
    )  # fmt: skip


@router.get("/work.csv", responses=CSV, response_class=Response)
def work_csv(request: Request, by: By = "user", range_: Range = None, start: Time = None, end: Time = None) -> Response:
    """The same for a spreadsheet."""
    store, (begin, stop) = reader(request), span(range_, start, end, RANGES["7d"])
    text = work_page.as_csv(store.work(begin, stop, by), by, store.price_gpu_hour)
    headers = {"content-disposition": f'attachment; filename="ongpu-{by}.csv"'}
    return Response("\ufeff" + text, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/events")
def events(request: Request, start: Time = None, end: Time = None, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> models.Events:
    """What happened at single moments, the latest first."""
    return models.Events(events=[models.Event.model_validate(one) for one in reader(request).events(start, end, limit)])


@router.get("/silences")
def silences(request: Request) -> models.Silences:
    """The silences that hold now."""
    return models.Silences(silences=[silence_of(one) for one in reader(request).silences()])


def silence_of(one: Body) -> models.Silence:
    """What the store holds of it: nothing named there is all."""
    texts = {"slug": one.get("slug"), "gpu": one.get("gpu_uuid"), "note": one.get("note")}
    return models.Silence(id=one["id"], until=one["until"], **{name: str(text or "") for name, text in texts.items()})


@router.post("/silences", status_code=201)
def silence(request: Request, wanted: models.NewSilence) -> models.Silence:
    """Asks that nobody be told of something for some time. Needs the token."""
    if not wanted.slug and not wanted.gpu:
        raise HTTPException(400, "name a slug, a GPU, or both")
    number = reader(request).silence(wanted.seconds, wanted.slug, wanted.gpu, wanted.note)
    return models.Silence(id=number, until=time.time() + wanted.seconds, slug=wanted.slug, gpu=wanted.gpu, note=wanted.note)


@router.delete("/silences/{number}", status_code=204, responses=NOT_FOUND)
def lift(request: Request, number: Number) -> None:
    """Ends a silence. Needs the token."""
    if not reader(request).lift(number):
        raise HTTPException(404, "there is no such silence")


async def no_store(request: Request, error: Exception) -> Response:
    """The answer where the store cannot be read or written: 503 with the reason."""
    told = error.en if isinstance(error, StoreError) else str(error)
    return Response(models.Problem(detail=told).model_dump_json(), 503, media_type="application/json")
