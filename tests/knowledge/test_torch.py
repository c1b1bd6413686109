"""PyTorch releases."""

import pytest

from ongpu.knowledge import torch
from ongpu.knowledge._versions import numbers
from ongpu.knowledge.cuda import cuda_of_build, toolkit_supports


@pytest.mark.parametrize(
    ("archs", "capability", "does_run"),
    [
        (["8.6"], "8.9", True),
        (["sm_80", "sm_86"], "8.6", True),
        (["sm_86"], "8.0", False),
        (["9.0"], "10.0", False),
        (["9.0"], "12.0", False),
        (["12.0"], "12.1", True),
        (["compute_90"], "12.0", True),
        (["compute_90"], "8.9", False),
        (["12.0+PTX"], "12.1", True),
        (["9.0+PTX"], "12.0", True),
        (["sm_90a"], "9.0", True),
        (["sm_100a"], "10.3", False),
        (["sm_100f"], "10.3", True),
        (["sm_80"], "8.7", False),  # a Jetson takes no desktop code
        (["sm_87"], "8.9", False),
        (["sm_87"], "8.7", True),
        (["sm_101"], "11.0", True),  # one chip, renamed
        ([], "8.6", False),
        (["nonsense"], "8.6", False),
        (["sm_86"], "nonsense", False),
    ],
)
def test_runs(archs: list[str], capability: str, does_run: bool) -> None:
    assert torch.runs(archs, capability) is does_run


def test_jetson_takes_desktop_code_from_cuda_13_2() -> None:
    assert not torch.runs(["sm_80"], "8.7", cuda="13.0")
    assert torch.runs(["sm_80"], "8.7", cuda="cu132")


def test_archs() -> None:
    assert torch.archs("2.0.1+cu118", "cu118") == ("3.7", "5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0")
    assert torch.archs("2.7.0", "cu128") == ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0", "12.0+PTX")
    assert torch.archs("2.13.0", "cu130", "linux_aarch64") == ("8.0", "9.0", "10.0", "11.0", "12.0")
    assert torch.archs("2.7.0", "cu999") is None
    assert torch.archs("9.9", "cu118") is None


def test_volta_in_and_out_of_cu128() -> None:
    has_volta = {v: "7.0" in (torch.archs(v, "cu128") or ()) for v in ("2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0")}
    assert list(has_volta.values()) == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("version", "platform", "build"),
    [
        ("2.14.1", "linux_x86_64", "cu130"),
        ("2.1", "linux_x86_64", "cu121"),
        ("2.10.0", "linux_aarch64", "cpu"),
        ("2.11.0", "linux_aarch64", "cu130"),
        ("2.14.1", "windows_x86_64", "cpu"),
        ("2.14.1", "windows_arm64", None),
        ("2.2.2", "macos_x86_64", "cpu"),
        ("2.3.0", "macos_x86_64", None),
        ("1.9.1", "macos_arm64", None),
        ("2.14.1", "amiga", None),
        ("9.9.9", "linux_x86_64", None),
    ],
)
def test_default_build(version: str, platform: str, build: str | None) -> None:
    assert torch.default_build(version, platform) == build


def test_python() -> None:
    assert torch.python_ok("2.1.2", "3.11.4") is True
    assert torch.python_ok("2.1.2", "3.12") is False
    assert torch.python_ok("2.5.1", "3.13") is True
    assert torch.python_ok("2.5.1", "3.13", "windows_x86_64") is False
    assert torch.python_ok("2.15.0", "3.10") is False
    assert torch.python_ok("2.1.2", "three") is None
    assert torch.python_ok("2.16.0.dev20261130", "3.12") is None


def test_companions() -> None:
    assert torch.companions("2.1.2+cu118") == {"torchvision": ("0.16.2",), "torchaudio": ("2.1.2",)}
    assert torch.companions("2.5.1")["xformers"]
    assert torch.companions("9.9") == {}
    assert torch.torch_for_companion("torchvision", "0.16.0+cu121") == ("2.1.0",)
    assert torch.torch_for_companion("torchaudio", "2.11.0")[-1] == "2.11.0"
    assert torch.torch_for_companion("torchvision", "99") == ()


def test_versions_as_printed() -> None:
    assert torch.build_of("2.1.2+cu118") == "cu118"
    assert torch.build_of("2.9.0+cu128.with.more") == "cu128"
    assert torch.build_of("2.1.2") is None
    assert torch.builds("2.6") == ("cu118", "cu124", "cu126")
    assert torch.wheel_index("cu126") == "https://download.pytorch.org/whl/cu126"
    assert torch.has_cuda_builds("2.6.0", "windows_x86_64") is True
    assert torch.has_cuda_builds("2.6.0", "macos_arm64") is False


def test_the_table_agrees_with_itself() -> None:
    assert list(torch.releases()) == sorted(torch.releases(), key=lambda r: numbers(r.version), reverse=True)
    for release in torch.releases():
        assert release.default_build in release.builds, release.version
        assert set(release.archs) <= set(release.builds), release.version
        assert release.default_build in release.archs, release.version
        assert set(release.ptx) <= set(release.archs)
        for build, archs in release.archs.items():
            cuda = cuda_of_build(build)
            assert cuda is not None
            assert [a for a in archs if toolkit_supports(cuda, a) is not True] == [], (release.version, build)
