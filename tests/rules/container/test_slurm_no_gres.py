# ruff: noqa: E501  printed lines stand in one piece

import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        'CUDA_VISIBLE_DEVICES=NoDevFiles\n',
        '#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --cpus-per-task=4\npython train.py\n\nRuntimeError: No CUDA GPUs are available',
        '$ srun --pty bash\n$ nvidia-smi\nNo devices were found\n',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "slurm-no-gres"


@pytest.mark.parametrize(
    "text",
    [
        '#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n\nRuntimeError: No CUDA GPUs are available',
        '#!/bin/bash\n#SBATCH -G 2\npython train.py\n',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "slurm-no-gres" not in slugs(text)


def test_only_the_step_is_without_gpu() -> None:
    job = '#!/bin/bash\n#SBATCH {}\npython -c "import torch; print(torch.cuda.is_available())"\nsrun python -c "import torch; print(torch.cuda.is_available())"\n\n'
    assert slugs(job.format("--constraint=gpu") + "True\nFalse\n") == ["slurm-no-gres"]
    assert slugs(job.format("--constraint=gpu") + "True\nTrue\n") == []
    assert "slurm-no-gres" not in slugs(job.format("--gres=gpu:1") + "True\nFalse\n")
