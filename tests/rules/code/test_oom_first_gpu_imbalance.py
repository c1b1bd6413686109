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
