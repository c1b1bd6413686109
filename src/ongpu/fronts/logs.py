"""`ongpu logs ID`: what a job wrote; bytes as they are, and on a terminal nothing that it would obey but colours."""

import argparse
import codecs
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ongpu.fronts.answer import add_language, complain, say
from ongpu.fronts.outputs import cut, last_lines
from ongpu.fronts.queued import add_engine, add_ids, guarded, known, opened, tell

if TYPE_CHECKING:
    from ongpu.queue.engines import Engine

MOST_TAIL = 16 << 20  # bytes that --tail keeps at most: one line may be endless
HELD_BACK = 256  # characters of an unfinished control sequence that wait for their end
# ECMA-48: CSI parameters intermediates final; OSC, DCS, PM, APC and SOS run to BEL or ST
_SEQUENCE = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[ -/]{1,4}[0-~]|\x1b[=>78cDEHMNOZ]")
_BEGUN = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]{0,4})\Z")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}[mK]")  # and to clear the rest of a line, as progress bars do
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_ids(parser, "+", ("whose output; of an array: ID[INDEX]", "要看哪个作业；数组中的作业写作 编号[序号]"))
    parser.add_argument("-f", "--follow", action="store_true", help=say("until the job ends", "持续输出，直到作业结束"))
    parser.add_argument("--attempt", type=int, default=None, metavar="N", help=say("of that run of it (default: the last)", "第几次运行的输出（默认最后一次）"))
    parser.add_argument("--tail", type=int, default=None, metavar="N", help=say("only the last N lines", "只看最后 N 行"))
    add_engine(parser)
    add_language(parser)
    parser.set_defaults(run=guarded(run))


def run(options: argparse.Namespace) -> int:
    """Print it; 0, or 1 where there is no such job, or an output is gone."""
    if options.tail is not None and options.tail < 0:
        return complain("--tail: a number of lines", "--tail：应为行数")
    if options.attempt is not None and options.attempt < 1:
        return complain("--attempt: from 1", "--attempt：从 1 开始")
    from ongpu.queue.engines import EngineError
    from ongpu.queue.job import OVER

    _, engine = opened(options)
    jobs = known(engine, options.ids)
    if options.follow and len(jobs) > 1:
        return complain(f"-f: one job, not {len(jobs)}", f"-f：只能跟踪一个作业，这里有 {len(jobs)} 个")
    code = 0
    for job in jobs:
        if len(jobs) > 1:
            _say(f"==> {job.id} <==\n")
        if job.state in ("waiting", "held") and not job.attempts and not options.follow:
            print("ongpu: " + say(f"job {job.id} has not started", f"作业 {job.id} 尚未开始"), file=sys.stderr)
            continue
        if job.state in OVER and not job.attempts and job.started is None:
            print("ongpu: " + say(f"job {job.id} never started", f"作业 {job.id} 从未开始运行"), file=sys.stderr)
            continue
        try:
            _print(_pieces(engine, job.id, options))
        except EngineError as error:
            if len(jobs) == 1:
                raise
            tell(error.english, error.chinese)  # the others' can be read
            code = error.code
    return code


def _pieces(engine: "Engine", job: str, options: argparse.Namespace) -> Iterable[bytes]:
    if options.tail is not None and not options.follow:
        return [last_lines(engine, job, options.tail, MOST_TAIL, options.attempt)]
    pieces = engine.output(job, follow=options.follow, attempt=options.attempt)
    return _last(pieces, options.tail) if options.tail is not None else pieces


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _print(pieces: Iterable[bytes]) -> None:
    """To standard output: as they are; harmless where it is a terminal."""
    out = sys.stdout.fileno()
    sys.stdout.flush()
    for piece in harmless(pieces) if os.isatty(out) else pieces:
        while piece:
            piece = piece[os.write(out, piece) :]


def _last(pieces: Iterable[bytes], lines: int) -> Iterator[bytes]:
    """The last lines of what is there, then what follows. An empty piece says that nothing is new."""
    kept: deque[bytes] = deque()
    count = size = 0
    feed = iter(pieces)
    for piece in feed:
        if not piece:
            break
        kept.append(piece)
        count, size = count + piece.count(b"\n"), size + len(piece)
        while len(kept) > 1 and (size - len(kept[0]) >= MOST_TAIL or count - kept[0].count(b"\n") > lines):
            first = kept.popleft()
            count, size = count - first.count(b"\n"), size - len(first)
    yield cut(b"".join(kept), lines)
    yield from feed


def harmless(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same for a terminal: colours, line ends and "clear the line" pass; other control sequences are left out, and single
    control characters are shown as ^X. What is no UTF-8 is replaced: a byte above 0x7f may be a control character too."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        text = rest + decoder.decode(piece)
        begun = _BEGUN.search(text, max(0, len(text) - HELD_BACK))
        rest = text[begun.start() :] if begun else ""
        if clean := _clean(text[: begun.start()] if begun else text):
            yield clean.encode("utf-8", "replace")
    if last := _clean(rest + decoder.decode(b"", final=True)):
        yield last.encode("utf-8", "replace")


def _clean(text: str) -> str:
    parts, place = [], 0
    for found in _SEQUENCE.finditer(text) if "\x1b" in text else ():
        parts += [_CONTROL.sub(_caret, text[place : found.start()]), found[0] if _COLOUR.fullmatch(found[0]) else ""]
        place = found.end()
    return "".join((*parts, _CONTROL.sub(_caret, text[place:])))


def _caret(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return "^" + chr(code ^ 64) if code < 128 else "\ufffd"
