"""Package lists, update logs, and what the .run installer leaves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import SystemPackages
from ongpu.model import Evidence, Fact
from ongpu.sources.system_packages import read


def facts(text: str, command: str | None = None) -> dict[type[Fact], Fact]:
    return {type(fact): fact for fact in read(Evidence("pasted", text, "x", command))}


def packages(text: str, command: str | None = None) -> SystemPackages:
    found = facts(text, command)[SystemPackages]
    assert isinstance(found, SystemPackages)
    return found


def test_dpkg() -> None:
    text = (
        "ii  nvidia-driver-535      535.183.01-0ubuntu0.22.04.1  amd64  NVIDIA driver metapackage\n"
        "rc  libnvidia-compute-470:amd64 470.256.02-0ubuntu0.22.04.1 amd64 NVIDIA libcompute package\n"
        "iF  nvidia-dkms-535        535.183.01-0ubuntu0.22.04.1  amd64  NVIDIA DKMS package"
    )
    found = packages(text, "dpkg -l | grep -i nvidia")
    assert dict(found.packages) == {"nvidia-driver-535": "535.183.01-0ubuntu0.22.04.1"}
    assert len(found.half_installed) == 2
    assert found.listed


def test_history() -> None:
    text = (
    "Commandline: /usr/bin/unattended-upgrade\nUpgrade: libnvidia-common-460:amd64 "
        "(460.56-0ubuntu0.20.04.1, 460.73.01-0ubuntu0.20.04.1)"
)
    found = packages(text)
    assert found.upgrades == ("libnvidia-common-460 460.56-0ubuntu0.20.04.1 -> 460.73.01-0ubuntu0.20.04.1",)
    assert found.unattended


def test_pacman_and_rpm() -> None:
    assert packages("[2024-06-01T10:00:00+0200] [ALPM] upgraded nvidia (550.78-6 -> 555.42.02-1)").upgrades == (
        "nvidia 550.78-6 -> 555.42.02-1",
    )
    assert "kmod-nvidia-latest-dkms" in packages("kmod-nvidia-latest-dkms-550.54.15-1.el9.x86_64", "rpm -qa | grep nvidia").packages


def test_run_file() -> None:
    found = packages("bash ./NVIDIA-Linux-x86_64-570.124.04.run --no-kernel-modules\ncd "
        "open-gpu-kernel-modules-570.124.06-p2p/")
    assert (found.runfile_version, found.source_version) == ("570.124.04", "570.124.06")
    absent = (
    "$ ls /usr/bin/nvidia-uninstall\nls: cannot access '/usr/bin/nvidia-uninstall': No such file or "
        "directory"
)
    assert facts(absent, "ls /usr/bin/nvidia-uninstall") == {}


def test_two_libraries() -> None:
    found = packages("/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01\n/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14")
    assert found.library_versions == ("535.183.01", "550.54.14")


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("nvidia-0123.: (),>iirc\n/ru"), max_size=400),
    command=st.sampled_from((None, 'dpkg -l | grep nvidia', 'rpm -qa')),
)
def test_no_text_makes_it_crash(text: str, command: str | None) -> None:
    list(read(Evidence("pasted", text, "x", command)))


def test_a_package_that_apt_brought_by_itself_was_not_upgraded() -> None:
    log = "Start-Date: 2026-11-01  10:00:00\n"
    log += "Install: nvidia-smi:amd64 (535.183.01-1, automatic), libcuda1:amd64 (535.183.01-1)\n"
    assert not any(fact.upgrades for fact in facts(log).values() if isinstance(fact, SystemPackages))
    log = "Upgrade: libcuda1:amd64 (535.161.08-1, 535.183.01-1, automatic)\n"
    (found,) = [fact.upgrades for fact in facts(log).values() if isinstance(fact, SystemPackages)]
    assert found == ("libcuda1 535.161.08-1 -> 535.183.01-1",)
