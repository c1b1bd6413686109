"""Install commands of pip, uv, conda and poetry, and what they printed."""

import re
import shlex
from collections.abc import Iterable, Iterator

from ongpu.facts.framework import Python
from ongpu.facts.installs import Install, Installs
from ongpu.lazy import lazy
from ongpu.model import Evidence, Fact, Source

_COMMAND = lazy(
    r"(?:^|(?<=[\s`>$&|;(!%\"']))(?P<tool>(?:python[\d.]*(?:\.exe)?|py)(?: -\S+)? -m pip|"
    r"(?:[\w./\\:\-]+[/\\])?pip[\d.]*(?:\.exe)?|(?:uv )pip|uv|conda|mamba|micromamba|poetry|pixi)"
    r"(?P<pre>(?: --?[\w\-]+)*) (?P<verb>install|add|create|sync|update)\b(?P<rest>(?:[^\n`]|\\\n|`\n)*)",
    re.MULTILINE,
)
_DONE = lazy(r"Successfully installed (?P<items>[^\n]+)")
_REFUSED = lazy(
    r"Could not find a version that satisfies the requirement (?P<what>[^\s(]+)[^\n(]*\(from versions: "
    r"(?P<versions>[^)]*)\)"
    r"|Could not find a version that satisfies the requirement (?P<what12>[^\s(]+)(?![^\n]*\(from versions)"
    r"|No matching distribution found for (?P<what2>\S+)"
    r"|Because (?:there is no version of |only [^\n]{0,60}|)(?P<what3>[\w\-]+(?:==[\w.+]+)?)[^\n]{0,80}has no "
    r"(?:wheels|`?\w*` ?-?compatible)[^\n]{0,200}"
    r"|(?P<what5>[\w\-]+==[\w.+]+) has no wheels with a matching Python[^\n]{0,200}"
    r"|Because (?P<what13>[\w\-]+(?:==[\w.+]+)?) has no (?:usable )?wheels[^\n]{0,200}"
    r"|Distribution `(?P<what7>[\w\-]+==[\w.+]+) @ [^`]*` can't be installed because it doesn't have a source distribution or wheel"
    r"|`(?P<what8>[\w\-]+)` \(v(?P<v8>[\w.+]+)\) only has wheels (?:for|with) the following Python"
    r"|^\s*- (?P<what9>(?:pytorch|tensorflow(?:-gpu)?|jaxlib|cudatoolkit|torchvision)[=<>\d.*a-z_]*) -> python\["
    r"|Unable to find installation candidates for (?P<what11>[\w\-]+) \((?P<v11>[\w.+]+)\)"
    r"|(?P<what10>[\w\-]+==[\w.+]+) depends on Python[^\n]{0,80}"
    r"|only found wheels for `(?P<what6>[\w\-]+)` \(v(?P<v6>[\w.+]+)\) with the following (?:Python|"
    r"platform)[^\n]{0,30}"
    r"|(?P<what4>[\w\-.]+[=<>~!]*[\d.]*[^\n]{0,40}) is not a supported wheel on this platform",
    re.MULTILINE,
)
_INDEXES = lazy(r"Looking in (?:indexes|links): (?P<urls>[^\n]+)")
_REMOVED = lazy(
    r"(?:Attempting uninstall: (?P<name>[\w.\-]+)[\s\S]{0,40}?)?Found existing installation: "
    r"(?P<old>[\w.\-]+) (?P<version>\S+)|^[ \t]*- (?P<uvname>[\w.\-]+)==(?P<uvversion>\S+)",
    re.MULTILINE,
)
_ADDED = lazy(r"^[ \t]*\+ (?P<name>[\w.\-]+)==(?P<version>\S+)", re.MULTILINE)
_TAKES = (
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "-c",
    "--channel",
    "--index",
    "--default-index",
    "-n",
    "--name",
    "-p",
    "--prefix",
    "--python",
    "-r",
    "--torch-backend",
    "--target",
    "-t",
    "--constraint",
    "--global-option",
    "--config-settings",
    "-C",
    "--upgrade-strategy",
    "--only-binary",
    "--no-binary",
    "--progress-bar",
    "--cache-dir",
    "--trusted-host",
)
_INDEX_OPTIONS = (
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "-c",
    "--channel",
    "--index",
    "--default-index",
)
MAX_TEXT = 400_000


def _split(text: str) -> list[str]:
    text = re.split(r"\s(?:&&|\|\||;|\||#|>)\s|;\s*$|(?<=\S);", text.replace("\\\n", " ").replace("`\n", " "))[0]
    try:
        return shlex.split(text, posix=True)
    except ValueError:
        return text.replace('"', "").replace("'", "").split()


