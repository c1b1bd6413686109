"""The same traces through HolisticTraceAnalysis and through ongpu: busy, compute and exposed time of each, as a Markdown table.

usage: python benchmarks/profiles/compare.py --hta PYTHON TRACE...

PYTHON is an interpreter with HolisticTraceAnalysis installed (it brings pandas and more: not a dependency of ours). The
traces are those of the test data of facebookresearch/HolisticTraceAnalysis and of pytorch/kineto's former tb_plugin/samples.
HTA's times: get_temporal_breakdown, with the last profiler step included, as ours is.
"""

import argparse
import json
import subprocess
from pathlib import Path

from ongpu.hosts import pasted

HTA = """
import json, logging, os, sys, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
path = sys.argv[1]
analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path), include_last_profiler_step=True)
row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
overlap = analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0]
print("ROW", json.dumps([float(row["kernel_time(us)"]), float(row["idle_time(us)"]), float(row["compute_time(us)"]), float(overlap)]))
"""


def ours(path: Path) -> list[float]:
    """Kernel span, idle in it, compute (microseconds), share of collective time that is hidden."""
    rows = [json.loads(line) for item in pasted.read_file(path) if item.kind == "profile" for line in item.text.split("\n")]
    gpu = next(row for row in rows if "kernel_span_ms" in row)
    hidden = 100 * (1 - gpu["collective_alone_ms"] / gpu["collective_ms"]) if gpu["collective_ms"] else float("nan")
    return [1000 * gpu["kernel_span_ms"], 1000 * (gpu["kernel_span_ms"] - gpu["kernel_busy_ms"]), 1000 * gpu["kernel_compute_ms"], hidden]


def theirs(python: str, path: Path) -> list[float] | None:
    """The same, by HTA; None where it fails."""
    done = subprocess.run([python, "-c", HTA, str(path.resolve())], capture_output=True, text=True, timeout=600, check=False)
    return next((json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("ROW ")), None)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hta", required=True, help="an interpreter with HolisticTraceAnalysis")
    parser.add_argument("traces", nargs="+", type=Path)
    options = parser.parse_args()
    print("| trace | span, ms: HTA | ours | idle, ms: HTA | ours | compute, ms: HTA | ours | hidden collectives, %: HTA | ours |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in options.traces:
        reference, mine = theirs(options.hta, path), ours(path)
        cells = []
        for place in range(4):
            scale = 1 if place == 3 else 1000
            cells += [f"{reference[place] / scale:.2f}" if reference else "fails", f"{mine[place] / scale:.2f}"]
        print(f"| {path.name[:60]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
