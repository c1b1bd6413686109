# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "+-----------------------------------------------------------------------------+\n"
        "| Processes:                                                                  |\n"
        "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |\n"
        "|        ID   ID                                                   Usage      |\n"
        "|=============================================================================|\n"
        "|    0   N/A  N/A     21002      C   python                              907MiB |\n"
        "|    0   N/A  N/A     21003      C   python                              907MiB |\n"
        "|    1   N/A  N/A     21002      C   python                            10193MiB |\n"
        "|    2   N/A  N/A     21003      C   python                            10193MiB |\n"
        "+-----------------------------------------------------------------------------+\n",
        "+-----------------------------------------------------------------------------+\n"
        "| Processes:                                                                  |\n"
        "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |\n"
        "|        ID   ID                                                   Usage      |\n"
        "|=============================================================================|\n"
        "|    0   N/A  N/A     13347      C   python                            10505MiB |\n"
        "|    1   N/A  N/A     13347      C   python                             4991MiB |\n"
        "|    2   N/A  N/A     13347      C   python                             4925MiB |\n"
        "+-----------------------------------------------------------------------------+\n",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "oom-first-gpu-imbalance"


@pytest.mark.parametrize(
    "text",
    [
        "+-----------------------------------------------------------------------------+\n"
        "| Processes:                                                                  |\n"
        "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |\n"
        "|        ID   ID                                                   Usage      |\n"
        "|=============================================================================|\n"
        "|    0   N/A  N/A         1      C   python                             9000MiB |\n"
        "|    1   N/A  N/A         2      C   python                             9000MiB |\n"
        "+-----------------------------------------------------------------------------+\n",
    ],
)
def test_neighbours(text: str) -> None:
    assert "oom-first-gpu-imbalance" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        "ResourceExhaustedError: 2 root error(s) found.\n  (0) Resource exhausted: OOM when allocating tensor with shape[16,112,112,147] and type float on"
        " /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        "Out of memory error on GPU 0. Cannot allocate 98.000244MB memory on GPU 0, 6.000000GB memory has been allocated and available memory is only 0.000000B.\n\n"
        "Please check whether there is any other process using GPU 0.",
    ],
)
def test_messages_that_name_the_card_tell_of_no_imbalance(text: str) -> None:
    assert slugs(text)[0] == "oom-batch-too-large"


def test_processes_that_hold_nothing_are_no_guests() -> None:
    rows = "| Processes: |\n|    0   N/A  N/A    331903      C   python     {a}MiB |\n|    0   N/A  N/A    331904      C   python     {b}MiB |\n|    1   N/A  N/A    331903      C   python     0MiB |\n|    1   N/A  N/A    331904      C   python     1717MiB |\n"
    assert not slugs(rows.format(a=1733, b=0))
    assert slugs(rows.format(a=1733, b=725))[0] == "oom-first-gpu-imbalance"
