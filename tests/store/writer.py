"""A writer that the tests kill: says on a file what was confirmed to it, and goes on where the one before it was killed."""

import itertools
import os
import random
import sys
import time

from ongpu.facts.sample import COLUMNS
from ongpu.store import Sample, Store, Use
from ongpu.store.samples import LAST

T = 1_800_000_000


def write(path: str, said: int, ticks: int | None = None) -> None:
    """Samples, incidents, events, work, rollups, trims, as fast as they go. A line for each that was confirmed: "s 17", "i 3", "c 3"."""
    dice = random.Random()
    with Store(path) as store:
        gpus = [store.see_gpu(f"GPU-{number}", number, None, None, None) for number in range(4)]
        start = store._rows(LAST)[0][0]  # also the seconds since T: ticks are numbered by it
        os.write(said, b"ready\n")
        for tick in itertools.count(start + 1) if ticks is None else range(start + 1, start + 1 + ticks):
            rows = {gpu: Sample([tick % 100] * len(COLUMNS), 1000, 5, False, True) for gpu in gpus}
            if store.add_sample(T + tick, rows):
                os.write(said, f"s {tick}\n".encode())
            if dice.random() < 0.1:
                number = store.open_incident(T + tick, {"slug": "gpu-lost", "tick": tick})
                os.write(said, f"i {number}\n".encode())
                if dice.random() < 0.5 and store.close_incident(number, T + tick + 1):
                    os.write(said, f"c {number}\n".encode())
            if dice.random() < 0.05:
                os.write(said, f"e {store.add_event(T + tick, {'xid': 79})}\n".encode())
            if dice.random() < 0.05:
                store.rollup()
                store.add_work([Use(T + tick, gpu, 1, "li", None, "train.py", 1000, 1000) for gpu in gpus])
                store.put_now("{}" * dice.randrange(3000))
            if dice.random() < 0.02:
                store.trim(T + tick)
            if ticks is None:
                time.sleep(dice.random() * 0.002)  # so that the file stays small while the kills are many


if __name__ == "__main__":
    write(sys.argv[1], os.open(sys.argv[3], os.O_CREAT | os.O_WRONLY, 0o600), int(sys.argv[2]) or None)
