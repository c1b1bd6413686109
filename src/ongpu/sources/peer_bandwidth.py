"""p2pBandwidthLatencyTest of the CUDA samples: bandwidth between GPUs with and without peer access."""

import re
from collections.abc import Iterable

from ongpu.facts.hardware import PeerBandwidth
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Ref, Source

_HEAD = lazy(r"^\s*(?P<way>Uni|Bi)directional P2P\W{0,2}(?P<state>Enabled|Disabled) Bandwidth", re.IGNORECASE)
_ROW = lazy(r"^\s*(?P<row>\d{1,2})\s+(?P<cells>\d+\.\d+(?:\s+\d+\.\d+)*)\s*$")


def read(evidence: Evidence) -> Iterable[Fact]:
    """The two unidirectional matrices."""
    found: dict[str, list[float]] = {"enabled": [], "disabled": [], "both": []}
    whole: dict[str, list[tuple[float, ...]]] = {}
    refs: list[Ref] = []
    state, name = None, ""
    for number, line in evidence.lines():
        if head := _HEAD.match(line):
            state = head["state"].lower() if head["way"].lower() == "uni" else "both"
            name = head["way"] + head["state"]
            refs.append(evidence.ref(number, line))
        elif state and (row := _ROW.match(line)):
            cells = [float(cell) for cell in row["cells"].split()]
            whole.setdefault(name, []).append(tuple(cells))
            found[state] += [cell for at, cell in enumerate(cells) if at != int(row["row"])]
            if state in ("enabled", "both") and len(refs) < 9:
                refs.append(evidence.ref(number, line))
        elif state and "D\\D" not in line:
            state = None
    matrix = next((tuple(whole[key]) for key in ("UniEnabled", "BiEnabled", "UniDisabled", "BiDisabled") if key in whole), ())
    square = bool(matrix) and all(len(row) == len(matrix) for row in matrix)
    both = bool(found["enabled"] and found["disabled"])
    if both or square:
        yield PeerBandwidth(
            without=tuple(found["disabled"]) if both else (), direct=tuple(found["enabled"]) if both else (),
            rows=matrix if square else (), refs=tuple(refs),
        )  # fmt: skip


SOURCES = (
    Source(
        kind="p2p-bandwidth", read=read, looks_like=lambda e: "directional P2P" in e.text, gives=(PeerBandwidth,),
        settle="./p2pBandwidthLatencyTest",
    ),
)
