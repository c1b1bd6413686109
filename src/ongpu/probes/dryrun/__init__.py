"""A training script on a pretend GPU: runs inside the user's interpreter, Python 3.8 syntax, standard library and torch only.

    PYTHON <this folder> SPEC.json SCRIPT [ARGS...]        (also: -m MODULE [ARGS...] in place of SCRIPT)

CPU tensors stay real. A tensor on "cuda" is a plain `torch.Tensor` with shape, dtype and dispatch keys of CUDA over a storage
without data; a simulated caching allocator follows the life of each such storage. One JSON object goes to the file that the
spec names; the script's own prints go where they always go. Exit code 0 when the JSON was written, whatever the script did.

SPEC (all but "answer" have defaults)
    answer          str    file the JSON is written to
    mode            "run" | "find-batch-size"
    card            {"name": str, "total": bytes as CUDA reports them, "capability": [8, 0], "sms": 108,
                     "context": bytes a process costs before its first tensor, "cuda": "12.8",
                     "workspace": bytes of one cuBLAS workspace (None: as PyTorch chooses for the capability),
                     "free": bytes free of other processes (None: all)}
    devices         int    cards of that kind seen by torch.cuda.device_count(); default 1
    steps           int    optimizer steps to follow; default 4 (0: no limit).   batches: int, most batches taken of a loader; default 64
    seconds         float  soft limit: the run stops at the next operation on the pretend GPU, outcome "timeout"; default 120
    cpu_flop        float  stop when that much matrix work ran on the CPU and none on the GPU (default 5e11): `notes` cpu-only
    launch          int    ranks of a torchrun job to pretend (0: none)
    sandbox         bool   refuse writes outside the temporary folder, and the network;  scratch: str, that folder
    savings         bool   after the steps, try out what changes would save (mode run): one more traced step for each
    oom             "auto" | "raise" | "go-on"  what happens where the card is full: raised as CUDA would, or noted, and the run goes
                    on with an endless card to learn its need. auto: go-on unless the script's text handles such errors
    env             {str: str}  environment set for the script (LOCAL_RANK is set by launch)

ANSWER.  A "place" is null or {"file": absolute path, "line": int, "function": str, "text": the stripped source line}: the user's
own innermost line (not in site-packages, not ours). Sizes are bytes, lists are sorted largest first and cut (top 10 unless said).
    schema          1
    outcome         "finished" the script ended by itself | "stopped" after the wanted steps or batches | "error" it raised |
                    "timeout" | "unsupported" what it does could not be followed (nothing is said about the script) |
                    "crashed" the dry run itself failed
    error           null | {"type": "torch.OutOfMemoryError", "message": as CUDA says it, "traceback": text as Python prints it
                    (without our frames), "place", "kind": "script" | "oom" | "device" (mixed, or numpy) | "cuda" (device-side
                    assert, fork, ordinal) | "unsupported" | "internal" | "arguments" (of the command line, which the script
                    wants: "message" says which), "exit": code when the script called sys.exit, else null,
                    "operands": of kind "device": what `ongpu.probes.operands` tells of the failing lines, else null}
    stopped_by      null | "steps" | "batches" | "seconds" | "cpu-only"
    torch, python, platform, script, mode, seconds (wall), started_seconds (set-up)
    card            as in the spec, defaults filled in
    steps, batches, backwards   counts followed.   batch_size: rows of the first loader's batches (null: not known)
    devices         {"ops": {"cuda": n, "cpu": n}, "flop": {"cuda": x, "cpu": x} (matrix work, 2 per multiply-add),
                     "by_line": [{"place", "device", "ops", "flop"}],
                     "parameters": {"cuda:0": bytes, "cpu": bytes}, "buffers": {..}, "gradients": {..}, "optimizer_state": {..},
                     "inputs": {..} (tensors handed to a model at its last call),
                     "models": [{"class", "parameters": n, "trainable": n, "bytes": {device: bytes}, "dtypes": {dtype: n},
                                 "called": times its forward ran, "children": [the same without children, each direct child]}],
                     "optimizers": [{"class", "parameters": n, "state_bytes": {device: bytes}, "foreach", "fused",
                                     "set_to_none": as zero_grad was called, "steps": n, "place"}]}
    memory          {"capacity": total less context less others, "context": bytes, "workspace": bytes of library workspaces that live
                     in the allocator, "peak_allocated", "peak_reserved", "peak_requested", "peak_total": reserved + context,
                     "at_peak": {"by_kind": {"weight", "buffer", "gradient", "optimizer_state", "activation", "input",
                                             "temporary", "workspace", "other": bytes},
                                 "by_line": [{"place", "kind", "bytes", "count"}], "by_module": [{"module", "class", "bytes"}],
                                 "largest": [{"bytes", "shape", "dtype", "op", "kind", "place"}],
                                 "place": line that set it, "op", "phase": "forward" | "backward" | "optimizer" | "other",
                                 "step": 0-based},
                     "fragmentation": 1 - allocated / reserved at the peak of reserved,
                     "steps": [{"allocated_after", "requested_after", "reserved_after", "peak_allocated", "peak_reserved"}] one per
                     optimizer step (requested: without rounding),
                     "growth": null | bytes by which the memory after a step grew at each of the last steps (least of them; null
                     when it did not grow at every step), "growth_by_line": [{"place", "bytes", "count"}],
                     "oom": null | {"message", "asked", "place", "op", "phase", "step", "allocated", "reserved"} the
                     first time the card was full, "ooms": n, "retries": times the cache had to be flushed,
                     "empty_cache_calls": [{"place", "count"}],
                     "expandable_segments": bool}                  of device cuda:0 (other devices: "others": {"cuda:1": {...}})
    syncs           [{"place", "kind": "item" | "bool" | "cpu" | "tolist" | "numpy" | "print" | "nonzero" | "mask" | "unique" |
                     "synchronize" | "copy", "count", "per_step"}]
    copies          [{"place", "direction": "to-gpu" | "to-cpu", "count", "bytes", "non_blocking": n, "pinned": n, "per_step"}]
    loaders         [{"place", "dataset": class, "length", "batch_size", "workers", "pin_memory", "persistent_workers",
                      "prefetch_factor", "drop_last", "shuffle", "sampler": class, "context": start method, "batches": n,
                      "seconds": spent waiting for it, "per_epoch": batches, "set_epoch": bool}]
    accumulation    {"windows": [{"backwards": n, "scaled": bool | null (null: cannot tell), "step_place", "backward_place",
                      "zeroed": bool}], "every": backwards per step | null, "dropped": backwards never followed by a step at the
                      end of the run (null when it did not end by itself, or never stepped), "loader_batches": n, "scaled": bool | null}
    indices         [{"place", "op", "low", "high", "allowed": [low, high], "count"}]   values outside what is allowed
    forked          [{"place", "what"}]                            CUDA used in a forked process
    assumptions     [{"place", "what": "item" | "bool" | "shape" | "cpu" | "tolist" | "print" | "compare", "value": JSON, "count",
                      "branched": bool (the script compared it)}]
    unsupported     [{"op", "place", "why", "count", "went_on": bool}]
    notes           [{"note": slug-like word, "text": English, "place", "count"}]: compile-skipped, save-redirected, cpu-only,
                    gpu-never-used, attention-kernel, sandbox-refused, deletion-skipped, ranks-not-run,
                    comm-hook-skipped, time-not-simulated, visible-devices
    calls           {"empty_cache": n, "synchronize": n, "set_device": [..], "autocast_dtypes": [..], "compile": n,
                     "grad_scaler": {"created", "steps", "updates", "unscales"}, "save": n, "load": n,
                     "process_group": {"backend", "rank", "world_size"}}   only what was called
    batch           null (run) | mode find-batch-size: {"as_run", "largest": int | 0 | null, "traced": [{"batch", "peak_allocated",
                     "peak_reserved", "fits"}], "reserved_per_sample", "reserved_fixed", "verified": bool (traced at that size),
                     "bounded": bool (false: larger ones may fit too), "by": "loader",
                     "why": text when null, "accumulate": windows that keep the effective batch at most as given}
    savings         [{"change": "checkpointing" | "bf16-autocast" | "fp16-autocast" | "adam-8bit" | "set-to-none" | "half-sequence",
                     "peak_allocated", "peak_reserved", "saved": bytes of reserved, "saved_allocated", "how": text, "applies": bool,
                     "failed": null | why it could not be tried}]   each traced: one step of the same run with the change made
    ranks           null | [{"rank", "local_rank", "device": "cuda:0" | null, "outcome", "error", "peak_reserved", "collectives":
                     [{"op", "place", "shape", "dtype", "device", "group", "count"}], "steps", "stopped_by", "loaders",
                     "devices": all used}]
    mismatches      [{"index": n-th collective, "ranks": {rank: {"op", "shape", "dtype", "place"} | null}}]   the first difference
    unreached       [{"file", "name", "line", "end"}]   functions of the script (not of a module) that were never entered
    sources         [path]                              the user's own files that ran, the script first
    files           [{"path", "what": "save" | "write", "redirected": path | null, "refused": bool}]
"""
