"""The machine's own lines and its bus, as facts."""

import json

from ongpu.facts.container import Container
from ongpu.facts.driver import Driver, Kernel
from ongpu.facts.environment import Machine, Variables
from ongpu.facts.hardware import Pci
from ongpu.facts.system import Processes
from ongpu.model import Evidence, Fact
from ongpu.sources.machine_state import SOURCES, read_pci


def facts(*items: tuple[str, object]) -> dict[type[Fact], Fact]:
    text = "\n".join(json.dumps({"name": name, "value": value, "from": "/some/file"}) for name, value in items)
    return {type(fact): fact for fact in SOURCES[0].read(Evidence("machine-state", text, "system:ask"))}


def test_a_host() -> None:
    found = facts(
        ("system", "linux"), ("distribution", "ubuntu"), ("not_in_container", True), ("library", "535.183.01"),
        ("kernel", "5.15.0-113-generic"),
        ("headers", True), ("module_file", "5.15.0-112-generic"), ("secure_boot", False), ("dkms_listed", True), ("shm", [100, 7]),
        ("variable", ["CUDA_VISIBLE_DEVICES", ""]), ("holder", [7, "python3", "/dev/nvidia3"]), ("mps", ["/tmp/nvidia-mps", None]),
    )  # fmt: skip
    machine, driver, kernel, container = found[Machine], found[Driver], found[Kernel], found[Container]
    assert isinstance(machine, Machine)
    assert (machine.system, machine.distribution, machine.wsl) == ("linux", "ubuntu", None)
    assert isinstance(driver, Driver)
    assert (driver.version, driver.installed, driver.on_disk) == ("535.183.01", True, False)
    assert isinstance(kernel, Kernel)
    assert (kernel.headers, kernel.modules_for, kernel.dkms_listed, kernel.secure_boot) == (
        True,
        ("5.15.0-112-generic",),
        True,
        False,
    )
    assert isinstance(container, Container)
    assert (container.inside, container.shm_bytes, container.shm_used, container.devices_denied) == (
        False,
        100,
        7,
        None,
    )
    variables, processes = found[Variables], found[Processes]
    assert isinstance(variables, Variables)
    assert (variables.complete, variables.get("CUDA_VISIBLE_DEVICES")) == (True, "")
    assert isinstance(processes, Processes)
    assert [(p.pid, p.name, p.gpu) for p in processes.holders] == [(7, "python3", 3)]


def test_a_container_does_not_see_the_hosts_modules() -> None:
    found = facts(
        ("system", "linux"),
        ("container", "docker"),
        ("kernel", "5.15.0"),
        ("variable", ["NVIDIA_DRIVER_CAPABILITIES", "utility"]),
    )
    driver, container = found[Driver], found[Container]
    assert isinstance(driver, Driver)
    assert driver.on_disk is None
    assert isinstance(container, Container)
    assert (container.inside, container.capabilities) == (True, "utility")


def test_the_bus() -> None:
    card = {
        "slot": "0000:3b:00.0", "vendor": "0x10de", "device": "0x20b5", "class": "0x030200", "driver": "", "no_bar": False, "dead": True,
        "name": "GA100 [A100 PCIe 80GB]", "current_link_speed": "2.5 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe",
        "current_link_width": "63", "max_link_width": "16",
    }  # fmt: skip
    switch = {**card, "slot": "0000:c1:00.0", "class": "0x068000", "device": "0x1af1", "name": ""}
    (pci,) = read_pci(Evidence("pci-bus", "\n".join(map(json.dumps, ({"bus": 41}, card, switch))), "bus:ask"))
    assert isinstance(pci, Pci)
    assert pci.complete
    assert [d.bus for d in pci.nvidia()] == ["0000:3b:00.0"]
    device = pci.nvidia()[0]
    assert (device.name, device.driver, device.dead, device.speed, device.width, device.width_max) == (
        "GA100 [A100 PCIe 80GB]",
        "",
        True,
        2.5,
        None,
        16,
    )
    assert pci.devices[1].kind == "Bridge"


def test_no_bus_tells_nothing() -> None:
    assert list(read_pci(Evidence("pci-bus", '{"bus": 0}', "bus:ask", problem="no PCI bus is visible here"))) == []
