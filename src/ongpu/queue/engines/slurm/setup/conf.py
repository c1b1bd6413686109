"""Slurm's configuration files, read as Slurm reads them: names without case, '#' comments, lines that go on with a backslash. Pure.

https://slurm.schedmd.com/slurm.conf.html: a name given twice counts by its last value; NodeName=DEFAULT and PartitionName=DEFAULT set
what the lines after them begin with.
"""

import re
from collections.abc import Iterator, Mapping

from ongpu.lazy import dataclass, lazy

MOST = 1 << 20  # bytes of a file
NAMES = ("slurm.conf", "gres.conf", "cgroup.conf")
_PAIR = lazy(r"([A-Za-z][A-Za-z0-9_:]{0,60})\s{0,8}[+-]?=\s{0,8}(\"[^\"]{0,4000}\"|\S{0,8000})")
_INCLUDE = lazy(r"include\s{1,20}(\S{1,1000})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: where it stands ("slurm.conf:12"), and its NAME=value pairs, names in small letters."""

    place: str
    pairs: Mapping[str, str]
    first: str  # the name of the first pair, in small letters
    text: str


@dataclass(frozen=True, slots=True)
class Conf:
    """The lines of one file and of those that it includes. there: whether there was such a file at all."""

    lines: tuple[Line, ...] = ()
    name: str = ""
    there: bool = True

    def get(self, name: str, default: str = "") -> str:
        """The value that counts."""
        found = self.find(name)
        return found.pairs[name.lower()] if found else default

    def find(self, name: str) -> Line | None:
        """The line that counts, of those that are not about nodes or partitions."""
        low = name.lower()
        return next((line for line in reversed(self.lines) if low in line.pairs and line.first not in ("nodename", "partitionname")), None)

    def place(self, name: str) -> str:
        """Where it stands, or would."""
        found = self.find(name)
        return found.place if found else self.name

    def words(self, name: str) -> tuple[str, ...]:
        """Of a list with commas."""
        return tuple(word.strip() for word in self.get(name).strip('"').split(",") if word.strip())

    def all(self, name: str) -> Iterator[Line]:
        """Lines that begin with that name, with what DEFAULT lines gave before them; those themselves are left out."""
        low = name.lower()
        base: dict[str, str] = {}
        for line in self.lines:
            if line.first != low:
                continue
            if line.pairs[low].upper() == "DEFAULT":
                base = {**base, **line.pairs}
            else:
                yield Line(line.place, {**base, **line.pairs}, low, line.text)

    def off(self, name: str) -> bool:
        """Whether it is not set, or to nothing."""
        return self.get(name).strip('"').lower() in ("", "none", "no", "0", "(null)")


def read(text: str, name: str, included: Mapping[str, str] | None = None) -> Conf:
    """A file's text. included: the texts of the files that it may include, by the words after Include."""
    found: list[Line] = []
    _into(found, text[:MOST], name, included or {}, 0)
    return Conf(tuple(found), name)


def includes(text: str) -> list[str]:
    """The files that it includes, as written; at most 32."""
    return [match[1] for line in text[:MOST].splitlines() if (match := _INCLUDE.match(line.strip()))][:32]


def _into(found: list[Line], text: str, name: str, included: Mapping[str, str], deep: int) -> None:
    whole, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(?<!\\)#.*", "", raw[:65_536]).rstrip()
        start = start or number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        line, whole = (whole + line).strip(), ""
        if match := _INCLUDE.match(line):
            if deep < 4 and match[1] in included:
                _into(found, included[match[1]], match[1], included, deep + 1)
        elif line:
            pairs = [(one[1].lower(), one[2].strip('"')) for one in _PAIR.finditer(line)]
            if pairs:
                found.append(Line(f"{name}:{start}", dict(pairs), pairs[0][0], line))
        start = 0


def running(text: str) -> Conf:
    """Of `scontrol show config`: what slurmctld goes by, with its defaults."""
    found = []
    for line in text.splitlines():
        name, mark, value = line.partition(" = ")
        if mark and re.fullmatch(r"[A-Za-z][\w\[\]]{1,60}\s{0,40}", name):
            plain = re.sub(r"\[\d+\]", "", name.strip())
            told = "" if value.strip() in ("(null)", "(null type)") else value.strip()
            found.append(
                Line("scontrol show config", {plain.lower(): re.sub(r" (?:sec|min|usec)$", "", told)}, plain.lower(), line.strip())
            )
    return Conf(tuple(found), "scontrol show config")
