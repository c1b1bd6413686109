"""What the machine tells of itself, which the rules read beside the GPUs: its distribution, whether it is a container, its services."""

import json

from ongpu.hosts.live import Live, ask
from ongpu.model import Evidence, Get

# What is asked of the machine itself: the distribution and whether it is a container, the cards on the bus, the loaded module, the
# services.
QUESTIONS = (
    ("pci-bus", Get(call="bus:ask", limit=3.0, only="linux")),
    ("machine-state", Get(call="system:ask", limit=3.0)),
    ("kernel-log", Get(call="kernel:module", limit=2.0, only="linux")),
    ("services", Get(call="kernel:services", limit=2.0, only="linux")),
)
# Lines of the machine's state that are of the agent itself, or of one moment.
NOT_ASKED = ("holder", "variable", "today", "shm", "mps", "devices_denied")


def asked(machine: Live) -> tuple[Evidence, ...]:
    """What the machine tells of itself, apart from what is the agent's own or of a moment."""
    found: list[Evidence] = []
    for kind, get in QUESTIONS:
        if get.only in ("", machine.system):
            found += [item for item in ask(machine, kind, get) if item.text]
    return tuple(_steady(item) if item.kind == "machine-state" else item for item in found)


def _steady(item: Evidence) -> Evidence:
    lines = [line for line in item.text.splitlines() if json.loads(line).get("name") not in NOT_ASKED]
    return Evidence(item.kind, "\n".join(lines), item.origin, item.command, item.problem)
