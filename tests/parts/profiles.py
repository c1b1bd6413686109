"""Small traces, reports and snapshots as profilers write them, made by a simple model of a host that feeds a GPU."""

import json
import pickle
import sqlite3
from pathlib import Path
from typing import Any

CARD = {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42297524224, "computeMajor": 8, "computeMinor": 0}
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
SGEMM, HMMA = "ampere_sgemm_128x64_tn", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def kineto(
    steps: int = 4,
    kernels: int = 60,
    kernel: float = 100.0,
    host: float = 12.0,
    load: float = 0.0,
    sync: int = 0,
    names: tuple[str, ...] = (HMMA, ELEMENTWISE),
    collective: float = 0.0,
    card: dict[str, Any] | None = CARD,
    marks: bool = True,
    pause: float = 0.0,
    stacks: bool = False,
) -> dict[str, Any]:
    """A trace of PyTorch's profiler. Microseconds.

    host: of one operator on the host; load: wait for the next batch; sync: after how many kernels the host waits for the
    GPU (0: never); collective: a kernel of NCCL at the end of each step, alone; pause: host code that nobody recorded.
    """
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "python"}}]
    now, gpu, number = 1_000_000.0, 0.0, 0

    def add(category: str, name: str, start: float, duration: float, *, pid: int = 7, tid: int = 7, **args: Any) -> None:
        events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": round(start, 3),
                "dur": round(duration, 3),
                "args": args,
            }
        )

    def launch(name: str, duration: float) -> None:
        nonlocal now, gpu, number
        number += 1
        add("cpu_op", "aten::op", now, host, **{"External id": number})
        add("cuda_runtime", "cudaLaunchKernel", now + 0.6 * host, 0.3 * host, correlation=number)
        start = max(gpu, now + 0.6 * host + 4)
        add("kernel", name, start, duration, pid=0, tid=7, device=0, stream=7, correlation=number)
        gpu = start + duration
        now += host

    for step in range(steps):
        began = now
        if load:
            add("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", now, load)
            now += load
        now += pause
        for index in range(kernels):
            launch(names[index % len(names)], kernel)
            if sync and index % sync == sync - 1:
                if stacks:
                    add("python_function", "train.py(45): step", now - 1, max(gpu - now, 0) + 40)
                    add("python_function", "torch/_tensor.py(1): item", now, max(gpu - now, 0) + 30)
                add("cpu_op", "aten::item", now, max(gpu - now, 0) + 20)
                add("cuda_runtime", "cudaStreamSynchronize", now + 2, max(gpu - now - 2, 0) + 6, correlation=0)
                now = max(now, gpu) + 20
        if collective:
            launch(NCCL, collective)
        if marks:
            add("user_annotation", f"ProfilerStep#{step + 3}", began, now - began)
    add("cuda_runtime", "cudaDeviceSynchronize", now, max(gpu - now, 1))
    return {
        "schemaVersion": 1,
        "deviceProperties": [card] if card else [],
        "distributedInfo": {"rank": 0, "world_size": 2},
        "traceEvents": events,
        "traceName": "t",
    }


def text(trace: Any) -> bytes:
    """As Kineto lays it out."""
    return json.dumps(trace, indent=2).encode()


