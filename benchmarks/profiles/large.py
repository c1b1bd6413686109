"""A synthetic trace of one GiB (or more) and a snapshot of a million entries through `ongpu explain`: time and peak memory.

usage: python benchmarks/profiles/large.py [--mib 1024] [--entries 1000000] [--keep FOLDER]

The trace has what a real one has an event of PyTorch's profiler for (operators with shapes, launches, kernels, flow events,
steps, waits for the loader), about 285 bytes each. Limits: 60 s of the processor and 300 MiB for
1 GiB (one process: on an idle machine the wall time is the same). The packed trace is the same, gzipped.
"""

import argparse
import gzip
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LIMIT_S, LIMIT_MIB = 60, 300
NAMES = "trace.json", "trace.json.gz", "snapshot.pickle"
KERNELS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, float)",
    "ampere_sgemm_128x64_tn",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
)
HEAD = (
    '{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42297524224,'
    ' "computeMajor": 8, "computeMinor": 0}],\n  "traceEvents": [\n'
)
SHAPES = '"Input type": ["float", "float", "Scalar"], "Input Dims": [[64, 128, 56, 56], [64, 128, 56, 56], []]'


def step(number: int, at: float) -> tuple[str, float]:
    """The events of one step of 300 kernels, and when it ends."""
    rows, now, gpu = [], at + 2000.0, at
    wait = '"user_annotation", "name": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"'
    rows.append(f'{{"ph": "X", "cat": {wait}, "pid": 7, "tid": 7, "ts": {at:.3f}, "dur": 2000.0, "args": {{"Ev Idx": 0}}}}')
    for index in range(300):
        key = number * 300 + index + 1
        for depth in range(2):
            rows.append(
                f'{{\n    "ph": "X", "cat": "cpu_op", "name": "aten::add_{depth}", "pid": 7, "tid": 7,\n    "ts": {now + depth:.3f}, '
                f'"dur": {14 - 2 * depth},\n    "args": {{\n      "External id": {key}, "Record function id": 0, {SHAPES}, '
                f'"Ev Idx": {key}\n    }}\n  }}'
            )
        rows.append(
            f'{{\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7,\n'
            f'    "ts": {now + 3:.3f}, "dur": 5,\n    "args": {{\n      "External id": {key}, "cbid": 211, '
            f'"correlation": {key}\n    }}\n  }}'
        )
        gpu, long = max(gpu, now + 9), (3.5, 12.0, 20.0)[index % 3]
        rows.append(
            f'{{\n    "ph": "X", "cat": "kernel", "name": "{KERNELS[index % 3]}", "pid": 0, "tid": 7,\n'
            f'    "ts": {gpu:.3f}, "dur": {long},\n    "args": {{\n      "External id": {key}, "queued": 0, "device": 0, "context": 1,\n'
            f'      "stream": 7, "correlation": {key},\n'
            '      "registers per thread": 32, "shared memory": 0, "blocks per SM": 2.2, "warps per SM": 17.7, "grid": [480, 1, 1],'
            ' "block": [128, 1, 1], "est. achieved occupancy %": 27\n    }\n  }'
        )
        rows.append(f'{{"ph": "s", "id": {key}, "pid": 7, "tid": 7, "ts": {now + 3:.3f}, "cat": "ac2g", "name": "ac2g"}}')
        rows.append(f'{{"ph": "f", "id": {key}, "pid": 0, "tid": 7, "ts": {gpu:.3f}, "cat": "ac2g", "name": "ac2g", "bp": "e"}}')
        gpu += long + 0.5
        now += 16
    end = max(now, gpu)
    mark = f'"user_annotation", "name": "ProfilerStep#{number}"'
    rows.append(f'{{"ph": "X", "cat": {mark}, "pid": 7, "tid": 7, "ts": {at:.3f}, "dur": {end - at:.3f}, "args": {{}}}}')
    return ",\n  ".join(rows), end


def trace(mib: int) -> Iterator[str]:
    """A trace of that many MiB, in pieces."""
    yield HEAD
    size, at, number = 0, 1e15, 0
    while size < mib << 20:
        text, at = step(number, at)
        yield (",\n  " if number else "  ") + text
        size += len(text)
        number += 1
    yield '\n  ],\n  "traceName": "synthetic"\n}\n'


def snapshot(entries: int) -> dict[str, object]:
    """A memory snapshot with so many entries in its trace."""
    stack = [{"filename": "/home/u/train.py", "line": 30, "name": "forward"}] * 40
    rows: list[dict[str, object]] = []
    for n in range(entries // 3):
        at = {"addr": 0x7F0000000000 + (n % 4096) * 4096, "size": 1 << 20, "stream": 0, "time_us": n, "frames": stack}
        rows += [{"action": action, **at} for action in ("alloc", "free_requested", "free_completed")]
    return {"segments": [{"device": 0, "address": 1, "total_size": 1 << 30, "blocks": []}], "device_traces": [rows]}


def make(folder: Path, mib: int, entries: int) -> None:
    """Write the three files."""
    plain, packed, pickled = (folder / name for name in NAMES)
    with plain.open("w") as file:
        file.writelines(trace(mib))
    with plain.open("rb") as source, gzip.open(packed, "wb", 1) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    pickled.write_bytes(pickle.dumps(snapshot(entries), 4))


def measured(path: Path) -> tuple[float, float, float, str]:
    """Wall and processor seconds and peak MiB of `ongpu explain` on this file, and the first words of its answer."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([sys.executable, "-m", "ongpu", "explain", str(path)], stdout=out)
        _, _, usage = os.wait4(process.pid, 0)
        out.seek(0)
        words = next((line.strip() for line in out.read().decode().splitlines() if line.startswith("  ")), "")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, words[:60]


def main() -> int:
    """Make the files, run, print a table; 1 where a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--make", type=Path, help="only make the files there")
    options = parser.parse_args()
    if options.make:
        make(options.make, options.mib, options.entries)
        return 0
    folder = options.keep or Path(tempfile.mkdtemp())
    plain, packed, pickled = (folder / name for name in NAMES)
    if not pickled.exists():  # in a process of its own: a child's peak would count what its parent holds when it is started
        sizes = ["--mib", str(options.mib), "--entries", str(options.entries)]
        subprocess.run([sys.executable, __file__, "--make", str(folder), *sizes], check=True)
    good = True
    print("| file | MiB | wall, s | processor, s | peak, MiB | limit | holds | answer |\n|---|---:|---:|---:|---:|---|---|---|")
    for path in (plain, packed, pickled):
        wall, used, peak, words = measured(path)
        limited = path is not pickled
        holds = not limited or (used < max(5, LIMIT_S * options.mib / 1024) and peak < LIMIT_MIB)
        good = good and holds
        limit = f"< {LIMIT_S} s of the processor a GiB, < {LIMIT_MIB} MiB" if limited else ""
        size = path.stat().st_size / (1 << 20)
        told = "yes" if holds else "NO"
        print(f"| {path.name} | {size:.0f} | {wall:.1f} | {used:.1f} | {peak:.0f} | {limit} | {told} | {words} |", flush=True)
    if options.keep is None:
        shutil.rmtree(folder)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
