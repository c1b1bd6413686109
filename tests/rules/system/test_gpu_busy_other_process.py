from typing import Any

import pytest
from asking import slugs
from parts.trends import gpu, process, report

from ongpu.model import Severity


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n"
        "|   0  Tesla P100-SXM2...  Off  | 00000000:05:00.0 Off |                    0 |\n"
        "| N/A   36C    P0    41W / 300W |  12799MiB / 16280MiB |      0%      Default |\n"
        "| Processes:  |\n"
        "|    0     31794      C   python                                     12700MiB |",
        "1   56752 C     N/A 32.34GiB 100   N/A   N/A      N/A  No Such Process\nbash: kill: (56752) - "
        "No such process",
        "ValueError: Free memory on device (2.1/23.6 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 21.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
    ],
)
def test_found(text: str) -> None:
    assert "gpu-busy-other-process" in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        "|   0  Tesla P100-SXM2...  Off  | 00000000:05:00.0 Off |                    0 |\n"
        "| N/A   36C    P0    41W / 300W |  12799MiB / 16280MiB |      0%      Default |\n"
        "| Processes:  |\n"
        "|    0     31794      C   python                                     12700MiB |",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "gpu-busy-other-process" not in slugs(text)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([gpu(mem=80_000), process(mem=70_000), process(5, mem=8_000, user="bob")], ["full"]),
        ([gpu(mem=80_000), process(mem=70_000, job="slurm:1"), process(5, mem=8_000, job="slurm:2")], ["full"]),
        ([gpu(mem=80_000), process(mem=70_000), process(5, mem=8_000)], []),
        ([gpu(mem=60_000), process(mem=50_000), process(5, mem=8_000, user="bob")], []),
        ([gpu(mem=80_000), process(mem=40_000), process(5, mem=38_000, user="bob")], []),
        ([gpu(mem=80_000), process(mem=79_000)], []),
    ],
)
def test_a_full_card_with_two_owners_is_noted(rows: list[dict[str, Any]], expected: list[str]) -> None:
    found = [f for f in report(*rows).findings if f.slug == "gpu-busy-other-process"]
    assert [f.variant for f in found] == expected
    assert all(f.weight is Severity.NOTE and f.refs for f in found)
