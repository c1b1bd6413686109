"""p2pBandwidthLatencyTest of the CUDA samples: bandwidth between GPUs with and without peer access."""

import re
from collections.abc import Iterable

from ongpu.facts.hardware import PeerBandwidth
from ongpu.model import Evidence, Fact, Ref, Source

_HEAD = re.compile(r"^\s*Unidirectional P2P\W{0,2}(?P<state>Enabled|Disabled) Bandwidth", re.IGNORECASE)
_ROW = re.compile(r"^\s*(?P<row>\d{1,2})\s+(?P<cells>\d+\.\d+(?:\s+\d+\.\d+)*)\s*$")


def read(evidence: Evidence) -> Iterable[Fact]:
    """The two unidirectional matrices."""
    found: dict[str, list[float]] = {"enabled": [], "disabled": []}
    refs: list[Ref] = []
    state = None
    for number, line in evidence.lines():
        if head := _HEAD.match(line):
            state = head["state"].lower()
            refs.append(evidence.ref(number, line))
        elif state and (row := _ROW.match(line)):
            cells = [float(cell) for cell in row["cells"].split()]
            found[state] += [cell for at, cell in enumerate(cells) if at != int(row["row"])]
            if state == "enabled" and len(refs) < 4:
                refs.append(evidence.ref(number, line))
        elif state and "D\\D" not in line:
            state = None
    if found["enabled"] and found["disabled"]:
        yield PeerBandwidth(without=tuple(found["disabled"]), direct=tuple(found["enabled"]), refs=tuple(refs))


SOURCES = (
    Source(
        kind="p2p-bandwidth", read=read, looks_like=lambda e: "Unidirectional P2P" in e.text, gives=(PeerBandwidth,),
        settle="./p2pBandwidthLatencyTest",
    ),
)