def _commands(evidence: Evidence, text: str) -> Iterator[Install]:
    for match in _COMMAND.finditer(text):
        words = _split(match["rest"])
        asked: list[str] = []
        indexes: list[str] = []
        options: list[str] = []
        at = 0
        while at < len(words):
            word = words[at]
            name, _, value = word.partition("=")
            if word.startswith("-"):
                if name in _TAKES and not value:
                    value = words[at + 1] if at + 1 < len(words) else ""
                    at += 1
                if name in _INDEX_OPTIONS and value:
                    indexes.append(value)
                options.append(name if not value or name in _INDEX_OPTIONS else f"{name}={value}")
            elif re.match(r"[A-Za-z.][\w.\-\[\],:+=<>~!@*/\\]*$", word) and not word.endswith(","):
                if (
                    re.fullmatch(r"[a-z]+", word)
                    and asked
                    and word
                    in (
                        "and",
                        "then",
                        "but",
                        "to",
                        "in",
                        "it",
                        "works",
                        "the",
                        "for",
                        "with",
                        "on",
                        "from",
                        "or",
                        "is",
                        "of",
                    )
                ):
                    break
                asked.append(word.rstrip(".:"))
                if word[-1] in ".:" and word != ".":
                    break  # the sentence ends here
            elif asked:
                break
            at += 1
        tool = (
            "conda"
            if re.search(r"conda|mamba|pixi", match["tool"])
            else "poetry"
            if "poetry" in match["tool"]
            else "uv"
            if match["tool"].startswith("uv")
            else "pip"
        )
        if asked or options:
            yield Install(
                tool=tool,
                asked=tuple(asked),
                indexes=tuple(indexes),
                options=tuple(options),
                ref=evidence.ref_at(match.start("tool")),
            )


def read(evidence: Evidence) -> Iterable[Fact]:
    """Each command, each result."""
    text = evidence.text[:MAX_TEXT]
    found = list(_commands(evidence, text))
    indexes = tuple(url.strip() for match in _INDEXES.finditer(text) for url in match["urls"].split(","))
    refused: dict[str, tuple[tuple[str, ...] | None, int]] = {}
    for match in _REFUSED.finditer(text):
        what = (
            match["what"]
            or match["what2"]
            or match["what3"]
            or match["what4"]
            or match["what5"]
            or match["what7"]
            or (f"{match['what8']}=={match['v8']}" if match["what8"] else None)
            or (match["what9"].replace("=", "==", 1) if match["what9"] and "==" not in match["what9"] else match["what9"])
            or match["what10"]
            or match["what12"]
            or match["what13"]
            or (f"{match['what11']}=={match['v11']}" if match["what11"] else None)
            or f"{match['what6']}=={match['v6']}"
        )
        if what in refused:
            continue
        versions: tuple[str, ...] | None = None
        if "no wheels with a matching Python" in match.group():
            versions = ()  # uv looked through them all: none is for this Python
        elif match["versions"] is not None:
            versions = tuple(v.strip() for v in match["versions"].split(",") if v.strip() and v.strip() != "none")
        refused[what] = (versions, match.start())
    for what, (versions, at) in refused.items():
        found.append(Install(tool="pip", refused=what, versions=versions, indexes=indexes, ref=evidence.ref_at(at)))
    removed = tuple(f"{m['old'] or m['uvname']}-{m['version'] or m['uvversion']}" for m in _REMOVED.finditer(text))
    for match in _DONE.finditer(text):
        found.append(
            Install(
                tool="pip",
                installed=tuple(match["items"].split())[:400],
                removed=removed,
                indexes=indexes,
                ref=evidence.ref_at(match.start()),
            )
        )
    if added := list(_ADDED.finditer(text)):
        found.append(
            Install(
                tool="uv",
                installed=tuple(f"{m['name']}-{m['version']}" for m in added),
                removed=removed,
                indexes=indexes,
                ref=evidence.ref_at(added[0].start()),
            )
        )
    if not found and (removed or indexes):
        first = _REMOVED.search(text) or _INDEXES.search(text)
        if first:
            found.append(Install(tool="pip", removed=removed, indexes=indexes, ref=evidence.ref_at(first.start())))
    if python := re.search(r"You require CPython (?P<v>3\.\d{1,2})", text):
        yield Python(version=python["v"], refs=(evidence.ref_at(python.start(), "version"),))
    if found:
        yield Installs(installs=tuple(found), refs=tuple(item.ref for item in found)[:4])


_LOOK = lazy(
    r"\b(?:install|add|create|sync|installed|uninstall|Looking in|distribution found|supported "
    r"wheel|find a version|has no wheels|found wheels for|only has wheels)\b|installation candidates|-> python\[|can't be installed because"
)
SOURCES = (
    Source(
        kind="install_log",
        read=read,
        looks_like=lambda evidence: bool(_LOOK.search(evidence.text[:MAX_TEXT] + (evidence.command or ""))),
        gives=(Installs, Python),
    ),
)
