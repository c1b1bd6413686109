# ruff: noqa: E501  printed lines stand in one piece
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.driver import Driver
from ongpu.facts.hardware import Gpu, Gpus
from ongpu.facts.system import Processes
from ongpu.lazy import replace
from ongpu.model import Evidence, Fact
from ongpu.sources import nvidia_smi

NOW = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                    2 |
| N/A   31C    P0             43W /  400W |    2500MiB /  40960MiB |      7%   E. Process |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
| MIG devices:                                                                            |
|  0    1   0   0  |              38MiB / 20096MiB    | 42      0 |  3   0    2    0    0 |
|  0    2   0   1  |              38MiB / 20096MiB    | 42      0 |  3   0    2    0    0 |
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|=========================================================================================|
|    0   N/A  N/A            1234      C   python train.py                        1234MiB |
+-----------------------------------------------------------------------------------------+
"""
OLD = """\
| NVIDIA-SMI 375.39                 Driver Version: 375.39                    |
|   0  GeForce GTX TIT...  Off  | 0000:03:00.0     Off |                  N/A |
| 24%   63C    P2    72W / 250W |  11409MiB / 12207MiB |      0%      Default |
| Compute processes:                                               GPU Memory |
|    0     69341  python                                              4961MB  |
|    1     31794    C   Unknown Error                                 5371MiB |
"""


def facts(text: str, command: str | None = None) -> dict[type[Fact], Fact]:
    found: dict[type[Fact], Fact] = {}
    for fact in nvidia_smi.read(Evidence("pasted", text, "test", command)):
        found[type(fact)] = found[type(fact)].join(fact) if type(fact) in found else fact
    return found


def gpus(text: str, command: str | None = None) -> Gpus:
    fact = facts(text, command)[Gpus]
    assert isinstance(fact, Gpus)
    return fact


def test_the_present_table() -> None:
    gpu = gpus(NOW).gpus[0]
    assert (gpu.index, gpu.name, gpu.bus) == (0, "NVIDIA A100-SXM4-40GB", "00000000:07:00.0")
    assert (gpu.memory_used, gpu.memory_total, gpu.utilization, gpu.power_limit) == (2500, 40960, 7, 400)
    assert (gpu.ecc_uncorrected, gpu.compute_mode, gpu.mig, gpu.mig_devices) == (2, "Exclusive_Process", True, 2)
    driver = facts(NOW)[Driver]
    assert isinstance(driver, Driver)
    assert (driver.version, driver.cuda, driver.smi_works) == ("570.86.15", "12.8", True)
    processes = facts(NOW)[Processes]
    assert isinstance(processes, Processes)
    assert [(p.pid, p.memory, p.kind, p.name) for p in processes.processes] == [(1234, 1234, "C", "python train.py")]


def test_old_tables() -> None:
    gpu = gpus(OLD).gpus[0]
    assert (gpu.name, gpu.fan, gpu.memory_used, gpu.persistence) == ("GeForce GTX TIT...", 24, 11409, False)
    processes = facts(OLD)[Processes]
    assert isinstance(processes, Processes)
    assert [(p.pid, p.gone) for p in processes.processes] == [(69341, False), (31794, True)]


def test_banner_without_driver_version() -> None:
    driver = facts("| NVIDIA-SMI 610.43.02      KMD Version: 610.43.02     CUDA UMD Version: 13.3     |")[Driver]
    assert isinstance(driver, Driver)
    assert (driver.version, driver.cuda) == ("610.43.02", "13.3")


def test_single_rows() -> None:
    assert (
        gpus("| N/A   29C    P8    10W / 250W |      0MiB / 23040MiB |      0%      Default |").gpus[0].pstate == "P8"
    )
    assert gpus("|ERR!  ERR!  ERR!    ERR! / ERR! |   10MiB / 24268MiB |    ERR!     Default |").gpus[0].error


def test_failures() -> None:
    assert gpus("No devices were found").gpus == ()
    driver = facts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")[Driver]
    assert isinstance(driver, Driver)
    assert driver.smi_works is False
    lost = gpus("Unable to determine the device handle for GPU0000:07:00.0: Unknown Error").gpus[0]
    assert (lost.bus, lost.error) == ("0000:07:00.0", "Unknown Error")


def test_lists_links_and_topology() -> None:
    listed = gpus(
        "GPU 0: NVIDIA A100 (UUID: GPU-aaaa-bbbb)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
        "GPU 1: NVIDIA A100 (UUID: GPU-cccc-dddd)\n\t Link 0: CRC Errors: 7\n"
    ).gpus
    assert [(g.nvlink_inactive, g.nvlink_errors) for g in listed] == [(1, None), (None, 7)]
    topology = gpus("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV3\t0-47\nGPU1\tNV3\t X \t0-47\n", "nvidia-smi topo -m")
    assert [g.links for g in topology.gpus] == [("X", "NV3"), ("NV3", "X")]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("index, compute_cap, name, driver_version\n0, 8.0, NVIDIA A100, 570.86.15", None),
        (
            "0, 8.0, NVIDIA A100, 570.86.15",
            "nvidia-smi --query-gpu=index,compute_cap,name,driver_version --format=csv,noheader",
        ),
    ],
)
def test_queries_in_any_order(text: str, command: str | None) -> None:
    gpu = gpus(text, command).gpus[0]
    assert (gpu.index, gpu.capability, gpu.name) == (0, "8.0", "NVIDIA A100")


def test_units_reasons_and_processes_of_queries() -> None:
    gpu = gpus(
        "name, memory.used [MiB], power.draw [W], clocks_throttle_reasons.active\nTesla T4, 512 MiB, 27.50 W, 0x0000000000000044"
    ).gpus[0]
    assert (gpu.memory_used, gpu.power_draw, gpu.throttle) == (512, 27.5, ("SW Power Cap", "HW Thermal Slowdown"))
    processes = facts("pid, process_name, used_gpu_memory [MiB]\n4411, [Not Found], 8000 MiB")[Processes]
    assert isinstance(processes, Processes)
    assert (processes.processes[0].pid, processes.processes[0].gone) == (4411, True)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.one_of(
        st.text(max_size=300), st.lists(st.sampled_from(NOW.split("\n") + OLD.split("\n")), max_size=12).map("\n".join)
    )
)
def test_no_text_makes_it_crash(text: str) -> None:
    evidence = Evidence("pasted", text, "test", "nvidia-smi --query-gpu=index,name --format=csv")
    nvidia_smi.looks_like(evidence)
    list(nvidia_smi.read(evidence))


def test_cards_of_a_virtual_machine_each_in_a_domain_of_its_own() -> None:
    row = "|   {}  Tesla P40           Off  | {}:00:00.0 Off |                    0 |\n| N/A   43C    P0    61W / 250W |  11151MiB / 22919MiB |     99%      Default |\n"
    text = row.format(0, "00000275") + row.format(1, "00004846")
    gpus = next(f for f in nvidia_smi.read(Evidence("pasted", text, "p")) if isinstance(f, Gpus))
    assert [gpu.index for gpu in gpus.gpus] == [0, 1]
    same = Gpus(gpus=(replace(gpus.gpus[0], bus="01:00.0"),)).join(Gpus(gpus=(replace(gpus.gpus[0], bus="00000000:01:00.0"),)))
    assert len(same.gpus) == 1


def test_one_card_asked_again_and_again() -> None:
    rows = "utilization.gpu [%]\n0 %\n0 %\n97 %\n"

    def gpus(command: str) -> tuple[Gpu, ...]:
        return next(f for f in nvidia_smi.read(Evidence("pasted", rows, "p", command=command)) if isinstance(f, Gpus)).gpus

    assert [gpu.utilization for gpu in gpus("nvidia-smi --query-gpu=utilization.gpu --format=csv -l 1")] == [0]
    assert len(gpus("nvidia-smi --query-gpu=utilization.gpu --format=csv")) == 3
