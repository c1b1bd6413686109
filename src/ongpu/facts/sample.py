"""What one look at the GPUs gives: the lines that the sampling child prints, and the names of their columns.

Everything is JSON, one object a line; `k` says which (see `hosts/sampling`):

    {"k": "init", "t": 1.7e9, "code": 0, "error": null, "driver": "535.183.01", "cuda": 12020, "count": 8}
    {"k": "gpu", "i": 0, "uuid": "GPU-...", "name": "...", "bus": "0000:1a:00.0", ... }                      what seldom changes
    {"k": "s", "t": 1.7e9, "n": 17, "g": [[...COLUMNS...], 15, null]}      15: the NVML code of a GPU that does not answer;
                                                                           null: not asked (hung, asked by a child of its own)
    {"k": "why", "i": 0, "codes": {"util": 3, "processes": 4}}            why a column is null: NVML's code; sent when it changes
    {"k": "p", "t": 1.7e9, "g": {"0": [[pid, MiB or null, "C", sm % or null], ...]}, "h": {"4242": {...HOST...}},
     "m": {...MACHINE...}}
    {"k": "full", "t": 1.7e9, "text": "..."}                              the doctor's own NVML evidence (hosts/nvml_child.py)
    {"k": "xid", "t": 1.7e9, "i": 0, "code": 79}                          an event of NVML
    {"k": "log", "t": 1.7e9, "text": "NVRM: Xid ..."} or {"k": "log", "error": "denied"}      a line of the kernel log
    {"k": "hung", "t": 1.7e9, "i": 3, "call": "nvmlDeviceGetTemperature", "for": 2.0}         i null: not in a GPU's call
    {"k": "bye", "t": 1.7e9, "code": 9, "error": "Driver Not Loaded"}     the driver as a whole went; the child ends

t: seconds since the epoch. "s" and "p" lines also carry c, the seconds of a clock that does not jump: rates are worked out with it.
"log" lines carry seq, by which the parent end leaves out what it has told. The parent writes to the child: "ask 3" (look at this GPU
now), "where" (which call are you in? answered by "hung", or "busy", which stays inside the parent end).
"""

from typing import Literal

# Of one GPU, in this order. None: not told; the "why" line of the GPU says by which NVML code.
COLUMNS = (
    "util",  # percent of the time since the last look in which a kernel ran (nvmlDeviceGetUtilizationRates.gpu)
    "mem_util",  # percent of the time in which device memory was read or written
    "mem_used",  # MiB, without what the driver reserves (nvmlDeviceGetMemoryInfo_v2; v1 on old drivers)
    "temp",  # degrees Celsius
    "power",  # mW
    "sm_clock",  # MHz
    "mem_clock",  # MHz
    "reasons",  # bits of nvmlClocksEventReasons: why the clocks are held down
    "energy",  # mJ since the driver was loaded (nvmlDeviceGetTotalEnergyConsumption, Volta and later)
    "fan",  # percent
    "pcie_tx",  # kB/s, device to host; NVML measures 20 ms for each: asked seldom, else None
    "pcie_rx",  # kB/s, host to device
    "ecc",  # uncorrectable ECC errors since the driver was loaded
    "replays",  # PCIe replays since the driver was loaded
)
Column = Literal[
    "util", "mem_util", "mem_used", "temp", "power", "sm_clock", "mem_clock", "reasons", "energy", "fan", "pcie_tx", "pcie_rx",
    "ecc", "replays",
]  # fmt: skip
PLACE = {name: place for place, name in enumerate(COLUMNS)}

# Of a "gpu" line, beside i, uuid, name, bus. None: not told.
IDENTITY = (
    "mem_total",  # MiB
    "power_limit",  # mW, enforced
    "power_default",  # mW
    "temp_limit",  # degrees Celsius at which the card slows down; None where it tells only a margin
    "temp_margin",  # degrees left to the slowdown, at the time of the line (Ada, Hopper and later)
    "sm_clock_max",  # MHz
    "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max",
    "mig",  # true where MIG is on: utilisation is not told then
    "ecc_mode", "compute_mode", "persistence", "remap_pending", "remap_failed", "recovery",
)  # fmt: skip

# Of one process on a GPU ("h" of a "p" line), from /proc; each may be missing: not visible from here (another PID namespace, hidepid).
HOST = (
    "uid", "user", "command",  # the command line, cut at 200 characters, secrets masked
    "start",  # start time in clock ticks since boot: with the pid it names the process for good
    "cpu",  # seconds of processor time so far, all threads
    "main",  # seconds of processor time of its busiest thread so far
    "state",  # R, S, D (waits for disk or driver), T, Z
    "rss",  # MiB
    "threads",
    "read",  # bytes read from storage so far (/proc/PID/io read_bytes), None where not permitted
    "rchar",  # bytes read by system calls so far, the page cache and sockets included
    "children",  # of its descendants, at most 32, busiest first: [[pid, name, cpu seconds so far, state, read bytes or null], ...]
    "container",  # id or name, from its cgroup
    "job",  # "slurm:123", "k8s:namespace/pod" or "k8s:uid", "docker:<12 digits>", from cgroup and environment; None: none seen
)  # fmt: skip

# Of the machine as a whole ("m" of a "p" line), from /proc; each may be missing.
MACHINE = (
    "cores",  # that this process may use (sched_getaffinity), at most the quota of its cgroup where one is set
    "load",  # of the last minute (/proc/loadavg)
    "busy",  # seconds of processor time of all cores so far that were not idle (/proc/stat, first line, without idle and iowait)
    "iowait",  # seconds so far in which a core stood idle while a program on it waited for storage (/proc/stat)
    "net_rx", "net_tx",  # bytes received and sent so far by all interfaces but lo (/proc/net/dev)
    "mem_available",  # MiB (/proc/meminfo)
)  # fmt: skip
