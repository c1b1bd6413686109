import io
import json
import tarfile
from pathlib import Path

import pytest

from ongpu.engine import diagnose
from ongpu.hosts import recorded
from ongpu.model import Evidence

SAID = [
    Evidence("pasted", "Failed to initialize NVML: Driver/library version mismatch", "nvidia-smi", "nvidia-smi"),
    Evidence("nvml", "", "nvml:ask", problem="timed out after 12 s"),
]


def test_a_snapshot_gives_the_same_answer(tmp_path: Path) -> None:
    path = tmp_path / "s.tar.gz"
    recorded.write(SAID, path, "0")
    assert recorded.is_snapshot(path)
    again = recorded.read(path)
    assert again == SAID
    assert [f.slug for f in diagnose(again, "").findings] == [f.slug for f in diagnose(SAID, "").findings]


def _archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    "files",
    [
        {"x": b"1"},
        {recorded.INDEX: b"not json"},
        {recorded.INDEX: b'{"schema": 99, "evidence": []}'},
        {recorded.INDEX: b'{"schema": 1, "evidence": [{}]}'},
        {recorded.INDEX: b"[1]"},
    ],
)
def test_what_is_not_a_snapshot_is_refused_in_one_line(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=r"snapshot|schema"):
        recorded.read(_archive(tmp_path / "s.tar.gz", files))


def test_names_that_climb_are_only_labels(tmp_path: Path) -> None:
    index = {"schema": 1, "evidence": [{"kind": "pasted", "origin": "x", "file": "../../etc/passwd"}]}
    path = _archive(tmp_path / "s.tar.gz", {recorded.INDEX: json.dumps(index).encode(), "../../etc/passwd": b"inside"})
    assert recorded.read(path)[0].text == "inside"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.tar.gz"]


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MAX_BYTES", 1 << 16)
    path = _archive(tmp_path / "s.tar.gz", {recorded.INDEX: b"{}", "evidence/0000.txt": bytes(1 << 20)})
    with pytest.raises(ValueError, match="not read"):
        recorded.read(path)


def test_a_truncated_archive_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.tar.gz"
    recorded.write(SAID, path, "0")
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(ValueError, match="archive"):
        recorded.read(path)
