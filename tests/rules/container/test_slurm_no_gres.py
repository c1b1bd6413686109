
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
