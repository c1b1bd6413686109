"""The published peaks that the dry run is compared with: each cited, each with a script that is there."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = tomllib.loads((ROOT / "benchmarks" / "published_peaks.toml").read_text("utf-8"))["peak"]
FIELDS = {
    "id",
    "model",
    "what",
    "batch",
    "seq",
    "dtype",
    "optimizer",
    "technique",
    "card",
    "torch",
    "measured_mib",
    "measure",
    "source",
    "quote",
}


def test_rows_are_whole() -> None:
    for row in ROWS:
        assert row.keys() >= FIELDS, row["id"]
        assert row["source"].startswith("https://")
        assert row["measure"] in ("allocated", "reserved", "smi")
        assert 500 < row["measured_mib"] < 90_000
        assert ("script" in row) != ("unusable" in row) or row["id"].startswith("peft-lora-rank32")
        assert row["measure"] != "smi" or row["context_mib"] > 0
    assert len({row["id"] for row in ROWS}) == len(ROWS)


def test_enough_of_them_can_be_repeated() -> None:
    usable = [row for row in ROWS if "unusable" not in row]
    assert len(usable) >= 40
    assert len({row["source"] for row in usable}) >= 6
    for row in usable:
        assert (ROOT / "benchmarks" / "memory" / row["script"].split()[0]).is_file()


def test_figures_are_those_quoted() -> None:
    """GB of 10^9 bytes, GiB or bytes: the quote and the figure agree."""
    for row in ROWS:
        number = float(re.findall(r"\d{1,12}(?:\.\d{1,4})?", row["quote"])[0])
        told = {number, number * 1024, number * 1e9 / 2**20, number / 2**20, number * 1024 + 474.7}
        assert any(abs(row["measured_mib"] - one) <= 0.1 for one in told), row["id"]
