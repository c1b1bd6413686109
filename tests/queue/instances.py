"""Random queues: GPUs on nodes, some faulty or taken; jobs that run on some of them; jobs that wait."""

import random

from ongpu.queue.placement import DAY, Gpu, Job

NOW = 100 * DAY


def queue(dice: random.Random) -> tuple[list[Job], list[Gpu]]:
    nodes = dice.randint(1, 3)
    gpus = [
        Gpu(f"g{n}", f"n{n % nodes}", dice.choice((16, 80)), "xid-79" if dice.random() < 0.1 else "", dice.random() < 0.1)
        for n in range(dice.randint(1, 12))
    ]
    jobs = []
    free = [gpu for gpu in gpus if not gpu.taken]
    for n in range(dice.randint(0, 6)):
        wanted = dice.choice((1, 1, 2, 3))
        if wanted > len(free):
            break
        held = [free.pop(dice.randrange(len(free))) for _ in range(wanted)]
        begun = NOW - dice.choice((10.0, 4000.0, DAY / 2, 3 * DAY))
        jobs.append(waiting(dice, f"r{n}", wanted).begun(begun, tuple(gpu.id for gpu in held)))
    jobs += [waiting(dice, f"w{n}", dice.choice((1, 1, 1, 2, 3, 4, 8))) for n in range(dice.randint(0, 40))]
    return jobs, gpus


def waiting(dice: random.Random, name: str, gpus: int) -> Job:
    since = NOW - dice.choice((0.0, 60.0, 5 * DAY, 30 * DAY, 90 * DAY)) - dice.randint(0, 50)
    user, project, priority = dice.choice(("ann", "bob")), dice.choice(("", "vision")), dice.choice((0, 0, 0, 1))
    attained, checkpoint = dice.choice((0.0, 0.0, 5000.0, 50_000.0, 1e6)), dice.random() < 0.5
    limit = dice.choice((None, None, 600.0, 90_000.0))
    return Job(name, gpus, since, since, dice.choice((0, 0, 0, 40)), user, project, priority, attained, checkpoint, limit)
