"""The hook that starts a Ray node with the GPUs that the gate passed; tests/live/test_ray.py starts Ray itself with it."""

import json
import subprocess
from pathlib import Path

import pytest

from ongpu.queue import gate

HOOK = Path(gate.__file__).parent / "hooks" / "ray-start.sh"
RAY = '#!/bin/sh\nfor word in "$@" "$CUDA_VISIBLE_DEVICES" "$RAY_JOB_START_TIMEOUT_SECONDS"; do printf "%s\\n" "$word"; done\n'
SMI = "#!/bin/sh\nprintf 'GPU-a\\nGPU-b\\nGPU-c\\n'\n"


def start(folder: Path, gate_: str, smi: str = SMI, **environ: str) -> tuple[list[str], str]:
    """What `ray` was given, and what was said."""
    for name, text in (("ray", RAY), ("nvidia-smi", smi), ("ongpu", f"#!/bin/sh\n{gate_}\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    words = ["sh", str(HOOK), "--head", "--temp-dir", "a b"]
    environ = {"PATH": f"{folder}:/usr/bin:/bin", **environ}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


def resources(words: list[str]) -> dict[str, float]:
    return json.loads(next(word for word in words if word.startswith("--resources=")).partition("=")[2])


@pytest.mark.parametrize(
    ("gate_", "fit"),
    [
        ("exit 0", ["GPU-a", "GPU-b", "GPU-c"]),
        ('case "$*" in *GPU-b*) echo "ecc-uncorrectable: \\"x\\""; exit 1 ;; esac', ["GPU-a", "GPU-c"]),
        ("exit 3", ["GPU-a", "GPU-b", "GPU-c"]),  # the gate itself failed: no verdict
        ("exit 1", ["GPU-a", "GPU-b", "GPU-c"]),  # refused without a word: a failure, too
        ("echo driver-hung: x; exit 1", []),
    ],
)
def test_only_what_passed_is_offered(tmp_path: Path, gate_: str, fit: list[str]) -> None:
    words, said = start(tmp_path, gate_)
    assert words[0] == "start"
    assert f"--num-gpus={len(fit)}" in words
    assert words[-2:] == [",".join(fit), "31536000"]
    assert words[-5:-2] == ["--head", "--temp-dir", "a b"]
    assert resources(words)["ongpu_fit"] == len(fit)
    kept = {key.split(":")[1] for key in resources(words) if key.startswith("ongpu_kept:")}
    assert kept == {"GPU-a", "GPU-b", "GPU-c"} - set(fit)
    assert said.count("kept from Ray") == len(kept)


@pytest.mark.parametrize("smi", ["#!/bin/sh\nexit 9\n", "#!/bin/sh\necho No devices were found\n"])
def test_a_node_without_a_driver_offers_nothing(tmp_path: Path, smi: str) -> None:
    words, _ = start(tmp_path, "exit 0", smi)
    assert "--num-gpus=0" in words


def test_resources_of_ones_own(tmp_path: Path) -> None:
    words, _ = start(tmp_path, "exit 0", ONGPU_RAY_RESOURCES='"disk": 2', RAY_JOB_START_TIMEOUT_SECONDS="60")
    assert resources(words) == {"ongpu_fit": 3, "disk": 2}
    assert words[-1] == "60"


@pytest.mark.parametrize("names", ["0,2", "GPU-a", ""])
def test_only_what_is_allotted_is_offered(tmp_path: Path, names: str) -> None:
    """On a node that is shared, an allocation of Slurm names its GPUs."""
    smi = f"#!/bin/sh\n[ \"$1 $2\" = '-i {names}' ] && [ -n '{names}' ] && echo GPU-c\n"
    words, _ = start(tmp_path, "exit 0", smi, CUDA_VISIBLE_DEVICES=names)
    assert f"--num-gpus={1 if names else 0}" in words
    assert words[-2] == ("GPU-c" if names else "")
