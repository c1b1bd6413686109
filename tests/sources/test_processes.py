from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.hardware import Gpus
from ongpu.facts.system import Processes
from ongpu.model import Evidence
from ongpu.sources import processes

FUSER = """\
                     USER        PID ACCESS COMMAND
/dev/nvidia0:        ubuntu     4411 F...m python
                     root       1200 F.... Xorg
/dev/nvidiactl:      ubuntu     4411 F...m python
"""


def read(text: str, command: str | None = None) -> Processes:
    return next(f for f in processes.read(Evidence("pasted", text, "test", command)) if isinstance(f, Processes))


def test_fuser() -> None:
    assert [(p.pid, p.gpu, p.user, p.name) for p in read(FUSER, "fuser -v /dev/nvidia*").holders] == [
        (4411, 0, "ubuntu", "python"),
        (1200, 0, "root", "Xorg"),
        (4411, None, "ubuntu", "python"),
    ]
    assert [p.pid for p in read("/dev/nvidia0:         4411m  4412m").holders] == [4411, 4412]


def test_lsof() -> None:
    (holder,) = read("python  4411 alice  mem    CHR  195,255           430 /dev/nvidiactl").holders
    assert (holder.pid, holder.user, holder.name) == (4411, "alice", "python")


def test_gpustat() -> None:
    text = "[0] GeForce RTX 2080 Ti | 62'C,  98 % | 10989 / 11019 MB | alice(10977M) root:python/33(10M)"
    found = list(processes.read(Evidence("pasted", text, "test")))
    gpus = next(f for f in found if isinstance(f, Gpus))
    assert (gpus.gpus[0].memory_used, gpus.gpus[0].utilization) == (10989, 98)
    assert [(p.user, p.memory, p.pid) for p in read(text).processes] == [("alice", 10977, None), ("root", 10, 33)]


def test_nvitop_and_kill() -> None:
    (process,) = read("1   56752 C     N/A 32.34GiB 100   N/A   N/A      N/A  No Such Process").processes
    assert (process.pid, process.gpu, process.memory, process.gone) == (56752, 1, 33116, True)
    assert read("bash: kill: (56752) - No such process").processes[0].gone


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(FUSER.split("\n")), max_size=8).map("\n".join)))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", text, "test", "fuser -v /dev/nvidia*")
    processes.looks_like(evidence)
    list(processes.read(evidence))
