import pytest

from ongpu.hosts.pasted import read_text
from ongpu.model import Evidence

TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  Tesla T4                       Off |   00000000:00:1E.0 Off |                    0 |
"""


def lines(text: str) -> list[tuple[int, str]]:
    return [line for item in read_text(text, "x") for line in item.lines()]


def commands(text: str) -> list[str | None]:
    return [item.command for item in read_text(text, "x")]


@pytest.mark.parametrize(
    ("prompt", "command"),
    [
        ("$ nvidia-smi", "nvidia-smi"), ("# nvidia-smi -q", "nvidia-smi -q"), ("> pip list", "pip list"), ("host$ lspci", "lspci"),
        ("ann@box:~/x$ nvidia-smi -L", "nvidia-smi -L"), ("[root@node1 ~]# dmesg", "dmesg"), ("(env) $ pip list", "pip list"),
        ("(base) ann@box:~$ conda list", "conda list"), ("PS C:\\Users\\a> nvidia-smi", "nvidia-smi"),
        ("C:\\Users\\a>nvidia-smi", "nvidia-smi"),
        ("(base) PS C:\\x> pip list", "pip list"), ("root@1f2e:/workspace# nvcc -V", "nvcc -V"), ("sh-5.1# nvidia-smi", "nvidia-smi"),
        ("+ nvidia-smi", "nvidia-smi"), ("In [3]: !nvidia-smi", "nvidia-smi"), ("!pip list", "pip list"), ("%pip list", "pip list"),
        ("➜  ~ nvidia-smi", "nvidia-smi"), ("❯ nvidia-smi", "nvidia-smi"),
    ],
)  # fmt: skip
def test_a_prompt_is_seen(prompt: str, command: str) -> None:
    assert commands(f"{prompt}\nsome output\n") == [command]


@pytest.mark.parametrize(
    "line", ["+ 3 more", "costs 5$ per hour", "# Environment", "> as I said", "100% done", "loss: 0.5 > 0.3"]
)
def test_prose_is_no_prompt(line: str) -> None:
    assert commands(f"before\n{line}\nafter\n") == [None]


PREFIXES = [
    "> ",
    "Oct 04 13:19:39 host train[394]: ",
    "2026-10-04T13:19:39.123456789Z ",
    "trainer-1  | ",
    "[pod/a-b/c] ",
    "[rank0]:",
    "(RayWorker pid=1) ",
    "0: ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_table_below_a_prefix_is_laid_bare(prefix: str) -> None:
    text = "x\n" + "".join(f"{prefix}{line}\n" for line in TABLE.splitlines())
    assert lines(text)[1:] == list(enumerate(TABLE.splitlines(), 2))


def test_line_numbers_of_cat_n() -> None:
    rows = [f"line {i}" for i in range(6)]
    assert lines("".join(f"{i:6}\t{row}\n" for i, row in enumerate(rows, 1))) == list(enumerate(rows, 1))


def test_crossed_ranks_are_put_in_order_and_keep_their_numbers() -> None:
    rows = TABLE.splitlines()
    text = "".join(f"[rank0]: {row}\n[rank1]: {row}\n" for row in rows)
    assert [number for number, _ in lines(text)] == [1, 3, 5, 7, 2, 4, 6, 8]


def test_markdown_is_taken_off_and_numbers_stay() -> None:
    text = "<details><summary>log</summary>\n\n```console\n$ nvidia-smi\nout\n```\n</details>\n"
    *_, item = read_text(text, "x")
    assert item.command == "nvidia-smi"
    assert (5, "out") in item.lines()


def test_a_kernel_line_keeps_its_prefix() -> None:
    text = "Oct 04 13:19:39 host kernel: NVRM: Xid (PCI:0000:3b:00): 79\n" + TABLE
    assert lines(text)[0][1].startswith("Oct 04")


def test_progress_bars_share_the_number_of_their_line() -> None:
    assert lines("a\n 1%|x\r 2%|xx\r 3%|xxx\nb\n") == [(1, "a"), (2, " 1%|x"), (2, " 2%|xx"), (2, " 3%|xxx"), (3, "b")]


def test_colours_and_invisible_characters_are_taken_out() -> None:
    assert lines("\x1b[1;31mError\x1b[0m\x1b]0;title\x07:\u200b \xa0x\0\x1b\n\udcff") == [(1, "Error:  x"), (2, "?")]


def test_windows_line_ends_and_those_of_old() -> None:
    assert lines("a\r\r\nb\r\nc") == lines("a\rb\rc") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_bug_report_falls_into_its_sections() -> None:
    bar = "_" * 44
    text = f"""{bar}

Start of NVIDIA bug report log file.
{bar}

*** /proc/driver/nvidia/./version
*** ls: -r--r--r-- 1 root root 0 2026-01-01 /proc/driver/nvidia/./version
NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15
{bar}

/usr/bin/nvidia-smi --query

==============NVSMI LOG==============
"""
    items: list[Evidence] = read_text(text, "x")
    assert [item.command for item in items] == [None, "cat /proc/driver/nvidia/version", "nvidia-smi --query"]
    assert items[1].lines()[4] == (8, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15")


def test_endless_blank_lines_and_lines_are_bounded() -> None:
    assert lines("a\n" + "\n" * 10_000 + "b")[-1] == (10_002, "b")
    assert len(lines("a\n" + "\n" * 10_000 + "b")) < 10
    assert {number for number, _ in lines("x" * 100_000)} == {1}
    assert max(len(text) for _, text in lines("word " * 50_000)) <= 4000
