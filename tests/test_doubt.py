"""Clear is never said of a text that says that the GPU is not used; unknown is told with what would settle it."""

import tomllib
from pathlib import Path

import pytest
from asking import explain

import ongpu.knowledge
from ongpu import doubt
from ongpu.engine import all_rules
from ongpu.facts.container import Container
from ongpu.fronts.answer import EXIT
from ongpu.knowledge import signs
from ongpu.model import Verdict
from ongpu.report import as_html, as_json, as_markdown, as_text

SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.12.01              KMD Version: 610.12.01      CUDA UMD Version: 13.3     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 5090        Off |   00000000:01:00.0 Off |                  N/A |
|  0%   35C    P8             18W /  575W |       1MiB /  32607MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
NOT_USED = {
    "no-gpus": SMI + "RuntimeError: No CUDA GPUs are available",
    "prompt": SMI + ">>> torch.cuda.is_available()\nFalse",
    "cuinit": SMI + "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "printed": SMI + '$ python -c "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"\n'
    "2.9.0+cu130 13.0 False",
    "lightning": "GPU available: False, used: False\nTPU available: False",
    "listed": "$ nvidia-smi -L\nGPU 0: NVIDIA A100 (UUID: GPU-1)\n$ python -c 'import torch; print(torch.cuda.is_available())'\nFalse",
    "tensorflow": "Num GPUs Available: 0\n2024-05-01 I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary",
    "whisper": "UserWarning: FP16 is not supported on CPU; using FP32 instead",
    "collect_env": "PyTorch version: 2.4.0+cu121\nCUDA used to build PyTorch: 12.1\nIs CUDA available: False\n"
    "CUDA runtime version: 12.1.105\nGPU models and configuration: GPU 0: NVIDIA GeForce RTX 4090\nNvidia driver version: 550.54.14",
    "failed": "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.14\nnvidia-persistenced: Started\nERROR: the program gave up",
    "status": "GPU 0: NVIDIA A100 (UUID: GPU-1)\nerror code CUDNN_STATUS_MAPPING_WEIRD",
}


@pytest.mark.parametrize("text", NOT_USED.values(), ids=NOT_USED.keys())
def test_a_text_that_says_that_the_gpu_is_not_used_is_never_clear(text: str) -> None:
    report = explain(text)
    assert report.verdict is not Verdict.CLEAR
    assert EXIT[report.verdict] in (1, 3)
    if report.verdict is Verdict.UNKNOWN:
        assert report.signs
        assert 1 <= len(report.unknown) <= doubt.MOST
        assert all(outcome.settle for outcome in report.unknown)


CLEAR = {
    "nvidia-smi": SMI,
    "true": ">>> torch.cuda.is_available()\nTrue",
    "lightning": "GPU available: True (cuda), used: True\nTPU available: False, using: 0 TPU cores",
    "zero-errors": "    ECC Errors\n        Volatile\n            SRAM Correctable                : 0\n" + SMI,
    "meant": SMI + "GPU available: False, used: False\nThe CPU is used on purpose.",
    "tf-redzone": "Internal: ptxas exited with non-zero error code 65280, output: ptxas fatal   : Value 'sm_86' is not defined\n"
    "Relying on driver to perform ptx compilation.\n"
    "Created TensorFlow device (/job:localhost/replica:0/task:0/device:GPU:0 with 9000 MB memory)",
}


@pytest.mark.parametrize("text", CLEAR.values(), ids=CLEAR.keys())
def test_a_healthy_text_stays_clear(text: str) -> None:
    assert explain(text).verdict is Verdict.CLEAR


def asked(text: str) -> list[str]:
    return [outcome.rule.slug for outcome in explain(text).unknown]


