"""What the kernel says of the driver."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Driver, Kernel
from ongpu.model import Evidence, Fact
from ongpu.sources.driver_state import read


def facts(text: str, command: str | None = None) -> dict[type[Fact], Fact]:
    return {type(fact): fact for fact in read(Evidence("pasted", text, "x", command))}


def test_lsmod() -> None:
    text = (
    "nvidia_uvm           1384448  0\nnvidia_drm             77824  4\nnvidia              56717312  2 "
        "nvidia_uvm,nvidia_drm"
)
    driver = facts(text, "lsmod | grep nvidia")[Driver]
    assert isinstance(driver, Driver)
    assert (driver.module_loaded, driver.uvm_loaded) == (True, True)


def test_an_empty_lsmod_is_an_answer() -> None:
    driver = facts("$ lsmod | grep nvidia", "lsmod | grep nvidia")[Driver]
    assert isinstance(driver, Driver)
    assert driver.module_loaded is False
    only_uvm = facts("$ lsmod | grep nvidia_uvm", "lsmod | grep nvidia_uvm")[Driver]
    assert isinstance(only_uvm, Driver)
    assert (only_uvm.module_loaded, only_uvm.uvm_loaded) == (None, False)


def test_modinfo() -> None:
    text = (
        "filename:       /lib/modules/6.8.0-40-generic/updates/dkms/nvidia.ko\nversion:        550.107.02\n"
        "license:        Dual MIT/GPL\nvermagic:       6.8.0-40-generic SMP preempt mod_unload modversions"
    )
    found = facts(text, "modinfo nvidia")
    driver, kernel = found[Driver], found[Kernel]
    assert isinstance(driver, Driver)
    assert (driver.module_on_disk, driver.flavour) == ("550.107.02", "open")
    assert isinstance(kernel, Kernel)
    assert kernel.modules_for == ("6.8.0-40-generic",)


def test_kernel_and_secure_boot() -> None:
    kernel = facts("Linux gpu 6.5.0-35-generic #35~22.04.1-Ubuntu SMP x86_64 GNU/Linux\nSecureBoot enabled", "uname -a")[Kernel]
    assert isinstance(kernel, Kernel)
    assert (kernel.release, kernel.secure_boot) == ("6.5.0-35-generic", True)


def test_modules_for_other_kernels() -> None:
    kernel = facts("/lib/modules/3.13.0-88-generic/kernel/drivers/video/nvidia.ko\n/lib/modules/3.13.0-88-generic"
        "/kernel/drivers/net/ethernet/nvidia")[Kernel]
    assert isinstance(kernel, Kernel)
    assert kernel.modules_for == ("3.13.0-88-generic",)


def test_blacklists() -> None:
    kernel = facts("/etc/modprobe.d/x.conf:1:blacklist nvidia\nblacklist nvidiafb\nalias nvidia_drm off")[Kernel]
    assert isinstance(kernel, Kernel)
    assert "nvidia" in kernel.blacklisted


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    text=st.text(alphabet=st.sampled_from("nvidia uemodprobkrlsg0123456789.-_/:=\n"), max_size=400),
    command=st.sampled_from((None, 'lsmod | grep nvidia', 'uname -r', 'modinfo nvidia', 'mokutil --sb-state')),
)
def test_no_text_makes_it_crash(text: str, command: str | None) -> None:
    list(read(Evidence("pasted", text, "x", command)))
