"""What was: samples, incidents, usage, in one SQLite file. The only place with SQL; `schema.py` says what the file holds."""

from ongpu.store.charts import Charts, Point
from ongpu.store.file import Keep
from ongpu.store.incidents import Incidents
from ongpu.store.refusals import StoreError, set_aside
from ongpu.store.samples import Gpu, Sample, Samples
from ongpu.store.work import Use, Used, Work

__all__ = ["Gpu", "Keep", "Point", "Sample", "Store", "StoreError", "Use", "Used", "set_aside"]


class Store(Samples, Charts, Work, Incidents):
    """The history of one machine's GPUs. One agent writes it (`alone`); any number of readers look while it does.

    Store(path)                   the agent: makes the file where there is none, brings an older one up to date, keeps others out
    Store(path, readonly=True)    a reader: web, top, fleet; never changes the file
    Store(path, alone=False)      a writer beside the agent, for silences and acknowledgements only
    Store.of_agent(path)          like the first; a file of ours that cannot be used is renamed (kept beside) and a new one begun

    Raises StoreError where the file cannot be opened: missing, corrupt, newer, busy, denied, foreign, refused. Another's file is never
    touched (refused). Its `en` and `zh` are one line.

    Once it is open, writing never raises for the disk's sake (reading raises StoreError, and so do acknowledgements and silences). Where
    a write fails, `problem` is a StoreError until it succeeds. Samples meanwhile wait (the last 10,000, one a GPU and tick; `lost` counts
    the ticks that did not fit), and so do incidents, events and notices (the last 10,000); they are written as soon as there is room.

    What a method confirmed is never lost by kill -9; incidents, events, notices and silences are not lost by a power cut either
    (synchronous=FULL), the last samples may be (NORMAL).

    All methods may be called from any thread; they wait for each other. Times are seconds since the epoch, durations seconds.
    """
