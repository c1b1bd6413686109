"""Files are found, decoded as Python would, edited by place, and written back whole."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.hosts import source_files
from ongpu.hosts.source_files import edited, of_bytes, read, repaired, walk, write
from ongpu.model import Edit


def test_walk_passes_by_what_is_not_the_users(tmp_path: Path) -> None:
    for name in ("a.py", "b.ipynb", "c.txt", ".venv/x.py", "sub/d.py", "sub/__pycache__/d.py", "skip/e.py", "build/f.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    assert [p.relative_to(tmp_path).as_posix() for p in walk([tmp_path], ["skip"])] == ["a.py", "b.ipynb", "sub/d.py"]
    named = list(walk([tmp_path / ".venv" / "x.py", tmp_path / "c.txt"]))
    assert len(named) == 2  # what a user names is read, whatever it is called


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        ("# -*- coding: gbk -*-\ns = '显存'\n".encode("gbk"), "# -*- coding: gbk -*-\ns = '显存'\n"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
    ],
)
def test_decoded_as_python_would(data: bytes, text: str) -> None:
    assert of_bytes(Path("a.py"), data).evidence.text == text


@pytest.mark.parametrize("data", [b"\xff\xfe\x00\x01", b"# coding: nothing\n", "# 显存".encode("gbk")])
def test_what_is_no_text_says_why(data: bytes) -> None:
    item = of_bytes(Path("a.py"), data).evidence
    assert item.text == ""
    assert "not readable as text" in (item.problem or "")


def test_too_long_and_unreadable_files_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "big.py").write_text("x = 1\n" * 100)
    monkeypatch.setattr(source_files, "MAX_BYTES", 10)
    assert "larger than" in (read(tmp_path / "big.py").evidence.problem or "")
    assert read(tmp_path / "gone.py").evidence.problem


def test_edits_are_made_from_the_end_and_the_first_of_two_that_overlap_wins() -> None:
    edits = [Edit("a", 1, 0, 1, 1, "uu"), Edit("a", 2, 4, 2, 5, "9"), Edit("a", 2, 4, 2, 5, "8"), Edit("a", 1, 5, 1, 5, "  # why")]
    assert edited("x = 1\ny = 2", edits) == "uu = 1  # why\ny = 8"


@given(st.text(alphabet="ab\n é显", max_size=30), st.data())
def test_one_edit_changes_only_its_place(text: str, data: st.DataObject) -> None:
    lines = text.split("\n")
    line = data.draw(st.integers(1, len(lines)))
    column = data.draw(st.integers(0, len(lines[line - 1])))
    new = edited(text, [Edit("a", line, column, line, column, "+")])
    assert new.split("\n")[line - 1] == lines[line - 1][:column] + "+" + lines[line - 1][column:]
    assert len(new) == len(text) + 1


def test_a_repair_that_breaks_the_program_is_not_made() -> None:
    file = of_bytes(Path("a.py"), b"x = f(1)\n")
    assert repaired(file, [Edit("a.py", 1, 4, 1, 5, "(")]) is None
    assert repaired(file, [Edit("a.py", 1, 4, 1, 5, "g")]) == "x = g(1)\n"


def test_a_notebook_is_repaired_in_its_cell() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# title\n"]},
        {"cell_type": "code", "source": ["import torch\n", "x = torch.cuda.is_available\n"], "outputs": [], "metadata": {}},
    ]
    data = json.dumps({"cells": cells, "nbformat": 4, "metadata": {"kernelspec": {"name": "日本"}}}).encode()
    new = repaired(of_bytes(Path("n.ipynb"), data), [Edit("n.ipynb:cell 2", 2, 27, 2, 27, "()")])
    assert new is not None
    after = json.loads(new)
    assert after["cells"][1]["source"] == ["import torch\n", "x = torch.cuda.is_available()\n"]
    assert after["metadata"]["kernelspec"]["name"] == "日本"


def test_writing_keeps_newlines_encoding_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("# coding: gbk\r\ns = '显存'\r\n".encode("gbk"))
    path.chmod(0o754)
    link = tmp_path / "link.py"
    link.symlink_to(path)
    write(read(link), read(link).evidence.text.replace("s =", "t ="))
    assert path.read_bytes() == "# coding: gbk\r\nt = '显存'\r\n".encode("gbk")
    assert path.stat().st_mode & 0o777 == 0o754
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["a.py", "link.py"]
