import json

import pytest
from fronts_run import ongpu


def test_the_example_of_the_readme() -> None:
    done = ongpu("pick", "torch", "--gpu", "RTX 5090", "--driver", "570", "--python", "3.12")
    assert done.returncode == 0
    assert "--index-url https://download.pytorch.org/whl/cu12" in done.stdout.splitlines()[0]
    assert "580.65.06" in done.stdout


def test_json() -> None:
    done = ongpu("pick", "jax", "--gpu", "8.0", "--driver", "535.183.01", "--python", "3.12", "--format", "json")
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    assert "cuda12" in answer["chosen"]["install"]


@pytest.mark.parametrize("arguments", [("caffe",), ("torch", "--gpu", "no such card")])
def test_bad_usage_is_one_line(arguments: tuple[str, ...]) -> None:
    done = ongpu("pick", *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_driver_in_chinese() -> None:
    done = ongpu("pick", "driver", "--gpu", "GTX 1080", "--distribution", "ubuntu", "--lang", "zh")
    assert "驱动分支 580" in done.stdout
    assert "ubuntu-drivers install nvidia:580" in done.stdout


@pytest.mark.parametrize("driver", ["525.60", "470"])
def test_only_one_build_is_what_plain_pip_brings(driver: str) -> None:
    done = ongpu("pick", "torch", "--gpu", "RTX 3090", "--driver", driver, "--python", "3.11", "--all")
    assert done.stdout.count("plain `pip install`") == 1
    assert "plain `pip install`" in next(line for line in done.stdout.splitlines() if line.startswith("    torch"))
