"""Answers that were once wrong: a cause, or a value, that the text does not carry."""

import base64
import random

import pytest
from asking import explain, found, notes, slugs

from ongpu.model import Certainty, Severity, Verdict
from ongpu.report import as_text

SMI = """\
| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |
|  0%   35C    P8             18W /  450W |       1MiB /  24564MiB |      0%      Default |
"""


def test_a_module_that_dkms_built_for_another_kernel_only() -> None:
    other = "$ uname -r\n6.8.0-47-generic\n$ dkms status\nnvidia/550.54.14, 6.8.0-40-generic, x86_64: installed"
    finding = found("driver-module-build-failed", other.encode())
    assert finding is not None
    assert finding.variant == "elsewhere"
    assert "only for 6.8.0-40-generic" in finding.text("en").title
    assert "只有 6.8.0-40-generic 的" in finding.text("zh").title
    assert "healthy" not in notes(other)
    same = other.replace("0-40", "0-47")
    assert slugs(same) == []
    assert "healthy" in notes(same)


def test_no_device_is_no_setting() -> None:
    assert "config-forces-cpu" not in slugs("ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected")
    assert "config-forces-cpu" in slugs("use_gpu: no\nthe program runs on the CPU, the GPU is not used")


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted} GiB. GPU 0 has a total capacity of 23.64 GiB of which "
    "10.00 GiB is free. Including non-PyTorch memory, this process has 13.50 GiB memory in use. Of the allocated memory {used} GiB "
    "is allocated by PyTorch, and {idle} GiB is reserved by PyTorch but unallocated."
)


def test_more_that_lies_idle_than_is_used_is_fragmentation() -> None:
    assert slugs(OOM.format(wanted="12.00", used="3.00", idle="10.00"))[0] == "oom-fragmentation"
    assert slugs(OOM.format(wanted="12.00", used="12.60", idle="0.40"))[0] == "oom-batch-too-large"


def test_an_exclusive_mode_that_nobody_holds_is_told_as_a_setting() -> None:
    q = (
        "==============NVSMI LOG==============\nGPU 00000000:01:00.0\n    Product Name : NVIDIA A100\n"
        "    Compute Mode : Exclusive_Process\n"
    )
    finding = found("exclusive-process-mode", (q + "    Processes : None\n").encode())
    assert finding is not None
    assert (finding.weight, finding.variant) == (Severity.NOTE, "set")
    assert "already held" not in finding.text("en").title


@pytest.mark.parametrize(("mode", "told"), [("Enabled", ["mig-misconfigured"]), ("Disabled", [])])
def test_mig_without_instances(mode: str, told: list[str]) -> None:
    q = (
        "==============NVSMI LOG==============\nAttached GPUs : 1\nGPU 00000000:01:00.0\n    Product Name : NVIDIA A100-SXM4-80GB\n"
        f"    MIG Mode\n        Current : {mode}\n        Pending : {mode}\n    MIG Devices : None\n"
    )
    xml = (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<driver_version>550.54.14</driver_version>\n<gpu id="00000000:01:00.0">\n'
        f"<product_name>NVIDIA A100</product_name>\n<mig_mode><current_mig>{mode}</current_mig></mig_mode>\n"
        "<mig_devices>None</mig_devices>\n</gpu>\n</nvidia_smi_log>\n"
    )
    assert slugs(q) == told
    assert slugs(xml) == told


def test_no_mig_devices_are_not_said_to_be_in_use() -> None:
    assert "healthy" not in [f.slug for f in explain("| MIG devices:       |\n|  No MIG devices found   |").findings]


def test_a_card_that_newer_drivers_have_dropped() -> None:
    line = (
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: {id})\nNVRM: installed in this system is not supported by the\n"
        "NVRM: NVIDIA 550.54.14 driver release."
    )
    finding = found("compute-capability-too-old", line.format(id="10de:1180").encode())
    assert finding is not None
    assert "470" in finding.text("en").title
    assert "compute-capability-too-old" not in slugs(line.format(id="10de:2b85"))  # a card that came later