def jax(kernels: int = 50) -> dict[str, Any]:
    """A trace as JAX and TensorBoard's profiler write it: no categories; processes and threads are named by metadata."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 13, "name": "thread_name", "args": {"name": "Stream #13(Compute)"}},
        {"ph": "M", "pid": 1, "tid": 14, "name": "thread_name", "args": {"name": "XLA Ops"}},
        {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "/host:CPU"}},
    ]
    for n in range(kernels):
        at = 1000.0 + n * 50
        events += [
            {"ph": "X", "pid": 9, "tid": 1, "ts": at, "dur": 10.0, "name": "PjitFunction(step)"},
            {"ph": "X", "pid": 9, "tid": 1, "ts": at + 2, "dur": 4.0, "name": "cuLaunchKernel", "args": {"correlation_id": str(n + 1)}},
            {
                "ph": "X",
                "pid": 1,
                "tid": 13,
                "ts": at + 8,
                "dur": 20.0,
                "name": "fusion_3",
                "args": {"correlation_id": str(n + 1), "hlo_module": "jit_step"},
            },
            {"ph": "X", "pid": 1, "tid": 14, "ts": at + 8, "dur": 20.0, "name": "fusion.3", "args": {"hlo_op": "fusion.3"}},
        ]
    return {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}


def nsys(path: Path, trace: dict[str, Any], without: tuple[str, ...] = ()) -> Path:
    """The same timeline as Nsight Systems exports it: nanoseconds, texts by number."""
    names: dict[str, int] = {}

    def key(name: str) -> int:
        return names.setdefault(name, len(names) + 1)

    base = sqlite3.connect(path)
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": "start INT, end INT, deviceId INT, streamId INT, correlationId INT, demangledName INT, shortName INT",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "start INT, end INT, deviceId INT, correlationId INT, copyKind INT, bytes INT",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, globalTid INT, correlationId INT, nameId INT",
        "NVTX_EVENTS": "start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT",
        "TARGET_INFO_GPU": "id INT, name TEXT, totalMemory INT, computeMajor INT, computeMinor INT",
        "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
    }
    for name, columns in tables.items():
        if name not in without:
            base.execute(f"CREATE TABLE {name} ({columns})")
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        start, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
        kind, args = event["cat"], event["args"]
        if kind == "kernel" and "CUPTI_ACTIVITY_KIND_KERNEL" not in without:
            row = (start, end, 0, 7, args["correlation"], key(event["name"]), key("k"))
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?)", row)
        elif kind == "cuda_runtime" and "CUPTI_ACTIVITY_KIND_RUNTIME" not in without:
            base.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?)",
                (start, end, 7, args.get("correlation", 0), key(event["name"] + "_v7000")),
            )
        elif kind == "user_annotation" and "NVTX_EVENTS" not in without:
            name = event["name"].replace("ProfilerStep#", "step ")
            base.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?,?,?)", (start, end, 59, name, None, 7))
    if "TARGET_INFO_GPU" not in without:
        base.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100-SXM4-40GB', 42297524224, 8, 0)")
    if "StringIds" not in without:
        base.executemany("INSERT INTO StringIds VALUES (?,?)", [(number, name) for name, number in names.items()])
    base.commit()
    base.close()
    return path


def frames(line: int, name: str = "forward", file: str = "/home/u/project/train.py") -> list[dict[str, Any]]:
    """A stack as the allocator records it: innermost first, the framework's frames around the user's."""
    return [
        {"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
        {"filename": "/opt/env/lib/python3.11/site-packages/torch/nn/modules/conv.py", "line": 456, "name": "_conv_forward"},
        {"filename": file, "line": line, "name": name},
        {"filename": "/opt/env/lib/python3.11/runpy.py", "line": 88, "name": "_run_code"},
    ]


def snapshot(
    steps: int = 40, keep: bool = False, oom: int = 0, scattered: bool = False, weights: int = 200 << 20, activation: int = 30 << 20
) -> dict[str, Any]:
    """A snapshot of the allocator: weights, then steps of ten activations each that are freed; keep: one of each step stays.

    oom: bytes of a request that failed at the end; scattered: idle blocks of 2 MiB between those in use.
    """
    at, trace, alive = 0x7F0000000000, [], {}
    kept = frames(52, "log"), frames(30), frames(10, "__init__")

    def alloc(size: int, stack: list[dict[str, Any]]) -> int:
        nonlocal at
        at += size
        trace.append({"action": "alloc", "addr": at, "size": size, "stream": 0, "time_us": len(trace), "frames": stack})
        alive[at] = size, stack
        return at

    def free(address: int) -> None:
        size, stack = alive.pop(address)
        for action in ("free_requested", "free_completed"):
            trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": len(trace), "frames": stack})

    alloc(weights, kept[2])
    for _ in range(steps):
        mine = [alloc(activation, kept[1]) for _ in range(10)]
        if keep:
            alloc(activation, kept[0])
        for address in mine:
            free(address)
    if oom:
        trace.append({"action": "oom", "size": oom, "stream": 0, "device_free": 100 << 20, "frames": kept[1]})
    blocks: list[dict[str, Any]] = []
    for address, (size, stack) in alive.items():
        blocks.append({"size": size, "requested_size": size, "address": address, "state": "active_allocated", "frames": stack})
        if scattered:
            blocks += [
                {"size": 2 << 20, "requested_size": 0, "address": address + size + n * (2 << 20), "state": "inactive", "frames": []}
                for n in range(400)
            ]
    total = sum(block["size"] for block in blocks)
    segment = {
        "device": 0,
        "address": 0x7F0000000000,
        "total_size": total,
        "allocated_size": 0,
        "stream": 0,
        "segment_type": "large",
        "blocks": blocks,
    }
    return {"segments": [segment], "device_traces": [trace], "allocator_settings": {"expandable_segments": False}}


def pickled(value: Any, protocol: int = 4) -> bytes:
    """As `_dump_snapshot` writes it."""
    return pickle.dumps(value, protocol=protocol)
