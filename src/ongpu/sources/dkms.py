"""`dkms status` and the logs of a module's build."""

import re
from collections.abc import Iterable

from ongpu.facts.driver import Kernel
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

# "nvidia/535.183.01, 6.1.0-18-amd64, x86_64: installed", "nvidia, 470.86, 5.13.0-21-generic, x86_64: installed", "nvidia/550.54: added"
_LINE = lazy(
    r"^[ \t]*(?P<name>nvidia[\w-]{0,30})(?:/|, )(?P<version>\d{2,3}\.[\w.~+-]{1,30})(?:, (?P<kernel>\d[\w.+~-]{2,"
    r"80}))?(?:, (?P<arch>\w{3,10}))?\s*:\s*"
    r"(?P<state>added|built|installed|broken)(?P<rest>[^\n]{0,120})$",
    re.MULTILINE,
)
_HEADERS = lazy(
    r"kernel headers for (?:target )?kernel (?P<a>\S+?)(?: at \S+)? cannot be found|Missing (?P<b>\S+) kernel "
    r"headers for module|"
    r"headers for (?:this|the) kernel (?:\S+ )?do(?:es)? not seem to be installed|linux-headers-(?P<c>[\w.+~-]+) "
    r"(?:package )?(?:is|are) not installed",
    re.IGNORECASE,
)


def read(evidence: Evidence) -> Iterable[Fact]:
    """The modules that DKMS knows, and headers that it missed."""
    lines = list(_LINE.finditer(evidence.text))[:100]
    command = evidence.command or ""
    status = "dkms status" in command or (evidence.kind == "dkms" and not evidence.problem)
    if lines:
        yield Kernel(
            dkms=tuple(match[0].strip() for match in lines), dkms_listed=True if status else None,
            refs=tuple(evidence.ref_at(match.start("name"), "dkms") for match in lines[:4]),
        )
    elif status and "not found" not in evidence.text and "not installed" not in evidence.text:
        others = re.search(r"^\w[\w-]*(?:/|, )\d[^\n]*: (?:added|built|installed)", evidence.text, re.MULTILINE)
        body = evidence.text.split("\n")[1:] if command and command in evidence.text else evidence.text.split("\n")
        if others or not any(line.strip() for line in body):
            yield Kernel(dkms_listed=True, refs=(evidence.ref(evidence.first_line, command or "dkms status", "dkms"),))
    if match := _HEADERS.search(evidence.text):
        yield Kernel(headers=False, refs=(evidence.ref_at(match.start(), "headers"),))


def looks_like(evidence: Evidence) -> bool:
    """Whether DKMS may have printed it."""
    text = evidence.text
    low = text.lower()
    return "dkms" in (evidence.command or "") or "dkms" in low or "kernel headers" in low or ("nvidia" in low and ": installed" in low)


SOURCES = (
    Source(kind="dkms", read=read, looks_like=looks_like, gives=(Kernel,),
           settle="dkms status"),
)
