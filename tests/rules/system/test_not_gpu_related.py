# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import explain, notes, slugs
from parts.dryruns import error, judged

from ongpu.model import Verdict


@pytest.mark.parametrize(
    "text",
    [
        "python_headers.h:12:10: fatal error: Python.h: No such file or directory",
        "ModuleNotFoundError: No module named 'yaml'",
        "Error: template: nvidia-device-plugin: undefined variable \"$hasServiceAccount\"",
        "OSError: [Errno 98] Address already in use",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: x)",
        "_pickle.UnpicklingError: invalid load key, 'v'.",
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "epoch 1 step 300 loss nan lr 0.1",
        "sbatch: error: Batch job submission failed: Requested time limit is invalid",
    ],
)
def test_a_note_and_no_more(text: str) -> None:
    assert slugs(text) == []
    assert "not-gpu-related" in notes(text)


@pytest.mark.parametrize("text", ["ModuleNotFoundError: No module named 'torch'", "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'"])
def test_what_belongs_to_the_gpu_is_left_alone(text: str) -> None:
    assert "not-gpu-related" not in notes(text)


def test_an_exception_that_nobody_knows_is_unknown() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    go()\nFrobnicateError: the widget said no'
    report = explain(text)
    assert report.verdict is Verdict.UNKNOWN
    assert any("FrobnicateError" in o.because for o in report.unknown)


def test_a_dry_run_that_stops_with_an_error_of_its_own() -> None:
    report = judged(outcome="error", error=error("script", "'valid'", "KeyError"))
    assert [(f.slug, f.weight.name) for f in report.findings] == [("not-gpu-related", "ERROR")]
    assert report.verdict is Verdict.FOUND


def test_a_dry_run_with_an_error_of_tensors_that_no_other_rule_knows() -> None:
    words = "view size is not compatible with input tensor's size and stride"
    assert [f.slug for f in judged(outcome="error", error=error("script", words)).findings] == ["not-gpu-related"]
    words = "expected mat1 and mat2 to have the same dtype, but got: float != c10::Half"
    assert [f.slug for f in judged(outcome="error", error=error("script", words)).findings] == ["dtype-mismatch"]


def test_a_dry_run_that_reads_back_what_was_not_saved_is_not_the_scripts_fault() -> None:
    told = error("script", "[Errno 2] No such file or directory: '/tmp/run1/model.bin'", "FileNotFoundError")
    saved = [{"path": "/tmp/run1/model.safetensors", "what": "save", "refused": True}]
    report = judged(outcome="error", error=told, files=saved)
    assert (report.findings, report.verdict) == ((), Verdict.UNKNOWN)
    assert "reads back what it saved" in report.unknown[0].because
    assert [f.slug for f in judged(outcome="error", error=told).findings] == ["not-gpu-related"]


def test_a_fan_that_may_not_be_set() -> None:
    for line in (
        "ERROR: Error assigning value 70 to attribute 'GPUTargetFanSpeed' (host:0[fan:0]) as specified in assignment '[fan:0]/GPUTargetFanSpeed=70' (Unknown Error).",
        "ERROR: Error resolving target specification '' (No targets match target specification), specified in query 'GPUCurrentFanSpeedRPM'.",
    ):
        assert notes(line) == ["not-gpu-related"]
        assert slugs(line) == []
    assert notes("  Attribute 'GPUTargetFanSpeed' (host:0[fan:0]): 70.") == []


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: stack expects each tensor to be equal size, but got [3, 256, 256] at entry 0 and [3, 256, 200] at entry 3",
        "ValueError: operands could not be broadcast together with shapes (128,64) (128,32)",
        "RuntimeError: The expanded size of the tensor (1) must match the existing size (77) at non-singleton dimension 0.",
        "ValueError: Dimensions must be equal, but are 10 and 5 for '{{node mean_squared_error/SquaredDifference}}'",
        "errors_impl.InvalidArgumentError: Cannot batch tensors with different shapes in component 0. First element had shape [300,300,3]",
        "RuntimeError: grad can be implicitly created only for scalar outputs",
        "RuntimeError: Trying to backward through the graph a second time, but the buffers have already been freed.",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        "FloatingPointError: Loss became infinite or NaN at iteration=220!",
    ],
)
def test_faults_that_a_cpu_would_have_too(text: str) -> None:
    assert "not-gpu-related" in notes(text)
    assert not slugs(text)


@pytest.mark.parametrize("line", ["module 'torch.cuda' has no attribute 'is_availaible'", "module 'tensorflow' has no attribute 'is_gpu_avaliable'"])
def test_a_misspelt_name(line: str) -> None:
    text = f"Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nAttributeError: {line}"
    assert slugs(text) == []
    assert "not-gpu-related" in notes(text)


@pytest.mark.parametrize("name", ["memory_cached", "manual_seed_all", "list_logical_devices", "is_bf16_supported", "reset_max_memory_allocated"])
def test_a_real_name_that_a_version_lacks_is_not_misspelt(name: str) -> None:
    told = [f for f in explain(f"AttributeError: module 'torch.cuda' has no attribute '{name}'").findings if f.slug == "not-gpu-related"]
    assert told == []


def test_a_file_that_may_not_be_read() -> None:
    assert "not-gpu-related" in notes("PermissionError: [Errno 1] Operation not permitted")
    assert "not-gpu-related" not in notes("PermissionError: [Errno 1] Operation not permitted: '/dev/nvidia0'")
