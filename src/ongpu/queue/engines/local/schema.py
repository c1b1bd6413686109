"""What the queue's file holds, and how a file of an older version is brought up to this one.

mark         seq: the number of the last change; id: the last one given to a job or an array (none is ever given twice);
             since: the latest time at which a job began to wait; heard: up to which change people were told of what was cancelled
environ      environment variables (JSON, zlib), each set once however many jobs have it; uses: how many specs
spec         what was asked, once for an array; body: JSON without environment and index; uses: how many jobs. begin and index are the job's
array        alive: how many of its jobs are not over, bad: how many are over and not done
job          place: its index in the array; rank: the buckets of attained GPU time less its priority, by which those that wait are listed;
             blocked: dependencies that have not ended; gpus .. energy: of its last run; said: JSON of a Reason, or words
need         job waits for `target` (a job or an array) to be over; kind: ok, any
run          became: the state of its job afterwards
lease        of runs that go on; slot 0: the whole GPU, 1 to 63: a part. Two triggers keep slot 0 and the others apart.
card         what the daemon saw of a GPU; body: JSON
account      GPU-seconds by "user:NAME" and "project:NAME" in each SPAN seconds
reservation  body: JSON of a Reservation
"""

APPLICATION = 0x6F6E6771  # "ongq": PRAGMA application_id
SPAN = 6 * 3600  # s: the steps in which what was used is remembered

# In partial indexes and in the queries that use them: SQLite compares the words (https://www.sqlite.org/partialindex.html, 3).
WAITS = "state IN ('waiting', 'held')"
RUNS = "state IN ('starting', 'running', 'ending')"
LIVE = "state IN ('waiting', 'held', 'starting', 'running', 'ending')"
ENDED = "state IN ('done', 'failed', 'cancelled', 'lost')"

_FIRST = f"""
CREATE TABLE mark (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO mark VALUES ('seq', 0), ('id', 0), ('since', 0);
CREATE TABLE environ (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, uses INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE spec (id INTEGER PRIMARY KEY, uses INTEGER NOT NULL, environ INTEGER, body TEXT NOT NULL,
    gpus INTEGER NOT NULL, memory INTEGER, share INTEGER NOT NULL, model TEXT NOT NULL, capability TEXT NOT NULL, lasts REAL,
    cpus INTEGER NOT NULL, host_memory INTEGER NOT NULL, user TEXT NOT NULL, project TEXT NOT NULL, name TEXT NOT NULL,
    priority INTEGER NOT NULL, checkpoint TEXT NOT NULL, at_once INTEGER, reservation TEXT NOT NULL);
CREATE TABLE array (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, alive INTEGER NOT NULL, bad INTEGER NOT NULL);
CREATE TABLE job (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, state TEXT NOT NULL, spec INTEGER NOT NULL, array INTEGER, place INTEGER,
    rank INTEGER NOT NULL, submitted REAL NOT NULL, since REAL NOT NULL, begin REAL, blocked INTEGER NOT NULL,
    attained REAL NOT NULL DEFAULT 0, avoid TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 0, wish TEXT NOT NULL DEFAULT '',
    started REAL, ended REAL, gpus TEXT NOT NULL DEFAULT '', code INTEGER, ending TEXT NOT NULL DEFAULT '',
    slug TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '', busy REAL, peak INTEGER, energy REAL);
CREATE INDEX job_seq ON job (seq);
CREATE INDEX job_state ON job (state, spec);
CREATE INDEX job_array ON job (array, place) WHERE array IS NOT NULL;
CREATE INDEX job_waits ON job (rank, since, id) WHERE {WAITS};
CREATE INDEX job_runs ON job (id) WHERE {RUNS};
CREATE INDEX job_ended ON job (ended, id) WHERE {ENDED};
CREATE TABLE need (job INTEGER, target INTEGER, kind TEXT NOT NULL, PRIMARY KEY (job, target, kind)) WITHOUT ROWID;
CREATE INDEX need_target ON need (target);
CREATE TABLE run (job INTEGER, attempt INTEGER, state TEXT NOT NULL, claimed REAL NOT NULL, started REAL, asked REAL, ended REAL,
    gpus TEXT NOT NULL, code INTEGER, ending TEXT NOT NULL DEFAULT '', became TEXT NOT NULL DEFAULT '', slug TEXT NOT NULL DEFAULT '',
    said TEXT NOT NULL DEFAULT '', used REAL NOT NULL DEFAULT 0, busy REAL, peak INTEGER, energy REAL,
    PRIMARY KEY (job, attempt)) WITHOUT ROWID;
CREATE INDEX run_open ON run (job) WHERE ended IS NULL;
CREATE INDEX run_ended ON run (ended, job, attempt) WHERE ended IS NOT NULL;
CREATE TABLE lease (gpu TEXT, slot INTEGER CHECK (slot BETWEEN 0 AND 63), job INTEGER NOT NULL, attempt INTEGER NOT NULL,
    PRIMARY KEY (gpu, slot)) WITHOUT ROWID;
CREATE INDEX lease_job ON lease (job);
CREATE TRIGGER lease_whole BEFORE INSERT ON lease WHEN new.slot = 0 AND EXISTS (SELECT 1 FROM lease WHERE gpu = new.gpu)
    BEGIN SELECT RAISE(ABORT, 'the GPU is leased in parts')| END;
CREATE TRIGGER lease_part BEFORE INSERT ON lease WHEN new.slot > 0 AND EXISTS (SELECT 1 FROM lease WHERE gpu = new.gpu AND slot = 0)
    BEGIN SELECT RAISE(ABORT, 'the GPU is leased whole')| END;
CREATE TABLE card (id TEXT PRIMARY KEY, state TEXT NOT NULL, slug TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE account (name TEXT, span INTEGER, used REAL NOT NULL, PRIMARY KEY (name, span)) WITHOUT ROWID;
CREATE INDEX account_span ON account (span);
CREATE TABLE reservation (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
"""  # noqa: S608

# MIGRATIONS[i] brings a file of version i to i + 1; "|" is a ";" within a statement. Never change one that was released.
MIGRATIONS = (_FIRST,)
VERSION = len(MIGRATIONS)


def missing(version: int) -> list[str]:
    """The statements that bring a file of this version up to date, the version's own number included."""
    texts = [statement.strip().replace("|", ";") for text in MIGRATIONS[version:] for statement in text.split(";")]
    return [*filter(None, texts), f"PRAGMA application_id={APPLICATION}", f"PRAGMA user_version={VERSION}"]
