
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts import pasted
from ongpu.model import Evidence, Fact
from ongpu.sources import slurm as MODULE

SEED = '#SBATCH --gres='


def facts(text: str) -> list[Fact]:
    return [fact for item in pasted.read_text(text, "paste") if MODULE.looks_like(item) for fact in MODULE.read(item)]


def test_a_script() -> None:
    found = facts("#!/bin/bash\n#SBATCH -p gpu\n#SBATCH --cpus-per-task=4\nsrun python t.py\n")[0]
    assert (found.gres, found.partition, found.system) == ("", "gpu", "slurm")  # type: ignore[attr-defined]
    assert facts("#SBATCH --gres=gpu:a100:2\n")[0].gres == "gpu:a100:2"  # type: ignore[attr-defined]
    assert facts("#PBS -l select=1:ncpus=4:ngpus=1\n")[0].gres  # type: ignore[attr-defined]


def test_a_line() -> None:
    assert facts("$ srun --gres=gpu:1 --pty bash")[0].gres == "gpu:1"  # type: ignore[attr-defined]
    assert facts("$ srun --pty bash")[0].gres == ""  # type: ignore[attr-defined]


def test_what_the_job_got() -> None:
    assert facts("JobId=1 JobName=x\n   TRES=cpu=4,mem=16G,node=1\n")[0].allocated == "cpu=4,mem=16G,node=1"  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=400))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", SEED + text, "x", command=text[:80] or None)
    if MODULE.looks_like(evidence):
        list(MODULE.read(evidence))