def test_tensorflow_is_no_cpu_build_because_tensorflow_cpu_is_there_too() -> None:
    finding = found("cpu-only-build", b"Package Version\n------- -------\ntensorflow 2.17.0\ntensorflow-cpu 2.17.0\n")
    assert finding is None or "TensorFlow 2.17.0" not in finding.text("en").title


def test_values_that_nobody_told_are_not_asserted() -> None:
    ordinal = found("invalid-device-ordinal", b"RuntimeError: CUDA error: invalid device ordinal")
    assert ordinal is not None
    assert "CUDA_VISIBLE_DEVICES" not in ordinal.text("en").title
    line = b"RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. insufficient shared memory (shm)."
    shm = found("shm-too-small", line)
    assert shm is not None
    assert shm.text("en").title == "/dev/shm is too small"
    assert shm.text("zh").title == "/dev/shm 太小"


def test_one_card_has_no_order() -> None:
    env = "$ env\nHOME=/home/a\nPATH=/bin\nCUDA_VISIBLE_DEVICES=3\n"
    assert "cuda-device-order" not in slugs(env, SMI)


def test_an_empty_variable_that_env_prints_hides_all() -> None:
    assert "cuda-visible-devices-hides" in slugs("$ env\nHOME=/home/alice\nCUDA_VISIBLE_DEVICES=\nLANG=C")


def test_a_cuda_build_that_is_shown_is_not_called_a_cpu_build() -> None:
    text = "AssertionError: Torch not compiled with CUDA enabled\nPyTorch version: 2.9.0+cu130\nCUDA used to build PyTorch: 13.0"
    finding = found("cpu-only-build", text.encode())
    assert finding is not None
    assert (finding.variant, finding.certainty) == ("another", Certainty.LIKELY)
    assert "not the one that is shown" in finding.text("en").title


def test_two_paddles_do_not_explain_an_error_of_torch() -> None:
    packages = "Package Version\n------- -------\npaddlepaddle 2.6.2\npaddlepaddle-gpu 2.6.2\n"
    report = explain(packages, "AssertionError: Torch not compiled with CUDA enabled")
    assert "cpu-only-build" in [f.slug for f in report.findings]
    assert "gpu-not-on-bus" not in [f.slug for f in report.findings]  # "paddle-gpu" holds no "e-gpu"
    paddle = next(f for f in report.findings if f.slug == "duplicate-framework-packages")
    assert not any("Torch" in ref.quote for ref in paddle.refs)


def test_nothing_is_read_into_random_letters() -> None:
    data = base64.b64encode(random.Random(7).randbytes(300_000)).decode()
    lines = [data[at : at + 76] for at in range(0, len(data), 76)]
    lines[50] = lines[50][:30] + "w84C" + lines[50][34:]
    report = explain("\n".join(lines))
    assert report.verdict is Verdict.UNKNOWN
    assert report.findings == ()


def test_the_note_on_fp16_and_the_one_on_accelerators_do_not_calm() -> None:
    assert notes("UserWarning: FP16 is not supported on CPU; using FP32 instead") == []
    text = as_text.render(explain("GPU available: False, used: False\nTPU available: False"), links=False)
    assert "only tells what there is" not in text


def test_powerd_is_no_power_limit() -> None:
    assert "power-throttle" not in notes("systemd[1]: nvidia-powerd.service: Failed with result 'exit-code'.")
    assert "healthy" in notes("systemd[1]: nvidia-powerd.service: Failed with result 'exit-code'.")


def test_a_missing_nvidia_smi_is_known_in_chinese_too() -> None:
    text = "nvidia-smi 不是内部或外部命令，也不是可运行的程序\n或批处理文件。"
    assert explain(text).verdict is explain("'nvidia-smi' is not recognized as an internal or external command").verdict
    assert [f.slug for f in explain(text).findings][:1] == ["driver-not-installed"]
