"""What the store is fed from the state: samples with the time and energy they stand for, who used what, rollups, trims."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ongpu.facts.sample import PLACE
from ongpu.lazy import dataclass
from ongpu.store import Keep, Sample, Store, StoreError, Use
from ongpu.store.samples import IDLE_BELOW
from ongpu.watch.processes import Proc
from ongpu.watch.state import OK, GpuState, State

EVERY = 60.0  # s between rollups
SHORTEST_GAP = 10.0  # s, or three intervals: a GPU that was silent for longer has a gap, of which nothing is charged
ABSURD = 10_000_000  # mW: no board draws 10 kW; a counter that says so was reset or is wrong
MOST_USERS = 64  # (user, job, command) on one GPU in 5 min; the others of a user are told as one
OTHERS = "..."
MOST_WAITING = 10_000  # rows of work that wait in memory while the disk is full
_UTIL, _POWER, _ENERGY = PLACE["util"], PLACE["power"], PLACE["energy"]

Line = tuple[str, str]  # English, Chinese


def opened(path: Path | str, keep: Keep | None = None, own: bool = False) -> tuple[Store, list[Line]]:
    """The agent's store, and what is to be said about it; own: the path is our default place, not one that a person named.

    Raises StoreError where no file can be made (denied, busy, full), or another's file stands there (refused).
    """
    store, error, aside = Store.of_agent(path, keep, own)
    if error is None:
        return store, []
    return store, [_without(error) if store.waits else _set_aside(error, aside)]


def _without(error: StoreError) -> Line:
    return f"{error.en}; the watch goes on without its history", f"{error.zh}；监控继续运行，暂不记录历史"


def _set_aside(error: StoreError, aside: Path | None) -> Line:
    if aside is None:
        return f"{error.en}; a new one is begun", f"{error.zh}；已重新开始记录"
    return f"{error.en}; a new one is begun, the old one is kept as {aside}", f"{error.zh}；已重新开始记录，旧文件保留为 {aside}"


@dataclass
class _Last:
    t: float
    energy: int | None


class Meter:
    """For how long each sample stands, and the energy of that time: the growth of the card's counter, else power x time."""

    def __init__(self, gap: float = SHORTEST_GAP) -> None:
        self.gap = gap
        self._last: dict[int, _Last] = {}

    def measure(self, gpu: int, t: float, values: Sequence[int | None], held: bool | None) -> Sample:
        """The sample of a GPU (its id in the store). Its first, and one after a gap or a clock that was set back, stands for no time."""
        last, energy, power = self._last.get(gpu), values[_ENERGY], values[_POWER]
        self._last[gpu] = _Last(t, energy)
        if last is None or not 0 < t - last.t <= self.gap:
            return Sample(values, held=held)
        ms = round((t - last.t) * 1000)
        if energy is not None and last.energy is not None:
            grown = energy - last.energy
            if 0 <= grown <= ABSURD * (t - last.t + 1):  # the counter is some tenths of a second old: short times may show more
                return Sample(values, ms, grown, False, held)
        if power is None:
            return Sample(values, ms, None, False, held)
        return Sample(values, ms, power * ms // 1000, True, held)


@dataclass
class _Sum:
    """What one (user, job, command) used of one GPU in one bucket so far, as in store.Use."""

    ms: float = 0.0
    share: float = 0.0
    busy: float | None = None
    idle: float | None = None
    memory: int | None = None
    mj: float | None = None
    estimated: float = 0.0
    equal: float = 0.0


_Who = tuple[int, str | None, str | None, str | None]  # state, user, job, command
NOBODY: _Who = (0, None, None, None)
NOT_TOLD: _Who = (-1, None, None, None)


class Charges:
    """Who used what of which GPU, summed in memory until it is written (every minute: a kill -9 loses that much)."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], dict[_Who, _Sum]] = {}
        self.lost = 0

    def add(self, t: float, gpu: int, sample: Sample, processes: Sequence[Proc] | None) -> None:
        """Shares a sample among those that hold the GPU. processes: None where it is not told which there are.

        GPU time and idle time equally among the (user, job, command) present; busy time and energy by their processes' share of the SM
        time where all tell it, else equally (`equal`). Graphics-only processes (a desktop) hold nothing.
        """
        shares = {NOT_TOLD: (1.0, None, True)} if processes is None else _shares(processes)
        known = self._sums.setdefault((int(t) // 300, gpu), {})
        util = sample.values[_UTIL]
        for who, (part, memory, told) in shares.items():
            if who not in known and len(known) >= MOST_USERS:
                who = (*who[:2], None, OTHERS)
            charge = known.setdefault(who, _Sum())
            charge.ms += sample.ms
            charge.share += sample.ms / len(shares)
            if memory is not None:
                charge.memory = max(memory, charge.memory or 0)
            if util is not None:
                charge.busy = (charge.busy or 0.0) + sample.ms * util / 100 * part
                if processes is not None:
                    idle = util < IDLE_BELOW and who[0] == 1
                    charge.idle = (charge.idle or 0.0) + (sample.ms / len(shares) if idle else 0.0)
            if sample.mj is not None:
                energy = sample.mj * part
                charge.mj = (charge.mj or 0.0) + energy
                charge.estimated += energy if sample.estimated else 0.0
                charge.equal += 0.0 if told else energy

    def uses(self) -> list[Use]:
        """What is to be written, oldest first."""
        return [
            Use(bucket * 300, gpu, *who, round(one.ms), round(one.share), _whole(one.busy), _whole(one.idle), one.memory,
                _whole(one.mj), round(one.estimated), round(one.equal))
            for (bucket, gpu), sums in sorted(self._sums.items()) for who, one in sums.items()
        ]  # fmt: skip

    def written(self) -> None:
        """All of `uses` is in the store."""
        self._sums.clear()

    def bound(self) -> None:
        """Lets the oldest go where the store has not taken them for long."""
        while sum(map(len, self._sums.values())) > MOST_WAITING:
            self.lost += len(self._sums.pop(min(self._sums)))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _shares(processes: Iterable[Proc]) -> dict[_Who, tuple[float, int | None, bool]]:
    """Of each that holds the GPU: its part (they add up to 1), its memory in MiB, and whether the part was told by the card."""
    groups: dict[_Who, list[Proc]] = {}
    for process in processes:
        if process.kind != "G":
            host = process.host
            groups.setdefault((1, host.get("user"), host.get("job"), host.get("command")), []).append(process)
    if not groups:
        return {NOBODY: (1.0, None, True)}
    sms = {who: [process.sm for process in group] for who, group in groups.items()}
    ran = {who: sum(sm for sm in told if sm is not None) for who, told in sms.items()}
    total = sum(ran.values())
    told = len(groups) == 1 or (total > 0 and all(sm is not None for one in sms.values() for sm in one))
    shares = {}
    for who, group in groups.items():
        memory = [process.mem for process in group if process.mem is not None]
        part = ran[who] / total if told and len(groups) > 1 else 1 / len(groups)
        shares[who] = (part, sum(memory) if memory else None, told)
    return shares


class History:
    """Feeds the store; to be called after every message. What is to be said to the user is in `said`, each thing once."""

    def __init__(self, store: Store, interval: float = 1.0) -> None:
        self.store = store
        self.meter, self.charges = Meter(max(SHORTEST_GAP, 3 * interval)), Charges()
        self.said: list[Line] = []
        self._listed: set[int] = set()  # GPUs whose processes were told since they last answered anew
        self._rolled: float | None = None
        # The trouble that was said, until when there was one, and when a file was last looked for.
        self._troubled, self._clear, self._tried = store.problem.kind if store.waits and store.problem else "", 0.0, float("-inf")

    def step(self, state: State, changes: Sequence[str], now: float) -> None:
        """What a message changed (`State.take`, `State.tick`) goes into the store; rollups and trims when they are due."""
        if "proc" in changes:
            self._listed = {index for index, gpu in state.gpus.items() if gpu.condition == OK}
        self._listed -= {index for index, gpu in state.gpus.items() if gpu.condition != OK}
        if "row" in changes:
            self._sample(state, now)
        if self._rolled is None:
            self._rolled = now
        elif abs(now - self._rolled) >= EVERY:
            self._rolled = now
            if self.store.still_there():
                self._keep(now)
        self._watch(now)

    def _sample(self, state: State, now: float) -> None:
        t = now if state.time is None else state.time
        rows = {}
        for gpu in state.gpus.values():
            if gpu.condition == OK and gpu.row is not None:
                number = self.store.see_gpu(gpu.uuid, gpu.index, gpu.name, gpu.bus, gpu.identity.get("mem_total"))
                processes = self._processes(gpu)
                held = None if processes is None else any(process.kind != "G" for process in processes)
                rows[number] = sample = self.meter.measure(number, t, gpu.row, held)
                self.charges.add(t, number, sample, processes)
        self.store.add_sample(t, rows)

    def _processes(self, gpu: GpuState) -> list[Proc] | None:
        return gpu.processes if gpu.index in self._listed and "processes" not in gpu.why else None

    def _keep(self, now: float) -> None:
        self.store.flush()
        if self.store.add_work(self.charges.uses()):
            self.charges.written()
        self.charges.bound()
        self.store.rollup()
        self.store.trim(now)

    def _watch(self, now: float) -> None:
        """Says once that the store does not take what it is given, and once that it does again."""
        problem = self.store.problem
        if problem and (problem.kind in ("corrupt", "removed") or self.store.waits) and abs(now - self._tried) >= EVERY:
            self._tried = now
            aside = self.store.renew()
            if not self.store.waits and problem.kind in ("corrupt", "removed"):
                self.said.append(_set_aside(problem, aside))
            problem = self.store.problem
        if problem:
            self._clear = now
            if problem.kind != self._troubled and problem.kind not in ("corrupt", "removed"):
                self._troubled = problem.kind
                self.said.append(_without(problem))
                if problem.kind == "full":
                    self.store.trim(now)  # where the limit is our own, this makes room
        elif self._troubled and abs(now - self._clear) >= EVERY:  # a disk on the edge comes and goes: that is one trouble
            self._troubled = ""
            path, lost = self.store.path, self.store.lost
            self.said.append((f"{path}: written again ({lost} samples lost)", f"{path}：已恢复写入（丢失 {lost} 个样本）"))

    def close(self) -> None:
        """Writes what waits; the store is closed."""
        if self.store.add_work(self.charges.uses()):
            self.charges.written()
        self.store.close()
