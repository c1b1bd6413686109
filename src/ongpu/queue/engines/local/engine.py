"""The queue of this machine and this user: the book, a daemon that is started where there is work, and nothing else."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ongpu.lazy import field_names, replace
from ongpu.queue.engines import EngineError
from ongpu.queue.engines.local import alive
from ongpu.queue.job import LIVE, Listing, Spec, Told, Want, output_of

if TYPE_CHECKING:
    from ongpu.queue.config import Config
    from ongpu.queue.engines.local.book import Book
    from ongpu.queue.forecast import Terms

FOLLOW = 0.2  # seconds between two looks at an output that is followed
CHUNK = 1 << 16
PATIENCE = 5.0  # seconds for a daemon to begin
AGAIN = 5.0  # seconds between two of a follower's starts of a daemon that is gone
NO_DAEMON = (
    "nothing starts: the queue's daemon does not run; start it: ongpu queue daemon --start",
    "没有作业会启动：队列守护进程未运行；启动它：ongpu queue daemon --start",
)
SILENT = 30.0  # seconds without a sign of the daemon after which it hangs: it shows one every ten at least
HANGS = (
    "nothing starts: the queue's daemon (pid {pid}) has not moved for {since}: it was stopped, or hangs; kill -9 {pid} ends it, and "
    "ongpu queue daemon --start begins another; what runs goes on",
    "没有作业会启动：队列守护进程（pid {pid}）已 {since} 没有动静：被暂停或卡住；kill -9 {pid} 可结束它，"
    "再用 ongpu queue daemon --start 启动新的；运行中的作业不受影响",
)
FAULT = ("the queue's daemon cannot do its work: {fault} ({log})", "队列守护进程无法工作：{fault}（{log}）")


class Local:
    """The engine. All that it knows stands in the folder that `alive.folder` names."""

    name = "local"
    honours = frozenset(field_names(Spec))
    advisory: Mapping[str, tuple[str, str]] = {
        "gpus": (
            "isolation is advisory: CUDA_VISIBLE_DEVICES says which GPUs a job has; a program that ignores it can use others",
            "隔离只是约定：作业可用的 GPU 由 CUDA_VISIBLE_DEVICES 告知；忽略它的程序仍能使用其他 GPU",
        ),
        "share": ("--share is advisory: declared memory is counted, not enforced", "--share 只是约定：声明的显存只作统计，不作强制"),
        "cpus": ("--cpus is advisory: CPUs are counted, not enforced", "--cpus 只是约定：CPU 数只作统计，不作强制"),
        "host_memory": ("--host-memory is advisory: it is counted, not enforced", "--host-memory 只是约定：主机内存只作统计，不作强制"),
    }

    def __init__(self, config: "Config") -> None:
        self.config = config
        self.folder = alive.folder()

    def _book(self, create: bool = False) -> "Book":
        from ongpu.queue.engines.local.book import Book

        return Book(self.folder, create)

    def submit(self, specs: Sequence[Spec]) -> list[str]:
        """Their ids. Refuses what this machine can never run, with what it could."""
        from ongpu.queue.asked import checked

        specs = [checked(spec, before) for before, spec in zip((None, *specs), specs, strict=False)]
        with self._book(create=True) as book:
            self._possible(book, specs)
            specs = self._with_scripts(specs)
            ids = [str(job) for job in book.submit(specs, _user(), time.time())]
        self.rouse()
        return ids

    def _with_scripts(self, specs: Sequence[Spec]) -> list[Spec]:
        """The same; what the scripts say that they run is kept as it is now."""
        from ongpu.queue.engines.local.scripts import copied

        try:
            kept = {key: copied(self.folder, *key) for key in {(spec.command, spec.folder) for spec in specs}}
        except OSError as error:
            said = error.strerror or str(error)
            raise EngineError(f"the script cannot be copied: {said}", f"无法复制脚本：{said}", 1) from None
        return [replace(spec, script=script) if (script := kept[spec.command, spec.folder]) else spec for spec in specs]

    def asleep(self) -> tuple[str, str] | None:
        """What is to be said of a daemon that was started and does not live: nothing that was kept will begin. None: it lives."""
        if alive.lives(self.folder):
            return self._hangs()
        return None if alive.begun(self.folder, PATIENCE) else self._warning()

    def _warning(self) -> tuple[str, str] | None:
        """What keeps everything from starting: no daemon, or one at fault."""
        now = time.time()
        living, fault = alive.lives(self.folder), alive.fault(self.folder, now)
        if not fault:
            if not living:
                return NO_DAEMON
            return self._hangs()
        english, chinese = (text.format(fault=fault, log=self.folder / alive.LOG) for text in FAULT)
        return (english, chinese) if living else (f"{NO_DAEMON[0]}; {english}", f"{NO_DAEMON[1]}；{chinese}")

    def _hangs(self) -> tuple[str, str] | None:
        """What is to be said of a daemon that lives and does nothing; None: it does."""
        since = alive.silence(self.folder, time.time())
        if since <= SILENT:
            return None
        from ongpu.queue.words import brief

        values = {"pid": alive.pid(self.folder) or "?", "since": brief(since)}
        return HANGS[0].format(**values), HANGS[1].format(**values)

    def rouse(self) -> None:
        """The daemon is to look now; one that does not live is started."""
        try:
            alive.rouse(self.folder)
        except OSError as error:
            said = error.strerror or str(error)
            raise EngineError(f"kept, but the daemon cannot be started: {said}", f"已保存，但无法启动守护进程：{said}", 1) from None

    def _possible(self, book: "Book", specs: Sequence[Spec]) -> None:
        from ongpu.queue.engines.local.possible import first_look, refuse, refuse_beyond

        user = _user()
        unlike = {(s.gpus, s.memory, s.share, s.model, s.capability, s.cpus, s.host_memory, s.project): s for s in specs}.values()
        for spec in unlike:
            refuse_beyond(spec, self.config, user)
        if asking := [spec for spec in unlike if spec.gpus]:
            cards = book.cards()
            if not cards:
                cards = first_look()
                book.set_cards(cards, time.time())
            for spec in asking:
                refuse(spec, cards)

    def jobs(self, want: Want) -> Listing:
        """What is known of them; a warning where work waits and no daemon lives."""
        try:
            book = self._book()
        except EngineError as error:
            if getattr(error, "kind", "") == "missing":
                return Listing(jobs=(), counts={})
            raise
        with book:
            found = book.listing(want)
        if any(found.counts.get(state) for state in LIVE if state != "held") and (warning := self._warning()):
            found = replace(found, warning=warning)
        return found

    def output(self, job: str, follow: bool = False, attempt: int | None = None) -> Iterator[bytes]:
        """What it wrote in its last run, or in that one; an empty piece where nothing is new yet. Who follows starts a daemon that is gone:
        without one nobody would ever say that the job is over."""
        told = self._one(job)
        number = told.attempts if attempt is None else attempt
        if attempt is not None and not told.attempts:
            raise EngineError(f"{job}: it never started", f"{job}：从未开始运行")
        if attempt is not None and not 0 < attempt <= told.attempts:
            times = f"{told.attempts} run{'' if told.attempts == 1 else 's'}"
            raise EngineError(f"{job}: it has {times}", f"{job}：它运行过 {told.attempts} 次")
        file, roused = None, time.monotonic()
        try:
            while True:
                over = told.state not in LIVE or (attempt is not None and attempt < told.attempts)
                if file is None and number:
                    with contextlib.suppress(FileNotFoundError):
                        file = open(self._output(told, number), "rb")  # noqa: SIM115  closed below
                while file and (data := file.read(CHUNK)):
                    yield data
                if over and number and file is None:  # written to a file of its user's, and removed
                    path = self._output(told, number)
                    raise EngineError(f"{job}: its output is not there any more: {path}", f"{job}：输出已不存在：{path}", 1)
                if not follow or over:
                    return
                yield b""
                if time.monotonic() - roused > AGAIN and not alive.lives(self.folder):
                    roused = time.monotonic()
                    self.rouse()
                time.sleep(FOLLOW)
                told = self._one(job)
                if attempt is None and told.attempts != number:  # it runs again
                    if file:
                        file.close()
                    file, number = None, told.attempts
        except OSError as error:
            raise EngineError(f"{job}: its output cannot be read: {error.strerror}", f"{job}：无法读取输出：{error.strerror}") from None
        finally:
            if file:
                file.close()

    def runs(self, job: str) -> list[Told]:
        """Its runs that have ended, the first first: of each its own start, end, GPUs and figures."""
        with self._book() as book:
            return [run for number in book.find([job]) for run in book.runs_of(number)]

    def undelivered(self, job: str) -> str:
        """Why a message about it did not arrive; "": nothing is known of that."""
        try:
            with open(os.path.join(self.folder, "jobs", job, alive.UNDELIVERED), encoding="utf-8", errors="replace") as file:
                return file.read(CHUNK)
        except OSError:
            return ""

    def output_file(self, job: str, attempt: int | None = None) -> str:
        """The file that `output` reads, for who wants no more than its end."""
        told = self._one(job)
        return self._output(told, attempt or told.attempts)

    def _output(self, told: Told, attempt: int) -> str:
        if name := output_of(told.spec):
            return name
        return os.path.join(self.folder, "jobs", told.id, str(attempt), "output")

    def terms(self, now: float) -> "Terms":
        """By what the daemon decides, for a forecast."""
        from ongpu.queue.config import Quotas
        from ongpu.queue.engines.local import possible
        from ongpu.queue.forecast import Terms

        config = self.config
        with self._book() as book:
            return Terms(
                policy=replace(config.policy, spent=book.spent(now, config.half_life)), cpus=possible.cpus(config),
                host_memory=possible.host_memory(config), quotas=None if config.quotas == Quotas() else config.quotas,
                reservations=[one for one in book.reservations() if one.end > now], used=book.accounts(now - 7 * 86400.0),
            )  # fmt: skip

    def _one(self, job: str) -> Told:
        with self._book() as book:
            (number, *more) = book.find([job])
            if more:
                english, chinese = f"{job}: {len(more) + 1} jobs; name one", f"{job}：有 {len(more) + 1} 个作业，请指定一个"
                raise EngineError(english, chinese)
            return book.listing(Want(ids=(str(number),))).jobs[0]

    def cancel(self, jobs: Sequence[str]) -> None:
        """Those that wait never start; those that run are asked to end, then made to."""
        with self._book() as book:
            book.cancel(book.find(jobs), time.time())
        self.rouse()

    def hold(self, jobs: Sequence[str]) -> None:
        """Those that wait do so until they are released."""
        with self._book() as book:
            book.hold(book.find(jobs), time.time())
        alive.wake(self.folder)

    def release(self, jobs: Sequence[str]) -> None:
        """They may start again."""
        with self._book() as book:
            book.release(book.find(jobs), time.time())
        self.rouse()

    def why(self, job: Told) -> list[tuple[str, str]]:
        """Why it waits or ended so, as the daemon said last. That no daemon lives is a word of the listing."""
        from ongpu.queue.reasons import Reason

        lines = []
        reason = Reason.of(job.said) if job.said else None
        if reason:
            lines.append((reason.text("en"), reason.text("zh")))
        elif job.said:
            lines.append((job.said, job.said))
        return lines


def _user() -> str:
    from ongpu.hosts.accounts import user_name

    return user_name(os.getuid())
