import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.sanitizer import Sanitizer
from ongpu.hosts import pasted
from ongpu.model import Evidence
from ongpu.sources import compute_sanitizer

NEW = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at matmul_kernel+0xec0 in matmul_triton2.py:43
=========     by thread (18,0,0) in block (0,0,0)
=========     Access to 0x74505bcccca0 is out of bounds
=========     and is 161 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cudaLaunchKernel [0x6bedb] in libcudart.so.12
=========         Host Frame: launch(at::Tensor, int) [0x9544e] in my_ext.so
=========         Host Frame: main in oob_demo.cu:25 [0x8a81] in oob_demo
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: main [0x8a94] in oob_demo
=========
========= ERROR SUMMARY: 2 errors
"""
MIDDLE = """========= Invalid __global__ read of size 16 bytes
=========     at 0xda0 in /opt/sglang/srt/layers/moe/fused_moe.py:175:fused_moe_kernel
=========     by thread (96,0,0) in block (44,0,0)
=========     Address 0x763995f9f000 is out of bounds
=========     and is 1,241,911,296 bytes before the nearest allocation at 0x7639e0000000 of size 5,033,164,800 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2f26f0]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========     Host Frame:PyObject_Call [0x22d1ab]
=========                in /usr/bin/python3
=========     Host Frame:run_moe(int) [0x22d1ab]
=========                in /home/u/moe.so
"""
OLD = """========= CUDA-MEMCHECK
========= Invalid __global__ write of size 4
=========     at 0x000000b8 in memcheck_demo.cu:6:unaligned_kernel(void)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f4500000001 is misaligned
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame:/usr/lib64/libcuda.so (cuLaunchKernel + 0x331) [0x138281]
=========
========= Program hit error 4 on CUDA API call to cudaDeviceSynchronize
=========
========= Leaking 1 KiB
========= LEAK SUMMARY: 1,048,576 bytes leaked in 2 allocations
========= ERROR SUMMARY: 2 errors
"""
HAZARDS = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reduce(int *)+0x90 in k.cu:52 and Read access at reduce(int *)+0x40 in k.cu:53
=========
========= Warning: Race reported between Read access at scan(int *)+0x10 in k.cu:9
=========     and Write access at scan(int *)+0x40 in k.cu:10 [4 hazards]
=========
========= Barrier error detected. Divergent thread(s) in block.
=========     at illegal_sync_kernel(int *)+0xa0 in sync.cu:61
=========     by thread (19,0,0) in block (0,0,0)
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at vector_add(float const *, float const *, float *, unsigned long)+0x130 in kernel.cu:8
=========     by thread (0,0,0) in block (0,0,0)
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
LATER = """========= Invalid __global__ write of size 8 bytes
=========     at radiation_cloud_generator_+0xca0
=========        in radiation_cloud_generator_acc.F90:379
=========     by thread (97,0,0) in block (69,0,0)
=========     Access to 0x155097f5db68 is out of bounds
=========     and is 873 bytes after the nearest allocation at 0x155097600000
=========        of size 9,820,160 bytes
"""

# As the manual of version 2026.4 shows them (docs.nvidia.com/compute-sanitizer): one head line of each kind that is not above.
REST = """========= Malloc/Free error encountered : Double free
=========     at 0x79d8
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Tensor Memory column 32 being accessed by instruction tcgen05.ld is not allocated. Columns allocated are: 0-31.
=========     at $__internal_8_$__cuda_sm10x_tcgen05_guardrail_trap_unallocated_columns_access+0x1250 in TcmmaGuardrails.cu:99
=========
========= ERROR: Potential WAW hazard detected at __shared__ 0x0 in block (0,0,0) :
=========     Write Thread (0,0,0) at WAW()+0x2f0 in raceWAW.cu:20
=========     Write Thread (1,0,0) at WAW()+0x2f0 in raceWAW.cu:20
=========
========= WARNING: Race reported between Write access at RAW()+0xf0 in raceGroupBasic.cu:40
=========     and Read access at RAW()+0x280 in raceGroupBasic:46 [4 hazards]
=========
========= Warning: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :
=========     Write Thread (35,0,0) at sumKernel(int *, int *)+0x90 in warp_error.cu:44
=========
========= Potential invalid __shared__ read of size 4 bytes
=========     at RemoteAccess(int *, int)+0x170 in RaceCluster.cu:10
=========     Address 0x1000400 is located in a block that might have already exited
=========
========= Deadlock detected in Cuda::barrier wait called by threads starting at (0,0,0) in block (0,0,0), (active mask: 0xffffffff), barrier address: 0x0 at kernel+0x1190 in app.cu:98
=========
=========  Unused __global__ memory in allocation 0x7fed9f400000 of size 100 bytes
=========     Not written 80 bytes at offset 0x14 (0x7fed9f400014)
=========
========= Barrier error detected. Invalid arguments
=========     at __cuda_sm70_warpsync+0x30
=========     Device Frame:__syncwarp(unsigned int)+0xf0 in /usr/local/cuda/include/sm_30_intrinsics.hpp:110
=========     Device Frame:myKernel(int *)+0x3c0 in illegal_syncwarp.cu:48
=========
========= Barrier error detected. Divergent thread(s) in block.
=========     at [clone myKernel(int *, int *)] outlineSync()+0x11f0 in test.cu:42
=========         Device Frame: myKernel(int *, int *)+0xe40 in test.cu:60
=========
========= Program hit invalid copy direction for memcpy (error 21) on CUDA API call to cudaMemcpy.
========= Barrier called by threads starting at (32,0,0) in block (1,0,0), (active mask: 0xffffffff) at kernel()+0x2b0 in app.cu:36
"""  # noqa: E501
GUARD = "__cuda_sm10x_tcgen05_guardrail_trap_unallocated_columns_access"


def read(text: str) -> Sanitizer:
    facts = [fact for fact in compute_sanitizer.read(Evidence("pasted", text, "p")) if isinstance(fact, Sanitizer)]
    return facts[0] if facts else Sanitizer()


@pytest.mark.parametrize(
    ("text", "kernel", "place", "beyond", "size", "host"),
    [
        (NEW, "matmul_kernel", "matmul_triton2.py:43", 161, 1024, "launch(at::Tensor, int)"),
        (MIDDLE, "fused_moe_kernel", "/opt/sglang/srt/layers/moe/fused_moe.py:175", -1_241_911_296, 5_033_164_800, "run_moe(int)"),
        (LATER, "radiation_cloud_generator_", "radiation_cloud_generator_acc.F90:379", 873, 9_820_160, None),
    ],
)
def test_an_access_beyond_an_allocation(text: str, kernel: str, place: str, beyond: int, size: int, host: str | None) -> None:
    (fault,) = read(text).of("access")
    assert (fault.kernel, fault.place, fault.beyond, fault.size, fault.host) == (kernel, place, beyond, size, host)
    assert fault.space == "__global__"
    assert not fault.misaligned


def test_the_old_tool() -> None:
    fact = read(OLD)
    (fault,) = fact.faults
    assert (fault.function(), fault.place, fault.what, fault.misaligned) == (
        "unaligned_kernel",
        "memcheck_demo.cu:6",
        "write of size 4 bytes",
        True,
    )
    assert (fact.leaked, fact.leaks, fact.errors) == (1 << 20, 2, 2)
    assert fact.calls[0].call == "cudaDeviceSynchronize"


def test_calls_that_failed() -> None:
    (call,) = read(NEW).calls
    assert (call.code, call.number, call.call, call.host) == ("cudaErrorLaunchFailure", 719, "cudaDeviceSynchronize", "main")
    assert call.consequence()


def test_hazards() -> None:
    fact = read(HAZARDS)
    assert [(f.kind, f.function(), f.place, f.warning) for f in fact.faults] == [
        ("race", "reduce", "k.cu:52", False),
        ("race", "scan", "k.cu:9", True),
        ("barrier", "illegal_sync_kernel", "sync.cu:61", False),
        ("uninitialized", "vector_add", "kernel.cu:8", False),
    ]
    assert fact.faults[0].what == "write / read"
    assert fact.errors == 2


def test_every_other_kind_of_the_manual() -> None:
    fact = read(REST)
    assert [(f.kind, f.what[:30], f.function(), f.place, f.warning) for f in fact.faults] == [
        ("access", "Double free", None, None, False),
        ("access", "Tensor Memory column 32 being ", "$__internal_8_$" + GUARD, "TcmmaGuardrails.cu:99", False),
        ("race", "WAW", "WAW", "raceWAW.cu:20", False),
        ("race", "write", "RAW", "raceGroupBasic.cu:40", True),
        ("race", "RAW", "sumKernel", "warp_error.cu:44", True),
        ("race", "read in a block that might have already exited"[:30], "RemoteAccess", "RaceCluster.cu:10", False),
        ("barrier", "Deadlock detected in Cuda::bar", "kernel", "app.cu:98", False),
        ("uninitialized", "Unused __global__ memory in al", None, None, True),
        ("barrier", "Invalid arguments", "myKernel", "illegal_syncwarp.cu:48", False),
        ("barrier", "Divergent thread(s) in block", "myKernel", "test.cu:60", False),
    ]  # fmt: skip
    assert [(call.number, call.words, call.call) for call in fact.calls] == [(21, "invalid copy direction for memcpy", "cudaMemcpy")]


def test_lines_between_other_output_and_with_a_time_before_them() -> None:
    text = "\n".join(f"2026-11-30 10:00:00 worker0: {line}" if line else "loss 1.0" for line in NEW.split("\n"))
    assert read(text).faults[0].kernel == "matmul_kernel"


def test_a_clean_report_shows_that_all_was_checked() -> None:
    assert read("========= COMPUTE-SANITIZER\nloss 0.1\n========= ERROR SUMMARY: 0 errors\n").working()
    assert not read("========= COMPUTE-SANITIZER\nloss 0.1\n").working()


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("void at::native::<unnamed>::ctc_loss_backward<float, long>(T1 *, const T1 *)", "ctc_loss_backward"),
        ("void (anonymous namespace)::k<int>(int *)", "k"),
        ("void trtri_set_identity<double>(int, T1 *, int)", "trtri_set_identity"),
        ("cudapy::__main__::mutate$241(Array<long long, (int)1>)", "cudapy::__main__::mutate$241"),
    ],
)
def test_the_bare_name_of_a_kernel(kernel: str, name: str) -> None:
    text = f"========= Invalid __global__ read of size 4 bytes\n=========     at {kernel}+0x70\n"
    assert read(text).faults[0].function() == name


def test_a_long_log_keeps_what_the_tool_says() -> None:
    noise = "".join(f"step {n} loss {n / 7:.5f} some words that come in every line of it\n" for n in range(40_000))
    evidence = pasted.read_text(noise + NEW + noise, "p")
    assert any(read(item.text).of("access") for item in evidence)


PIECES = [
    "========= ", "=========     ", "Invalid __global__ read of size 4 bytes", "at k+0x1 in a.cu:3", "Host Frame:", "[0x1]",
    "and is 1 bytes after the nearest allocation", "Program hit cudaErrorX (error 1) due to \"a\" on CUDA API call to cudaY.",
    "Error: Race reported between Write access at ", "ERROR SUMMARY: 1 error", "\n", "(", "<", "in ",
]  # fmt: skip


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    compute_sanitizer.looks_like(Evidence("pasted", text, "p"))
    for fault in read(text).faults:
        fault.function()
