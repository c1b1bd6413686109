import json

import pytest
from fronts_run import ongpu

from ongpu.report.layout import width_of


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


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("torch", "--driver", "abc"), "abc"),
        (("torch", "--driver", "12.4"), "CUDA version"),
        (("torch", "==99"), "no such release"),
        (("cupy", "==99"), "no such release"),
        (("jax", "==9.0"), "no such release"),
        (("torch", ">=2.5"), "exact version"),
        (("driver", "--cuda", "new"), "--cuda"),
    ],
)
def test_a_version_that_is_none(arguments: tuple[str, ...], word: str) -> None:
    done = ongpu("pick", *arguments, "--gpu", "8.6", "--python", "3.12")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert word in done.stderr
    assert "--lang" not in done.stderr
    chinese = ongpu("pick", *arguments, "--gpu", "8.6", "--python", "3.12", "--lang", "zh")
    assert any("\u4e00" <= char <= "\u9fff" for char in chinese.stderr)


def test_another_system_is_not_told_this_machines_driver() -> None:
    done = ongpu("pick", "torch", "--platform", "macos_arm64", "--python", "3.12")
    assert done.returncode == 0
    assert "driver" not in done.stdout
    windows = ongpu("pick", "driver", "--platform", "windows_x86_64", "--gpu", "8.6")
    assert "apt" not in windows.stdout
    assert ongpu("pick", "driver", "--platform", "macos_arm64").returncode == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_only_commands_are_longer_than_a_terminal(lang: str) -> None:
    for framework, card, driver in (("torch", "K80", "470"), ("ctranslate2", "8.6", "535"), ("tensorflow", "12.0", "570")):
        done = ongpu("pick", framework, "--gpu", card, "--driver", driver, "--python", "3.12", "--lang", lang, "--all")
        whole = ("pip ", "$ ", "https:")  # what is copied, or clicked, stays in one piece
        assert all(width_of(line) <= 80 or line.lstrip().startswith(whole) for line in done.stdout.splitlines()), done.stdout
