"""Why is this GPU not busy: synthetic windows, healthy ones and near-misses among them, and what the answer is."""

import json
from typing import Any

import pytest
from parts.trends import NAME, gpu, host, idle, judged, process, report, text, told, unseen, worker

from ongpu.engine import diagnose
from ongpu.model import Certainty, Evidence, Severity, Verdict
from ongpu.report.verdicts import EXPLAINS, unexplained, verdicts

BURNING = [worker(0.98)] * 8
WAITING = [worker(0.15, "S")] * 8
COMPILERS = [worker(0.0, "S", name="python")] * 16
NOTEBOOK = "/home/ann/venv/bin/python -m ipykernel_launcher -f /run/user/1000/jupyter/kernel-1.json"
VLLM = "/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model qwen"
SAW = [100, 90, 5, 0, 0, 0, 60, 0, 0, 0]  # bursts: 25 % in the mean
ROWS: list[tuple[str, str, list[dict[str, Any]], dict[str, Any] | None]] = [
    # healthy
    ("training, busy", "gpu-busy", [gpu(), process(cpu=1.1, workers=WAITING)], None),
    ("training, busy, workers full as well", "gpu-busy", [gpu(util=88), process(workers=BURNING)], None),
    ("training, busy, main thread spins in synchronize", "gpu-busy", [gpu(util=97), process(cpu=1.0)], None),
    ("inference, busy", "gpu-busy", [gpu(util=92, power=250, mem_util=85), process(command=VLLM, cpu=1.0)], None),
    ("busy, small power, memory used much (decoding)", "gpu-busy", [gpu(util=99, power=110, mem_util=55), process()], None),
    ("busy, two programs", "gpu-busy", [gpu(), process(), process(4300, user="bob")], None),
    ("busy, its program in another namespace", "gpu-busy", [gpu(), unseen()], None),
    ("busy, nobody listed", "gpu-busy", [gpu()], None),
    ("busy, disk busy too", "gpu-busy", [gpu(util=90), process(workers=[worker(0.1, "D", read=30)] * 4)], host(iowait=3)),
    ("evaluation pauses", "gpu-busy/partly?", [gpu(util=[98] * 14 + [10] * 6), process(cpu=0.7)], None),
    ("checkpoint pauses of a busy run", "gpu-busy", [gpu(util=[97] * 55 + [0] * 6), process(cpu=0.8)], None),
    ("a server with some requests", "gpu-busy/requests?", [gpu(util=[0, 0, 60, 80, 0]), process(command=VLLM, cpu=0.3)], None),
    ("free", "gpu-free", [idle(mem=4)], None),
    ("free, a desktop draws", "gpu-free",
     [idle(mem=420, util=[0, 2, 0, 3]), process(mem=380, kind="G", command="/usr/lib/xorg/Xorg")], None),
    ("free for one look", "gpu-free?", [idle(mem=4, seconds=0)], None),
    ("free, no process list", "gpu-free", [idle(mem=4, listed=False)], None),
    # input
    ("workers full, bursts", "input-pipeline-bound/live-workers", [gpu(util=SAW, power=140), process(cpu=0.3, workers=BURNING)], None),
    ("workers full, hardly any GPU", "input-pipeline-bound/live-workers", [gpu(util=3, power=80), process(cpu=0.1, workers=BURNING)], None),
    ("two workers full", "input-pipeline-bound/live-workers", [gpu(util=40), process(workers=[worker()] * 2)], None),
    ("workers full beside idle compilers", "input-pipeline-bound/live-workers", [gpu(util=40), process(workers=BURNING + COMPILERS)], None),
    ("most workers full, one new", "input-pipeline-bound/live-workers",
     [gpu(util=40), process(workers=[worker(0.95)] * 3 + [worker(0.5)])], None),
    ("16 workers on 4 cores", "input-pipeline-bound/live-starved", [gpu(util=30), process(workers=[worker(0.24)] * 16)], host(4, busy=4)),
    ("workers hungry, quota used up", "input-pipeline-bound/live-starved",
     [gpu(util=30), process(workers=[worker(0.4)] * 8)], host(64, busy=5)),
    ("the main thread loads", "input-pipeline-bound/live-main", [gpu(util=35, power=120), process(cpu=1.0, state="R", rchar=40)], None),
    ("tf.data on all cores", "input-pipeline-bound/live-threads", [gpu(util=35), process(cpu=7.6, main=0.8, rchar=90)], host(8, busy=8)),
    ("an optimizer on the processor", "host-bound/threads", [gpu(util=35, rx=9), process(cpu=15, main=1.0)], host(16, busy=15)),
    ("a server whose scheduler polls", "host-bound?", [gpu(util=15), process(cpu=1.0, command="python -m sglang.launch_server")], None),
    ("workers full, for 8 s", "input-pipeline-bound/live-workers?", [gpu(util=20, seconds=8), process(workers=BURNING, looks=2)], None),
    ("workers neither full nor waiting", "unknown", [gpu(util=30), process(workers=[worker(0.5, "S")] * 8)], None),
    ("workers wait, all is quiet", "unknown", [gpu(util=30), process(cpu=0.2, workers=[worker(0.2, "S")] * 8)], None),
    # disk
    ("workers in D", "gpu-waits-for-disk",
     [gpu(util=12), process(workers=[worker(0.06, ["D", "D", "D", "S"], read=20)] * 6)], host(iowait=4)),
    ("main in D", "gpu-waits-for-disk", [gpu(util=12), process(cpu=0.1, state=["D", "D", "S"], read=90)], host(iowait=0.6)),
    ("workers in D, rates not permitted", "gpu-waits-for-disk",
     [gpu(util=12), process(read=None, workers=[worker(0.06, "D", read=None)] * 4)], host(iowait=2)),
    ("D without any figure", "gpu-waits-for-disk?",
     [gpu(util=12), process(cpu=0.1, state="D", read=None)], host(iowait=None, net=None)),
    ("D and nothing is read", "gpu-waits-for-disk/stuck?", [gpu(util=0, power=70), process(cpu=0.0, state="D", read=0)], None),
    ("a few D", "unknown", [gpu(util=40), process(workers=[worker(0.3, ["S", "S", "S", "D"], read=5)] * 4)], None),
    ("workers full, one in D", "input-pipeline-bound/live-workers",
     [gpu(util=40), process(workers=[worker(1.0)] * 7 + [worker(0.2, "D", read=4)])], None),
    # network
    ("NFS", "gpu-waits-for-network/share", [gpu(util=12), process(workers=[worker(0.05, "D", read=20)] * 4)], host(net=85)),
    ("an object store", "gpu-waits-for-network", [gpu(util=15), process(cpu=0.2, rchar=60)], host(net=70)),
    ("an object store, by the workers", "gpu-waits-for-network?",
     [gpu(util=15), process(cpu=0.1, workers=[worker(0.2, "S")] * 4)], host(net=70)),
    ("the network belongs to somebody else, GPU busy", "gpu-busy", [gpu(), process(cpu=0.2)], host(net=900)),
    ("the network of the machine, half busy", "gpu-busy/partly?", [gpu(util=65), process(cpu=0.2)], host(net=200)),
    ("network, but the workers are full", "input-pipeline-bound/live-workers", [gpu(util=25), process(workers=BURNING)], host(net=200)),
    # host
    ("small kernels", "host-bound", [gpu(util=45, power=110, mem_util=4), process(cpu=1.02, state="R")], None),
    ("small kernels, workers wait", "host-bound",
     [gpu(util=45, power=110), process(cpu=1.0, state="R", workers=[worker(0.1, "S")] * 8)], None),
    ("main thread full, GPU at 72 %", "host-bound?", [gpu(util=72, power=200), process(cpu=1.0)], None),
    ("main thread nearly full", "unknown", [gpu(util=40), process(cpu=0.8)], None),
    ("computes on the processor", "host-bound/alone", [idle(mem=600), process(cpu=14, main=1.0, mem=560)], None),
    ("computes on the processor, all cores", "host-bound/alone", [idle(mem=600), process(cpu=31, main=0.7, mem=560)], None),
    ("other programs have the cores", "host-bound/crowded", [gpu(util=40), process(cpu=0.3, state="R")], host(16, busy=15.8)),
    # held
    ("a notebook for an hour", "gpu-held-idle/notebook", [idle(idle=3600), process(cpu=0.0, command=NOTEBOOK)], None),
    ("a program that does nothing for six minutes", "gpu-held-idle", [idle(idle=400), process(cpu=0.01)], None),
    ("the same for a minute and a half", "gpu-held-idle?", [idle(idle=90), process(cpu=0.01)], None),
    ("the same for twenty seconds", "unknown", [idle(seconds=20), process(cpu=0.01, looks=4)], None),
    ("a server without requests", "gpu-held-idle/server?", [idle(idle=4000), process(cpu=0.01, command=VLLM)], None),
    ("a server that polls", "gpu-held-idle/server?", [idle(idle=4000), process(cpu=1.0, command=VLLM)], None),
    ("a debugger", "gpu-held-idle/debugger", [idle(idle=900), process(cpu=0.0, command="python -m pdb train.py")], None),
    ("stopped with Ctrl-Z", "gpu-held-idle/stopped", [idle(seconds=30), process(cpu=0.0, state="T", looks=6)], None),
    ("in another namespace, for an hour", "gpu-held-idle/unseen?", [idle(idle=3600), unseen()], None),
    ("in another namespace, for a minute", "unknown", [idle(), unseen()], None),
    ("memory taken, nobody listed", "gpu-held-idle/unseen?", [idle(idle=600, mem=30_000)], None),
    ("it loads its weights from the network", "gpu-waits-for-network?", [idle(idle=90), process(cpu=0.03, rchar=2)], host(net=40)),
    ("a GPU idle for long, its program busy a little", "gpu-held-idle/elsewhere?", [idle(idle=1800), process(cpu=0.3)], None),
    ("held idle by two", "gpu-held-idle", [idle(idle=500), process(cpu=0.0), process(4300, cpu=0.0, user="bob", mem=900)], None),
    ("one of two works", "host-bound/alone", [idle(idle=500), process(cpu=0.0), process(4300, cpu=1.0, mem=900)], None),
    # the link
    ("offloading, Gen4", "pcie-bound", [gpu(util=30, rx=23.5, tx=11), process(cpu=1.0)], None),
    ("results come back", "pcie-bound", [gpu(util=30, tx=22), process()], None),
    ("Gen3 x4", "pcie-bound", [gpu(util=30, rx=2.7, pcie=(3, 4)), process()], None),
    ("half the link", "unknown", [gpu(util=30, rx=11), process()], None),
    ("a full link, busy", "gpu-busy", [gpu(util=93, rx=24), process()], None),
    # spinning
    ("all ranks spin", "gpu-spins-waiting",
     [*(gpu(i, 100, power=85, mem_util=0) for i in (0, 1)), process(job="slurm:1"), process(4300, 1, job="slurm:1")], None),
    ("one rank is late", "gpu-spins-waiting/late",
     [gpu(0, 100, power=85, mem_util=0), idle(1), process(cpu=1.0), process(4300, 1, cpu=0.5)], None),
    ("one GPU alone", "gpu-spins-waiting?", [gpu(util=100, power=85, mem_util=0), process()], None),
    ("an idle neighbour of another job", "gpu-spins-waiting?",
     [gpu(0, 100, power=85, mem_util=0), idle(1), process(job="a"), process(4300, 1, job="b")], None),
    ("full power", "gpu-busy", [gpu(util=100, power=380, mem_util=1), process()], None),
    ("no power told", "gpu-busy", [gpu(util=100, power=None, mem_util=0), process()], None),
    # clocks
    ("too hot", "thermal-throttle", [gpu(temp=93, reasons=0x20, clock=900), process()], None),
    ("power brake", "power-throttle/brake", [gpu(reasons=0x88, power=150, clock=600), process()], None),
    ("one look too hot", "gpu-busy", [gpu(reasons=[0x20, 0, 0, 0, 0, 0, 0, 0]), process()], None),
    ("at its power limit", "gpu-busy", [gpu(power=399, reasons=4), process()], None),
    ("hot and waiting for data", "input-pipeline-bound/live-workers",
     [gpu(util=25, temp=93, reasons=0x20), process(workers=BURNING)], None),
    # not told
    ("MIG", "unknown", [gpu(util=None, mig=True), process(cpu=0.1)], None),
    ("no utilisation", "unknown", [gpu(util=None), process(cpu=0.1)], None),
    ("another namespace, half busy", "unknown", [gpu(util=40), unseen()], None),
    ("one look", "unknown", [gpu(util=20, seconds=0), process(looks=1)], None),
    ("hidepid: pid and memory only", "unknown", [gpu(util=10), unseen(mem=None)], None),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "rows", "machine"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_verdict(expected: str, rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    assert told(*rows, machine=machine) == expected


@pytest.mark.parametrize(("rows", "machine"), [row[2:] for row in ROWS if row[1].startswith(("gpu-busy", "gpu-free"))])
def test_what_is_healthy_is_no_more_than_a_note(rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    full = report(*rows, machine=machine)
    assert [f.slug for f in full.findings if f.weight > Severity.NOTE] == []
    assert full.verdict is Verdict.CLEAR


@pytest.mark.parametrize(("expected", "rows", "machine"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_words_and_grounds(expected: str, rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    full = report(*rows, machine=machine)
    assert [o.because for o in full.outcomes if o.verdict is Verdict.CRASHED] == []
    assert full.unread == ()
    found = verdicts(full).get(0)
    if found is None:
        assert expected == "unknown"
        assert unexplained(full)[0].zh
        assert full.verdict is Verdict.UNKNOWN
        return
    assert unexplained(full).get(0) is None
    assert found.refs
    assert found.subject == f"GPU 0 ({NAME})"
    for lang in ("en", "zh"):
        words = found.text(lang)
        assert not {"{", "}", "None"} & set(words.title + words.why), words
        assert "unknown" not in words.title
        assert "未知" not in words.title


def test_a_window_that_is_short_never_gives_more_than_a_possibility() -> None:
    for _, _, rows, machine in ROWS:
        cut = [{**row, **{k: v[:6] for k, v in row.items() if isinstance(v, list) and len(v) > 12}} if "i" in row else row for row in rows]
        found = judged(*cut, machine=machine)
        if found and found.slug not in ("thermal-throttle", "power-throttle", "gpu-held-idle"):  # the last knows its own time
            assert found.certainty is Certainty.POSSIBLE, (found.slug, rows)


LEAST = {"gpu-busy", "gpu-busy/partly", "gpu-busy/requests", "gpu-free"}  # what would be told of a GPU that is well


@pytest.mark.parametrize(("expected", "rows", "machine"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_not_told_makes_nothing_healthy(expected: str, rows: list[dict[str, Any]], machine: dict[str, Any] | None) -> None:
    for n, row in enumerate(rows):
        for name in set(row) - {"i", "pid", "gpu", "t", "uuid", "name", "kind", "idle", "workers", "identity"}:
            untold = [None] * len(row[name]) if isinstance(row[name], list) else None
            found = told(*rows[:n], {**row, name: untold}, *rows[n + 1 :], machine=machine).rstrip("?")
            plain = expected.rstrip("?")
            if found in LEAST and found != plain:
                assert plain in ("gpu-spins-waiting", "gpu-spins-waiting/late", "power-throttle/brake", "thermal-throttle"), (name, found)
                assert name in ("mem_util", "power", "reasons", "temp"), (name, found)


def test_what_may_spin_is_not_certainly_busy() -> None:
    for untold in ({"power": None}, {"mem_util": None}):
        found = judged(gpu(**{"util": 100, "power": 90, "mem_util": 0, **untold}), process())
        assert found
        assert (found.slug, found.certainty) == ("gpu-busy", Certainty.LIKELY)


def test_each_gpu_has_its_own() -> None:
    full = report(
        gpu(0), gpu(1, 30), idle(2, mem=3), gpu(3, None, mig=True), process(), process(4300, 1, workers=BURNING), process(4400, 3)
    )  # fmt: skip
    assert {i: f.slug for i, f in verdicts(full).items()} == {0: "gpu-busy", 1: "input-pipeline-bound", 2: "gpu-free"}
    assert list(unexplained(full)) == [3]
    assert "MIG" in unexplained(full)[3].en


def test_a_fault_of_one_gpu_does_not_hide_what_another_waits_for() -> None:
    full = report(gpu(0, temp=95, reasons=0x40), gpu(1, 25), process(), process(4300, 1, workers=BURNING))
    assert {i: f.slug for i, f in verdicts(full).items()} == {0: "thermal-throttle", 1: "input-pipeline-bound"}


def test_the_doctors_own_evidence_is_judged_beside_it() -> None:
    nvml = [{"asking": "init"}, {"init": "ok"}, {"driver": "550.54.14", "count": 2}]
    bus = {0: "00000000:1A:00.0", 1: "00000000:3D:00.0"}
    memory = {"total": 80 << 30, "used": 1 << 30, "free": 79 << 30}
    nvml += [{"gpu": i, "uuid": f"GPU-{i}", "name": NAME, "pci": {"busId": bus[i]}, "memory": memory} for i in bus]
    log = "[ 12.5] NVRM: Xid (PCI:0000:3d:00): 48, pid=9, name=a, An uncorrectable double bit error (DBE) has been detected on GPU"
    trend = text([gpu(0), gpu(1)], [process(), process(4300, 1)])
    card = Evidence("nvml", "\n".join(map(json.dumps, nvml)), "NVML")
    evidence = [Evidence("trend", trend, "watch"), card, Evidence("kernel-log", log, "dmesg")]
    assert {i: f.slug for i, f in verdicts(diagnose(evidence, "test")).items()} == {0: "gpu-busy", 1: "ecc-uncorrectable"}


def test_without_a_trend_there_is_no_verdict() -> None:
    full = diagnose([Evidence("pasted", "CUDA out of memory", "paste")], "test")
    assert verdicts(full) == {}
    assert unexplained(full) == {}


def test_what_explains_exists() -> None:
    from ongpu.engine import all_rules

    assert {rule.slug for rule in all_rules()} >= EXPLAINS


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([gpu(), process()], "gpu-busy"),
        ([gpu(util=30), process(workers=BURNING)], "input-pipeline-bound"),
        ([gpu(util=40, rx=5.8, pcie=(4, 4)), process()], "pcie-link-degraded"),
    ],
)
def test_a_narrow_link_explains_only_a_gpu_that_waits_for_it(rows: list[dict[str, Any]], expected: str) -> None:
    card = {"gpu": 0, "uuid": "GPU-0", "name": NAME, "pstate": 0, "pcie_gen": 4, "pcie_gen_max": 4, "pcie_width": 4, "pcie_width_max": 16}
    nvml = "\n".join(map(json.dumps, [{"asking": "init"}, {"init": "ok"}, {"driver": "550.54.14", "count": 1}, card]))
    trend = text([row for row in rows if "i" in row], [row for row in rows if "pid" in row])
    full = diagnose([Evidence("trend", trend, "watch"), Evidence("nvml", nvml, "NVML")], "test")
    assert "pcie-link-degraded" in [f.slug for f in (*full.findings, *full.hidden)]
    assert verdicts(full)[0].slug == expected