@pytest.mark.parametrize(
    ("text", "first", "command"),
    [
        ("No devices were found", "open-kernel-module-required", "modinfo"),
        ("RuntimeError: No CUDA GPUs are available", "driver-not-installed", "nvidia-smi"),
        ("torch.cuda.is_available() returns False", "cpu-only-build", "torch.version.cuda"),
        ("jaxlib ptxas exited with non-zero error code 65280", "ptx-too-new", "ptxas"),
        ("NCCL Error 2: unhandled system error", "nccl-network-interface", "NCCL_DEBUG"),
        ("RuntimeError: Failed to infer device type", "cpu-only-build", "torch"),
        ("level=INFO source=gpu.go:386 msg=\"no compatible GPUs were discovered\"", "driver-not-installed", "nvidia-smi"),
        ('Specified provider "CUDAExecutionProvider" is not in available provider names.', "gpu-extra-missing", "onnxruntime"),
        ("$ docker info\n Runtimes: runc io.containerd.runc.v2\n Default Runtime: runc", "container-toolkit-missing", "nvidia-ctk"),
        ("$ nvidia-ctk cdi list\nINFO[0000] Found 0 CDI devices", "container-runtime-unconfigured", "/etc/cdi"),
        ("$ docker inspect x\n[{\"HostConfig\":{\"Runtime\":\"runc\",\"DeviceRequests\":null}}]", "container-no-gpu-flag", "docker exec"),
        ("$ scontrol show job 12\nJobId=12\n   NumNodes=1 NumCPUs=4 TRES=cpu=4,mem=16G,node=1", "slurm-no-gres", "scontrol"),
        ("- PyTorch version (GPU?): 2.3.0+cu121 (False)", "driver-not-installed", "nvidia-smi"),
        ("[PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]", "cpu-only-build", "tensorflow"),
        ('OSError: [WinError 126] Could not be found. Error loading "C:\\x\\torch\\lib\\fbgemm.dll"', "cuda-lib-missing", "libomp140"),
        ("2025-10-30 06:11:02 upgrade nvidia-driver-550:amd64 550.54.14-0ubuntu1 550.120-0ub", "driver-library-mismatch", "nvidia-smi"),
        ("Package Version\n------- -------\ntorch   2.5.1+cu121", "healthy", "nvidia-smi"),
    ],
)  # fmt: skip
def test_unknown_says_what_would_settle_it(text: str, first: str, command: str) -> None:
    report = explain(text)
    assert report.verdict is Verdict.UNKNOWN, [f.slug for f in report.findings]
    assert report.unknown[0].rule.slug == first
    assert any(command in one for one in report.unknown[0].settle)


def test_what_is_known_is_not_asked() -> None:
    assert asked("RuntimeError: No CUDA GPUs are available")[0] == "driver-not-installed"
    assert "driver-not-installed" not in asked(NOT_USED["no-gpus"])
    assert "cuda-visible-devices-hides" not in asked("$ env\nCUDA_VISIBLE_DEVICES=0\n" + NOT_USED["no-gpus"])


def test_only_a_container_is_asked_about_containers() -> None:
    outcomes, sign = explain("x").outcomes, doubt.Doubt(("container-no-gpu-flag",), ())
    assert doubt.questions([sign], [], [], outcomes, alone=False) == ()
    (told,) = doubt.questions([sign], [Container(inside=True)], [], outcomes, alone=False)
    assert told.rule.slug == "container-no-gpu-flag"
    assert doubt.questions([sign], [Container(inside=True, gpu_requested=True)], [], outcomes, alone=False) == ()


def test_a_text_about_nothing_says_so() -> None:
    report = explain("hello world")
    assert report.verdict is Verdict.UNKNOWN
    assert report.unknown == ()
    assert "Nothing in it tells of a GPU" in as_text.render(report, links=False)
    assert "没有涉及 GPU" in as_text.render(report, "zh", links=False)


def test_every_form_tells_the_signs_and_the_commands_in_both_languages() -> None:
    report = explain(NOT_USED["no-gpus"])
    for lang, because in (("en", "whether CUDA_VISIBLE_DEVICES hides the card"), ("zh", "CUDA_VISIBLE_DEVICES 是否隐藏了显卡")):
        answer = as_json.to_dict(report, lang)
        assert answer["unknown"][0] == {
            "slug": "cuda-visible-devices-hides", "because": because, "settle": ["env | grep -E 'CUDA|NVIDIA'"],
        }  # fmt: skip
        for text in (
            as_text.render(report, lang, links=False, width=300), as_markdown.render(report, lang), as_html.render(report, lang)
        ):  # fmt: skip
            assert "No CUDA GPUs are available" in text
            assert "env | grep -E" in text
            assert because.split("CUDA_VISIBLE_DEVICES")[1] in text.replace("\\", "")
    assert "is idle" not in as_text.render(report, links=False)  # harmless lines would bury it


def test_the_table_names_rules_and_symptoms_and_says_all_in_both_languages() -> None:
    folder = Path(ongpu.knowledge.__file__).parent
    known = {n for path in (folder / "symptoms").glob("*.toml") for n in tomllib.loads(path.read_text("utf-8"))}
    slugs = {rule.slug: rule for rule in all_rules()}
    keys = set(tomllib.loads((folder / "signs.toml").read_text("utf-8"))["ask"])
    used = {"healthy", "healthy:complaint"}
    for sign in signs.signs():
        assert {*sign.symptoms, *sign.unless} <= known
        assert sign.ask
        used |= set(sign.ask)
    assert used == keys
    for key in keys:
        question = signs.question(key)
        assert question.zh != question.en
        assert question.settle or slugs[key].settle, key
        assert key.partition(":")[0] in slugs
        assert signs.chinese(question.en) == question.zh


@pytest.mark.parametrize("line", ["Max error: 0.000000", "epoch 1 - train error: 0.31 - val error: 0.29", "error: -1.5e-3"])
def test_a_figure_called_error_is_no_complaint(line: str) -> None:
    shown = "$ nvidia-smi -L\nGPU 0: NVIDIA A100 (UUID: GPU-00000000-0000-0000-0000-000000000001)"
    assert explain(f"{shown}\n{line}\n").verdict is Verdict.CLEAR
