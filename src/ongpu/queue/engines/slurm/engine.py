"""The queue's commands as Slurm's: sbatch, squeue, scontrol, scancel, sacct; nothing of ours runs beside them."""

import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ongpu.lazy import lazy, replace
from ongpu.queue.asked import checked
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.slurm import nodes as cluster
from ongpu.queue.engines.slurm import printed, reasons, record, rows, script
from ongpu.queue.engines.slurm.ask import Late, ask, expect, refusal
from ongpu.queue.engines.slurm.known import Known
from ongpu.queue.engines.slurm.nodes import Node
from ongpu.queue.engines.slurm.rows import Row
from ongpu.queue.engines.slurm.told import MARK, ours, remembered, told
from ongpu.queue.job import CANCELLED, FAILED, HELD, LIVE, LOST, OVER, WAITING, Listing, Spec, Told, Want

if TYPE_CHECKING:
    from ongpu.queue.config import Config

PIECE = 256 << 10  # bytes of output at a time
BEGINS = 30.0  # seconds after a start in which its output may not be there yet: over a network file system
LOOK = 2.0  # seconds between two questions of whether a job that is followed still runs
_TASK = lazy(r"^(\d{1,12})\[(\d{1,9})\]$")  # as the local engine names a job of an array


class Slurm:
    """Slurm, by its own programs. What is known of a job comes from squeue or scontrol while Slurm remembers it, then from sacct, from
    jobcomp's file where it can be read, and from what the job's own script noted."""

    name = "slurm"
    honours = frozenset({
        "name", "gpus", "memory", "model", "capability", "limit", "cpus", "host_memory", "folder", "environ", "project", "priority",
        "index", "at_once", "after", "begin", "retries", "retry_on", "checkpoint", "saved", "grace", "on_reboot", "output",
        "reservation",
    })  # fmt: skip
    advisory: Mapping[str, tuple[str, str]] = {
        "limit": (
            "time limits count in whole minutes, up to the next; Slurm looks twice a minute",
            "时限以整分钟计、向上取整，Slurm 每半分钟检查一次",
        ),
        "memory": ("GPU memory is judged by the type of the GPU in slurm.conf", "显存按 slurm.conf 中的 GPU 类型判断"),
        "saved": ("Slurm does not look whether a checkpoint appeared", "Slurm 不检查检查点是否出现"),
        "grace": (
            "KillWait and GraceTime of slurm.conf say when SIGKILL follows",
            "SIGKILL 的时间由 slurm.conf 的 KillWait 与 GraceTime 决定",
        ),
        "project": (
            "the project is kept in the job's comment; as its workload key where TrackWCKey=yes",
            "项目记入作业备注；TrackWCKey=yes 时也作为 wckey",
        ),
    }

    def __init__(self, config: "Config") -> None:
        self.config = config
        self.folder = record.folder()
        self.known = Known(self.folder)

    # --- what is asked of it

    def submit(self, specs: Sequence[Spec]) -> list[str]:
        """Of several sbatch calls each is first tried (Slurm does not look whether a held job can ever run), then all are held until the
        last was taken; where one is refused, those before are cancelled."""
        now = time.time()
        for spec in specs:
            script.refuse_bad(checked(spec), os.geteuid() == 0)
        settings, nodes = self.known.settings(), self.known.nodes()
        where = partial(self._where, settings, nodes, self._settled(specs))
        self._make_folder()
        many = script.groups(specs)
        if len(many) > 1:
            self._try(many, where, now)
        done: list[tuple[str, list[Spec]]] = []
        try:
            for group in many:
                done.append((self._batch(group, where, now, held=len(many) > 1), group))
            if len(many) > 1:
                expect(ask(["scontrol", "release", ",".join(job for job, _ in done)]), "scontrol release")
        except BaseException:
            if done:
                ask(["scancel", *(job for job, _ in done)])
            raise
        return [job if spec.index is None else f"{job}_{spec.index}" for job, group in done for spec in group]

    def _where(
        self, settings: Mapping[str, str], nodes: Sequence[Node], settled: frozenset[tuple[str, str]], spec: Spec, held: bool
    ) -> script.Where:
        own = self.config.slurm
        return script.Where(
            gres=cluster.gres(spec, nodes), memory=cluster.share(spec, nodes, settings), folder=self.folder,
            ongpu=script.gate_words(sys.executable), partition=own.partition, account=own.account, qos=own.qos, extra=own.extra,
            wckey=settings.get("TrackWCKey", "").lower() == "yes", settled=settled, held=held,
        )  # fmt: skip

    def _try(self, many: Sequence[Sequence[Spec]], where: Callable[[Spec, bool], script.Where], now: float) -> None:
        """Raises EngineError for what can never run. What is asked for alike is tried once."""
        told: set[tuple[str, ...]] = set()
        for group in many:
            options = script.options(group[:1], where(group[0], False), now, "")
            alike = tuple(word for word in options if not word.startswith(("--job-name=", "--output=", "--array=", "--chdir=")))
            if alike not in told:
                told.add(alike)
                expect(ask(["sbatch", "--test-only", *options], "#!/bin/sh\n"), "sbatch")

    def _batch(self, group: Sequence[Spec], where_of: Callable[[Spec, bool], script.Where], now: float, held: bool) -> str:
        spec = group[0]
        token = secrets.token_hex(6)
        where = where_of(spec, held)
        argv = ["sbatch", *script.options(group, where, now, f"{MARK}{token} {spec.project}".strip())]
        text = script.script(group, where)
        try:
            line = expect(ask(argv, text, script.environment(spec, os.environ)), "sbatch").strip().splitlines()
            job = line[-1].partition(";")[0] if line else ""
        except Late:
            job = self._by_token(token) or ""  # it may have been taken all the same
            if not job:
                raise
        if not job.isdecimal():
            raise EngineError(f"sbatch answered without a number: {job[:80]}", f"sbatch 的回答中没有作业号：{job[:80]}", 3)
        record.keep(self.folder, job, token, {one.index: one for one in group}, now)
        return job

    def _by_token(self, token: str) -> str | None:
        try:
            return next((row.array or row.raw for row in self.known.live() if row.comment.startswith(MARK + token)), None)
        except EngineError:
            return None

    def _settled(self, specs: Sequence[Spec]) -> frozenset[tuple[str, str]]:
        """Of what is waited for: that which is over as it is to be, and which slurmctld has forgotten. Of such a job it starts what waits
        at once, however it ended, or refuses it (since 23.11). Raises EngineError for what never was, or can never be."""
        wanted = sorted({pair for spec in specs for pair in spec.after})
        for _, job in wanted:
            _check(job)
        if not wanted:
            return frozenset()
        known = self.jobs(Want(ids=tuple({job for _, job in wanted}), most=None)).jobs
        there = {name for row in self.known.live() for name in (row.id, row.array, row.raw)}
        settled = set()
        for how, job in wanted:
            mine = [one for one in known if job in (one.id, one.array)]
            if not mine:
                raise EngineError(f"{job}: no such job to wait for", f"{job}：没有可等待的这个作业")
            bad = next((one for one in mine if one.state in (FAILED, LOST, CANCELLED)), None) if how == "ok" else None
            if bad:
                raise EngineError(
                    f"job {bad.id} ended {bad.state}: what waits for its success can never start",
                    f"作业 {bad.id} 没有成功（{bad.state}）：等待它成功的作业永远无法启动",
                )
            if job not in there and all(one.state in OVER for one in mine):
                settled.add((how, job))
        return frozenset(settled)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise EngineError(f"{self.folder}: {error.strerror}", f"{self.folder}：{error.strerror}") from None

    def jobs(self, want: Want) -> Listing:
        """Live jobs and those that ended of late; the user's own for what Slurm has forgotten."""
        now = time.time()
        want = replace(want, ids=tuple(_TASK.sub(r"\1_\2", job) for job in want.ids))
        found = {one.id: one for row in self.known.live() for one in rows.split(row)}
        warning = None
        if not want.states or set(want.states) & set(OVER) or want.ids:
            past, warning = self.known.past(want, found)
            found = {**past, **found}
        notes: dict[str, record.Kept | None] = {}
        jobs = []
        for row in list(found.values()):
            key = row.array or row.id
            if key not in notes:
                notes[key] = record.read(self.folder, key)
            kept = ours(row, notes[key])
            if kept is None and row.comment.startswith(MARK) and row.reason == "BadConstraints":
                continue  # refused when it was submitted: Slurm keeps those for a while
            for one in _tasks(row, kept, found):
                jobs.append(told(one, kept, record.runs(self.folder, one.id) if kept else (), now))
        jobs += self._remembered(want, found)
        jobs = [job for job in jobs if _wanted(job, want)]
        counts: dict[str, int] = {}
        for job in jobs:
            counts[job.state] = counts.get(job.state, 0) + 1
        missing = [job for job in want.ids if not any(job in (one.id, one.array) for one in jobs)]
        nodes = self.known.nodes()
        shut = cluster.closed(nodes) if any(job.state in (WAITING, HELD) for job in jobs) else None
        return Listing(
            jobs=tuple(_ordered(jobs, want.most)), counts=counts, cards=cluster.cards(nodes, found.values()),
            warning=(_unknown(missing, warning) if missing else None) or shut,
        )  # fmt: skip

    def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
        """What it wrote, with Slurm's own words at its end; read from the file that the nodes write, which must be visible here."""
        one = self._one(job)
        place = self._place(one)
        runs = record.runs(self.folder, one.id)
        at, stop = 0, None
        if attempt is not None:
            offsets = {run.attempt: run.offset for run in runs}
            if attempt not in offsets:
                raise EngineError(f"job {job}: no run {attempt}", f"作业 {job}：没有第 {attempt} 次运行")
            at, stop = offsets[attempt], offsets.get(attempt + 1)
        if not follow and not place.exists():
            if one.state in (WAITING, HELD):
                raise EngineError(f"job {job} has not started", f"作业 {job} 还没有启动", 1)
            if one.state in LIVE and time.time() - (one.started or 0) < BEGINS:
                return
            raise EngineError(
                f"{place}: not visible here: node {one.node or '?'} wrote it; a folder that all nodes share is needed",
                f"{place}：这里看不到：由节点 {one.node or '?'} 写入；需要所有节点共享的目录",
                1,
            )
        looked, over = time.monotonic(), one.state in OVER
        while True:
            try:
                with open(place, "rb") as file:
                    file.seek(at)
                    data = file.read(PIECE if stop is None else max(0, min(PIECE, stop - at)))
            except FileNotFoundError:
                data = b""
            except OSError as error:
                raise EngineError(f"{place}: {error.strerror}", f"{place}：{error.strerror}", 1) from None
            at += len(data)
            if data:
                yield data
            elif not follow or over or (stop is not None and at >= stop):
                return
            else:
                yield b""
                time.sleep(0.2)
                if time.monotonic() - looked > LOOK:
                    over, looked = self._one(job).state in OVER, time.monotonic()

    def _place(self, one: Told) -> Path:
        if one.more.get("ours"):
            return script.output(one.spec, one.id, self.folder)
        place = str(one.more.get("output") or "")
        if not place:
            block = printed.from_scontrol(ask(["scontrol", "show", "job", str(one.more.get("raw") or one.id)]).out)
            place = block[0].output if block else ""
        if not place:
            raise EngineError(f"job {one.id}: Slurm does not say where its output is", f"作业 {one.id}：Slurm 没有说明输出在哪里", 1)
        return Path(place)

    def cancel(self, jobs: Sequence[str]) -> None:
        """By scancel: SIGTERM, and SIGKILL after KillWait."""
        for job in jobs:
            if self._is_live(job):
                self._each(["scancel"], [job])
                record.cancel(self.folder, job, time.time())

    def hold(self, jobs: Sequence[str]) -> None:
        """As a user does, so that the user can release them, whoever asks."""
        self._each(["scontrol", "uhold"], list(jobs))

    def release(self, jobs: Sequence[str]) -> None:
        """By scontrol release."""
        self._each(["scontrol", "release"], list(jobs))

    def _each(self, argv: Sequence[str], jobs: Sequence[str]) -> None:
        for job in jobs:
            _check(job)
            answer = ask([*argv, job])
            if answer.code or "error" in answer.err.lower():
                error = refusal(answer, " ".join(argv))
                raise EngineError(f"{job}: {error.english}", f"{job}：{error.chinese}", error.code)

    def _is_live(self, job: str) -> bool:
        """Raises EngineError where nobody knows it: scancel says nothing of those."""
        _check(job)
        known = self.jobs(Want(ids=(job,), most=None)).jobs
        if not known:
            raise EngineError(f"{job}: no such job, or Slurm has forgotten it", f"{job}：没有这个作业，或 Slurm 已遗忘")
        return any(one.state in LIVE for one in known)

    def why(self, job: Told) -> list[tuple[str, str]]:
        """Slurm's reason in plain words, when it expects it to start, and what of the cluster keeps it."""
        found: list[tuple[str, str]] = []
        said = job.said
        plain = job.state in OVER and said == "NonZeroExitCode"  # its code says more
        if job.state in (WAITING, HELD) and not said:
            said = "None" if job.state == WAITING else "JobHeldUser"
        known = reasons.words(said) if said and not plain else None
        if known:
            english, do, chinese, do_zh = known
            found.append((f"{english}: {_named(do, job.id)} [{said}]", f"{chinese}：{_named(do_zh, job.id)} [{said}]"))
        elif said and not plain:
            found.append((f"Slurm says: {reasons.spaced(said)}", f"Slurm 提示：{said[:120]}"))
        if job.state == WAITING:
            found += self._when(job)
            if shut := cluster.closed(self.known.nodes()):
                found.insert(0, shut)
            if said.startswith("Resources"):
                found += self._whole_node()
        if job.state in OVER and job.code not in (None, 0):
            found.append((f"it ended with code {job.code}: ongpu logs {job.id}", f"以退出码 {job.code} 结束：ongpu logs {job.id}"))
        return found

    @staticmethod
    def _when(job: Told) -> list[tuple[str, str]]:
        start = job.more.get("expected")
        if not isinstance(start, (int, float)) or start <= time.time():
            return []
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(start))
        late = ("later than it will, where jobs have no time limit", "有作业没写时限时会偏晚")
        return [(f"Slurm expects it to start at {at} ({late[0]})", f"Slurm 预计 {at} 启动（{late[1]}）")]

    def _whole_node(self) -> list[tuple[str, str]]:
        """The trap that most single machines are in."""
        if cluster.share(Spec(command=("x",)), self.known.nodes(), self.known.settings()) is None:
            return []
        return [(
            "slurm.conf gives a job that names no memory all of the node's (no DefMemPerGPU, DefMemPerCPU or DefMemPerNode): one job at a "
            "time; ongpu queue setup slurm --check says what to add",
            "slurm.conf 没有 DefMemPerGPU、DefMemPerCPU 或 DefMemPerNode：未写内存的作业会占满节点内存，一次只能跑一个；"
            "ongpu queue setup slurm --check 会给出要加的行",
        )]  # fmt: skip

    def _remembered(self, want: Want, found: Mapping[str, Row]) -> list[Told]:
        """Those of which only our own notes are left."""
        names = [job for job in want.ids if job not in found] if want.ids else list(record.all_ids(self.folder, want.most or 1000))
        there = {row.array for row in found.values()}
        jobs: list[Told] = []
        for name in names:
            if name in found or name in there or not record.valid(name) or (kept := record.read(self.folder, name)) is None:
                continue
            array, index = record.parts(name)
            for i in (kept.indices or (None,)) if index is None else (index,):
                job = array if i is None else f"{array}_{i}"
                if job not in found:
                    jobs.append(remembered(job, kept, record.runs(self.folder, job), i, record.cancelled(self.folder, job)))
        return jobs

    def _one(self, job: str) -> Told:
        _check(job)
        listing = self.jobs(Want(ids=(job,), most=None))
        found = next((one for one in listing.jobs if one.id == job), None)
        if found is None:
            many = [one.id for one in listing.jobs if one.array == job]
            if many:
                raise EngineError(f"{job} is an array: name one of its jobs, as {many[0]}", f"{job} 是数组：请写出其中一个，如 {many[0]}")
            english, chinese = listing.warning or (f"{job}: no such job", f"{job}：没有这个作业")
            raise EngineError(english, chinese)
        return found


