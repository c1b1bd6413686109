from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.nccl import NcclLog
from ongpu.model import Evidence
from ongpu.sources import nccl_log


def read(text: str) -> list[NcclLog]:
    return [fact for fact in nccl_log.read(Evidence("pasted", text, "p")) if isinstance(fact, NcclLog)]


PIECES = ["a:1:2 [0] NCCL INFO ", "NCCL WARN ", "NCCL version 2.1.1", " via P2P", "WorkNCCL(OpType=", "timeout", "\n"]


LOG = """node-12:4152:4206 [0] NCCL INFO NCCL version 2.18.1+cuda12.1
node-12:4152:4206 [0] NCCL INFO NET : Using interface lo:127.0.0.1<0>
node-12:4152:4206 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.12<0>
node-12:4152:4206 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
node-12:4153:4209 [1] include/socket.h:361 NCCL WARN Call to connect timeout : Connection refused
[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600040 milliseconds
"""


def test_versions_interfaces_and_time_outs() -> None:
    fact = read(LOG)[0]
    assert dict(fact.versions) == {"node-12": "2.18.1"}
    assert fact.interfaces == ("lo", "eth0")
    assert fact.transports == ("P2P/IPC",)
    assert (fact.timeouts[0].operation, fact.timeouts[0].rank, fact.timeouts[0].seconds) == ("ALLREDUCE", 1, 600.04)
    assert len(fact.warnings) == 1


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    nccl_log.looks_like(Evidence("pasted", text, "p")) if hasattr(nccl_log, "looks_like") else None
    read(text)


def test_a_watchdog_line_that_is_broken_over_three() -> None:
    fact = read(
        "[rank1]:[E] [Rank 1] Watchdog caught collective operation timeout:\n"
        "WorkNCCL(SeqNum=34036, OpType=ALLGATHER, NumelIn=8, Timeout(ms)=5400000)\n"
        "ran for 5400073 milliseconds before timing out."
    )[0]
    assert [(t.operation, t.rank, t.seconds) for t in fact.timeouts] == [("ALLGATHER", 1, 5400.073)]
