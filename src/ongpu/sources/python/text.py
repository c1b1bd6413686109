"""The syntax tree of a text, whatever the text: notebooks, magics, other encodings, hostile nesting."""

import ast
import json
import re
import warnings

from ongpu.facts.source_text import File, parses
from ongpu.knowledge.program_words import WORDS
from ongpu.lazy import lazy

MAX_TEXT = 4 << 20  # characters; the longest file of torch 2.13 has 1.3 million
_WORD = lazy("|".join(sorted(WORDS)))
_MAGIC = lazy(r"^(?P<indent>[ \t]{0,80})(?P<rest>[%!?][^\n]*|[A-Za-z_][\w.]{0,80}\?{1,2}[ \t]*)$", re.MULTILINE)
_TOLD = lazy(r"#(?!#)[^\n]{0,200}?(?:[A-Za-z]{3,30}Error: |CUDA error: |Traceback \(most|CUDA out of memory|报错)")
_CELL_MAGIC = lazy(r"^%%(?!time\b|timeit\b|capture\b|prun\b)\w")


class NotPython(ValueError):
    """Why a text cannot be followed, in one line."""


def concerns(text: str) -> bool:
    """Whether any word of a GPU framework stands in it; texts without one cost nothing more."""
    return _WORD.search(text) is not None


def is_program(text: str) -> bool:
    """Whether a text is the source of a program and nothing else: no output of it, and no error in a comment. Its words are code then, and
    say nothing of what happened: `device = torch.device("cpu")`, a setting's help, a docstring that speaks of shutdown."""
    if not concerns(text) or len(text) > MAX_TEXT or _TOLD.search(text) is not None:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    bare = [s.value for s in tree.body[1:] if isinstance(s, ast.Expr) and not any(isinstance(n, ast.Call | ast.Await) for n in ast.walk(s))]
    printed = any(not (isinstance(value, ast.Constant) and "\n" in str(value.value)) for value in bare)  # False, 0.4, x
    whole = any(isinstance(s, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef) for s in tree.body)
    return whole and not printed and any(isinstance(s, ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.With | ast.If | ast.Try) for s in tree.body)


def parse(name: str, text: str) -> tuple[File, ast.Module]:
    """The file and its tree. NotPython where there is none."""
    if len(text) > MAX_TEXT:
        raise NotPython(f"{len(text)} characters of Python: too long to follow (the limit is {MAX_TEXT})")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.removeprefix("\ufeff").replace("\x0c", " ")
    if is_notebook(text):
        return _notebook(name, text)
    return _parsed(File(name, text))


def is_notebook(text: str) -> bool:
    """Whether it is a Jupyter notebook's JSON."""
    return text[:200].lstrip().startswith("{") and '"cells"' in text


def _parsed(file: File) -> tuple[File, ast.Module]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return file, ast.parse(file.text)
    except SyntaxError as error:
        if _MAGIC.search(file.text):
            bare = File(file.name, _MAGIC.sub(r"\g<indent>pass", file.text)).cells(file._ranges)
            if bare.text != file.text:
                return _parsed(bare)
        raise NotPython(f"line {error.lineno or '?'}: not Python 3: {str(error.msg)[:120]}") from None
    except (RecursionError, MemoryError):
        raise NotPython("nested too deeply to follow") from None
    except (ValueError, UnicodeError) as error:
        raise NotPython(f"not Python source: {str(error)[:120]}") from None


def _notebook(name: str, text: str) -> tuple[File, ast.Module]:
    """All code cells as one text; a cell of another language (%%bash) is left out, magics do nothing."""
    try:
        cells = json.loads(text)["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotPython("not a notebook that can be read") from None
    parts: list[str] = []
    ranges: list[tuple[int, str]] = []
    line = 1
    for number, cell in enumerate(cells if isinstance(cells, list) else (), start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        words = "".join(map(str, source)) if isinstance(source, list) else str(source)
        words = words.replace("\r\n", "\n").replace("\r", "\n")
        if _CELL_MAGIC.match(words):
            continue
        if not parses(words):
            words = _MAGIC.sub(r"\g<indent>pass", words)
            if not parses(words):
                continue  # a cell that does not run is not judged
        ranges.append((line, f"{name}:cell {number}"))
        parts.append(words)
        line += words.count("\n") + 1
    if not parts:
        raise NotPython("a notebook without code")
    return _parsed(File(name, "\n".join(parts)).cells(ranges))