def _tasks(row: Row, kept: record.Kept | None, found: Mapping[str, Row]) -> list[Row]:
    """A row, or, of an array of ours that was cancelled as it waited, one for each task of which Slurm no longer tells."""
    if kept is None or not kept.indices or row.index is not None:
        return [row]
    names = {index: f"{row.id}_{index}" for index in kept.indices}
    return [replace(row, id=name, array=row.id, index=index) for index, name in names.items() if name not in found]


def _named(words: str, job: str) -> str:
    """With the job's number in commands that need it."""
    return re.sub(r"\bID\b", job, words)


def _check(job: str) -> None:
    if not record.valid(job):
        raise EngineError(f"{job[:40]!r} is no job of Slurm's: 123 or 123_4", f"{job[:40]!r} 不是 Slurm 作业号：应为 123 或 123_4")


def _wanted(job: Told, want: Want) -> bool:
    if want.ids and job.id not in want.ids and job.array not in want.ids:
        return False
    return (
        (not want.states or job.state in want.states)
        and (not want.user or job.user in ("", want.user))
        and (not want.project or job.spec.project == want.project)
        and (not want.name or job.spec.name == want.name)
    )


def _ordered(jobs: Sequence[Told], most: int | None) -> list[Told]:
    """Running ones, then waiting ones as Slurm would take them, then the last that ended."""
    running = sorted((job for job in jobs if job.state in LIVE and job.state not in (WAITING, HELD)), key=lambda job: job.started or 0)
    waiting = sorted(
        (job for job in jobs if job.state in (WAITING, HELD)),
        key=lambda job: (job.state == HELD, -(job.more.get("priority") or 0), job.submitted, job.spec.index or 0),
    )
    over = sorted((job for job in jobs if job.state in OVER), key=lambda job: -(job.ended or job.submitted))
    return [*running, *waiting[:most], *over[:most]]


def _unknown(missing: Sequence[str], warning: tuple[str, str] | None) -> tuple[str, str]:
    listed = ", ".join(missing[:5])
    more = (f"; {warning[0]}", f"；{warning[1]}") if warning else ("", "")
    return f"{listed}: no such job{more[0]}", f"{listed}：没有这个作业{more[1]}"
