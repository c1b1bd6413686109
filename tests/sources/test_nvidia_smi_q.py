import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.system import Processes
from ongpu.model import Evidence
from ongpu.sources import nvidia_smi_q

TEXT = """\
==============NVSMI LOG==============
Driver Version                            : 535.104.05
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA A100-PCIE-40GB
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    GPU UUID                              : GPU-aaaa
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 4x
        Replays Since Reset               : 12
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    ECC Errors
        Volatile
            SRAM Uncorrectable            : 1
            DRAM Correctable              : 7
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 9
    Remapped Rows
        Uncorrectable Error               : 4
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 92 C
        GPU Slowdown Temp                 : 92 C
    Power Readings
        Power Draw                        : 43.0 W
        Power Limit                       : 250.00 W
    Clocks
        SM                                : 210 MHz
    Applications Clocks
        Graphics                          : 765 MHz
    Max Clocks
        SM                                : 1410 MHz
    Processes
        Process ID                        : 2936
            Type                          : C
            Name                          : python
            Used GPU Memory               : 33 MiB
"""
XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>535.104.05</driver_version><cuda_version>12.2</cuda_version>
  <gpu id="00000000:3B:00.0">
    <product_name>Tesla T4</product_name>
    <fb_memory_usage><total>15360 MiB</total><used>3 MiB</used></fb_memory_usage>
    <clocks_event_reasons>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
      <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
    </clocks_event_reasons>
    <processes><process_info><pid>77</pid><type>C</type><process_name>python</process_name>
    <used_memory>9 MiB</used_memory></process_info></processes>
  </gpu>
</nvidia_smi_log>"""


def card(text: str) -> Gpu:
    return next(fact for fact in nvidia_smi_q.read(Evidence("pasted", text, "test")) if isinstance(fact, Gpus)).gpus[0]


def test_text() -> None:
    gpu = card(TEXT)
    assert (gpu.index, gpu.bus, gpu.name, gpu.mig) == (0, "00000000:3B:00.0", "NVIDIA A100-PCIE-40GB", False)
    assert (gpu.pcie_gen, gpu.pcie_gen_max, gpu.pcie_width, gpu.pcie_width_max, gpu.pcie_replays) == (1, 4, 4, 16, 12)
    assert gpu.throttle == ("HW Slowdown", "HW Thermal Slowdown")
    assert (gpu.ecc_uncorrected, gpu.ecc_uncorrected_total) == (3, 9)
    assert (gpu.remap_pending, gpu.remap_failed, gpu.remap_uncorrectable) == (True, False, 4)
    assert (gpu.temperature, gpu.temperature_slowdown, gpu.power_draw, gpu.power_limit) == (92, 92, 43.0, 250.0)
    assert (gpu.clock_sm, gpu.clock_sm_max, gpu.pstate) == (210, 1410, "P0")
    driver = next(f for f in nvidia_smi_q.read(Evidence("pasted", TEXT, "test")) if isinstance(f, Driver))
    assert (driver.version, driver.cuda) == ("535.104.05", "12.2")
    listed = next(f for f in nvidia_smi_q.read(Evidence("pasted", TEXT, "test")) if isinstance(f, Processes))
    assert [(p.pid, p.name, p.memory) for p in listed.processes] == [(2936, "python", 33)]


def test_a_part_of_it() -> None:
    assert card("        SW Thermal Slowdown               : Active\n").throttle == ("SW Thermal Slowdown",)


def test_xml() -> None:
    gpu = card(XML)
    assert (gpu.name, gpu.memory_total, gpu.throttle) == ("Tesla T4", 15360, ("SW Power Cap",))


def test_entities_are_refused() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa">]><nvidia_smi_log>&a;</nvidia_smi_log>'
    with pytest.raises(ValueError, match="entities"):
        list(nvidia_smi_q.read(Evidence("pasted", bomb, "test")))


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from(TEXT.split("\n")), max_size=30).map("\n".join)))
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", text, "test")
    nvidia_smi_q.looks_like(evidence)
    list(nvidia_smi_q.read(evidence))
