"""What the file holds, and how a file of an older version is brought up to this one.

gpu       every GPU ever seen, by UUID; the others name it by `id`
tick      one look at all GPUs. n goes up by one whatever the clock does, so that a clock set back overwrites nothing; t: ms
raw       one GPU at one tick: the columns of facts/sample.py, and
            ms         the time it stands for: since this GPU's last answer; 0: the first, or after a gap
            mj         energy of that time, mJ; NULL: not told
            estimated  1: mj is power x time, because the card does not count
            held       1: a process holds its memory; 0: none does; NULL: not told
ten, five what became of raw: 10 s and 5 min of one GPU, t: begin, s. Every column can be added to (sums, maxima, OR), so that
          ticks are rolled up in the order of n, each exactly once, into whichever bucket their time names:
            n ticks, ms; for a gauge X: X (sum), X_max, X_none (ticks without it); reasons (OR); ecc, replays (max);
            mj, mj_estimated (the part that is estimated); busy: percent x ms; idle: ms held and below 5 %
mark      done: the last tick that was rolled up; cut_raw, cut_ten, cut_five: rows before this time (s) were dropped;
          trimmed: by which clock (s), at the last time
who       whom GPU time is charged to. state 1: a process, 0: nobody held the GPU, -1: not told. NULL: not visible; last: its last t
work      what `who` used of a GPU in 5 min; times in ms, energy in mJ:
            ms (was there), share (of the GPU's time: two at once have half each), busy, idle (shares of those),
            memory (peak MiB), mj, mj_estimated (power x time), mj_equal (shared equally, because the card did not tell who ran)
incident, ack, event, notice, silence     bodies are JSON
now       the latest state, JSON (zlib)
"""

from ongpu.facts.sample import COLUMNS

APPLICATION = 0x6F6E6770  # "ongp": PRAGMA application_id
GAUGES = ("util", "mem_util", "mem_used", "temp", "power", "sm_clock", "mem_clock", "fan", "pcie_tx", "pcie_rx")
COUNTERS = ("ecc", "replays")
ROLLED = (
    "n", "ms", *(name for gauge in GAUGES for name in (gauge, f"{gauge}_max", f"{gauge}_none")),
    "reasons", *COUNTERS, "mj", "mj_estimated", "busy", "idle",
)  # fmt: skip

_FIRST = f"""
CREATE TABLE gpu (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, place INTEGER, name TEXT, bus TEXT, mem_total INTEGER);
CREATE TABLE tick (n INTEGER PRIMARY KEY, t INTEGER NOT NULL);
CREATE INDEX tick_t ON tick (t);
CREATE TABLE raw (n INTEGER, gpu INTEGER, ms INTEGER NOT NULL, mj INTEGER, estimated INTEGER NOT NULL, held INTEGER,
    {", ".join(f"{name} INTEGER" for name in COLUMNS)}, PRIMARY KEY (n, gpu)) WITHOUT ROWID;
CREATE TABLE ten (gpu INTEGER, t INTEGER, {", ".join(f"{name} INTEGER" for name in ROLLED)}, PRIMARY KEY (gpu, t)) WITHOUT ROWID;
CREATE TABLE five (gpu INTEGER, t INTEGER, {", ".join(f"{name} INTEGER" for name in ROLLED)}, PRIMARY KEY (gpu, t)) WITHOUT ROWID;
CREATE TABLE mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE who (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, user TEXT, job TEXT, command TEXT, last INTEGER NOT NULL);
CREATE INDEX who_all ON who (state, user, job, command);
CREATE TABLE work (t INTEGER, gpu INTEGER, who INTEGER, ms INTEGER NOT NULL, share INTEGER NOT NULL, busy INTEGER, idle INTEGER,
    memory INTEGER, mj INTEGER, mj_estimated INTEGER, mj_equal INTEGER, PRIMARY KEY (t, gpu, who)) WITHOUT ROWID;
CREATE TABLE incident (id INTEGER PRIMARY KEY, opened REAL NOT NULL, closed REAL, body TEXT NOT NULL);
CREATE INDEX incident_open ON incident (opened) WHERE closed IS NULL;
CREATE INDEX incident_opened ON incident (opened);
CREATE INDEX incident_closed ON incident (closed);
CREATE TABLE ack (incident INTEGER PRIMARY KEY, t REAL NOT NULL, body TEXT NOT NULL);
CREATE TABLE event (id INTEGER PRIMARY KEY, t REAL NOT NULL, body TEXT NOT NULL);
CREATE INDEX event_t ON event (t);
CREATE TABLE notice (id INTEGER PRIMARY KEY, due REAL NOT NULL, tries INTEGER NOT NULL, sent REAL, problem TEXT, body TEXT NOT NULL);
CREATE INDEX notice_due ON notice (due) WHERE sent IS NULL;
CREATE TABLE silence (id INTEGER PRIMARY KEY AUTOINCREMENT, until REAL NOT NULL, body TEXT NOT NULL);
CREATE TABLE now (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
"""

# MIGRATIONS[i] brings a file of version i to i + 1. Never change one that was released; when COLUMNS grows, add one.
MIGRATIONS = (_FIRST,)
VERSION = len(MIGRATIONS)


def missing(version: int) -> list[str]:
    """The statements that bring a file of this version up to date, the version's own number included."""
    texts = [statement.strip() for text in MIGRATIONS[version:] for statement in text.split(";")]
    return [*filter(None, texts), f"PRAGMA application_id={APPLICATION}", f"PRAGMA user_version={VERSION}"]
