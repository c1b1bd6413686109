import pytest

from ongpu.knowledge.gpu_programs import kind


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/opt/conda/bin/python -m ipykernel_launcher -f /run/user/1/jupyter/kernel-1.json", "notebook"),
        ("python3 -m vllm.entrypoints.openai.api_server --model a", "server"),
        ("/usr/bin/ollama runner --model /root/.ollama/models/blobs/sha256-1", "server"),
        ("VLLM::EngineCore", "server"),
        ("tritonserver --model-repository=/models", "server"),
        ("python -m debugpy --listen 5678 train.py", "debugger"),
        ("python -m debugpy --listen 5678 -m ipykernel_launcher", "debugger"),
        ("uv run python -u -m sglang.launch_server --port 1", "server"),
        ("ray::ServeReplica:app", "server"),
        ("/home/a/.local/bin/uvicorn app:app", "server"),
        ("python train.py --data /data/rcsb_pdb --cache pdb", None),
        ("python /home/jupyter/train.py", None),
        ("python pdb_dataset.py", None),
        ("python train.py --server vllm", None),
        ("python train.py", None),
        ("torchrun --nproc-per-node 8 train.py", None),
        ("", None),
        (None, None),
    ],
)
def test_kind(command: str | None, expected: str | None) -> None:
    assert kind(command) == expected
