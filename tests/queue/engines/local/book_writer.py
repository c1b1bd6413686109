"""A writer of the book that the tests kill: says on a file what was confirmed to it, and goes on where the one before it was killed."""

import itertools
import os
import random
import sys
import time
from pathlib import Path

from ongpu.queue.engines.local.book import Book, Finish
from ongpu.queue.job import DONE, FAILED, WAITING, Card, Spec

NOW = 1_800_000_000.0
GPUS = tuple(f"GPU-{number}" for number in range(4))


def write(folder: str, said: int, steps: int | None, part: str) -> None:
    """At random. Lines: "s JOB", "c JOB ATTEMPT", "f JOB ATTEMPT THEN", "x JOB". part: ask, do or both."""
    dice = random.Random()
    with Book(Path(folder), create=True) as book:
        mine: list[int] = []
        os.write(said, b"ready\n")
        for step in itertools.count() if steps is None else range(steps):
            now = NOW + step
            if part != "do":
                ask(book, dice, mine, said, now)
            if part != "ask":
                do(book, dice, said, now)
            if steps is None:
                time.sleep(dice.random() * 0.002)


def ask(book: Book, dice: random.Random, mine: list[int], said: int, now: float) -> None:
    """What the commands do."""
    size = dice.choice((0, 0, 0, 5))
    after = ((dice.choice(("ok", "any")), str(dice.choice(mine[-5:]))),) if mine and dice.random() < 0.2 else ()
    specs = [Spec(command=("x",), gpus=dice.randrange(3), index=index, after=after, environ={"A": "b" * 500}) for index in range(size)]
    jobs = book.submit(specs or [Spec(command=("x",), gpus=1, after=after)], "ann", now)
    for job in jobs:
        os.write(said, f"s {job}\n".encode())
    mine += jobs
    if dice.random() < 0.3:
        job = dice.choice(mine[-20:])
        book.cancel([job], now)
        os.write(said, f"x {job}\n".encode())


def do(book: Book, dice: random.Random, said: int, now: float) -> None:
    """What the daemon does."""
    waiting = [row for row in book.changed(0) if row.state == "waiting" and not row.blocked][:5]
    for run in book.claim([(row.id, [(gpu, 0) for gpu in dice.sample(GPUS, row.gpus)]) for row in waiting], now):
        os.write(said, f"c {run.job} {run.attempt}\n".encode())
    runs = [run for run in book.runs() if dice.random() < 0.7]
    book.started([(run.job, run.attempt) for run in runs], now)
    ends = [
        Finish(job=run.job, attempt=run.attempt, code=0, ending="x", then=dice.choice((DONE, DONE, FAILED, WAITING)), used=3.0)
        for run in runs
    ]
    book.finish(ends, now)
    for end in ends:
        os.write(said, f"f {end.job} {end.attempt} {end.then}\n".encode())
    if dice.random() < 0.2:
        book.set_cards([Card(id=gpu, used=dice.randrange(99)) for gpu in GPUS], now)
        book.say({row.id: "z" * dice.randrange(300) for row in waiting}, now)


if __name__ == "__main__":
    write(sys.argv[1], os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), int(sys.argv[3]) or None, sys.argv[4])
