"""What /metrics says."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts.watched import ROW, after, machine, many, page, series, told
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed_text

from ongpu.facts.sample import COLUMNS, IDENTITY, PLACE
from ongpu.hosts.sampling import demo
from ongpu.watch import dcgm_names, metrics
from ongpu.watch.metric_table import METRICS, PARTS
from ongpu.watch.metrics import Said
from ongpu.watch.processes import Proc
from ongpu.watch.scrape import OPENMETRICS, Page
from ongpu.watch.state import State


def test_values_come_in_base_units() -> None:
    found = page(machine())
    expected = {
        "utilization_ratio": 0.87, "memory_busy_ratio": 0.4, "memory_used_bytes": 2**30, "memory_total_bytes": 2**31,
        "temperature_celsius": 61, "temperature_limit_celsius": 89, "power_watts": 250.5, "power_limit_watts": 300,
        "sm_clock_hertz": 1.41e9, "memory_clock_hertz": 1.593e9, "energy_joules_total": 9000.5, "fan_ratio": 0.35,
        "pcie_transmit_bytes_per_second": 2e6, "pcie_receive_bytes_per_second": 1e6, "ecc_uncorrectable_errors_total": 3,
        "pcie_replays_total": 7, "pcie_link_generation": 3, "pcie_link_lanes_max": 16, "mig_enabled": 0, "ecc_enabled": 1,
        "row_remap_pending": 1, "recovery_action": 2,
    }  # fmt: skip
    assert {name: told(found, f"ongpu_gpu_{name}", gpu="1", uuid="GPU-1") for name in expected} == expected
    reasons = {dict(key)["reason"] for key, on in found["ongpu_gpu_clock_reason"].items() if on and dict(key)["gpu"] == "0"}
    assert reasons == {"sw_power_cap", "sw_thermal_slowdown"}
    assert told(found, "ongpu_gpu_info", gpu="0", name="NVIDIA A100", bus="0000:01:00.0") == 1
    assert told(found, "ongpu_driver_info", version="535.183.01", cuda="12.2") == 1
    assert told(found, "ongpu_up") == 1
    assert "ongpu_down_info" not in found


def test_every_column_and_identity_field_has_a_metric_or_a_reason_not_to() -> None:
    of = {place: {metric.key for metric in METRICS if metric.place == place} for place in ("row", "identity")}
    assert set(COLUMNS) - of["row"] == {"reasons"}  # ongpu_gpu_clock_reason
    assert set(IDENTITY) - of["identity"] == {"compute_mode", "persistence"}  # settings that no alert or chart asks for
    assert of["row"] <= set(COLUMNS)
    assert of["identity"] <= set(IDENTITY)


def test_what_is_not_told_has_no_series_and_says_why() -> None:
    row: list[int | None] = list(ROW)
    row[PLACE["util"]] = row[PLACE["fan"]] = None
    state = after(
        {"k": "gpu", "i": 0, "uuid": "GPU-0", "mig": True},
        {"k": "why", "i": 0, "codes": {"util": 3, "fan": 3, "processes": 4, "power": 12345}},
        {"k": "s", "t": 2.0, "n": 1, "g": [row, list(ROW)]},
    )
    found = page(state)
    for name in ("utilization_ratio", "fan_ratio", "processes"):
        assert told(found, f"ongpu_gpu_{name}", gpu="0") is None
        assert told(found, f"ongpu_gpu_{name}", gpu="1") is not None
    whys = {dict(key)["field"]: dict(key)["reason"] for key in found["ongpu_gpu_not_told"]}
    assert whys == {"util": "not supported (MIG)", "fan": "not supported", "processes": "no permission (MIG)", "power": "NVML code 12345"}


@pytest.mark.parametrize(("code", "condition"), [(15, "lost"), (4, "denied"), (999, "error")])
def test_a_gpu_that_does_not_answer_keeps_its_series_of_state_and_no_others(code: int, condition: str) -> None:
    found = page(after({"k": "s", "t": 2.0, "n": 1, "g": [list(ROW), code]}))
    states = {dict(key)["state"]: value for key, value in found["ongpu_gpu_state"].items() if dict(key)["gpu"] == "1"}
    assert states.pop(condition) == 1
    assert set(states.values()) == {0}
    assert told(found, "ongpu_gpu_nvml_code", gpu="1", uuid="GPU-1") == code
    assert told(found, "ongpu_gpu_info", gpu="1", uuid="GPU-1") == 1
    assert told(found, "ongpu_gpu_last_seen_timestamp_seconds", gpu="1") == 1.0
    for metric in METRICS:
        if metric.place == "row":
            assert told(found, metric.name, gpu="1") is None
            assert told(found, metric.name, gpu="0") is not None


def test_a_driver_that_is_gone_leaves_an_endpoint_that_says_so() -> None:
    found = page(after({"k": "bye", "t": 2.0, "code": 9, "error": "Driver Not Loaded"}))
    assert told(found, "ongpu_up") == 0
    assert told(found, "ongpu_down_info", reason="Driver Not Loaded", code="9") == 1
    assert told(found, "ongpu_gpu_state", gpu="0", state="unknown") == 1
    assert "ongpu_gpu_utilization_ratio" not in found
    assert told(series(Page().text()), "ongpu_down_info", reason="starting") == 1  # before the first sample


def test_xids_findings_incidents_and_errors_of_parts() -> None:
    state = after({"k": "xid", "t": 2.0, "i": 1, "code": 79}, {"k": "xid", "t": 2.0, "i": 1, "code": 79}, {"k": "log", "error": "denied"})
    said = Said(
        [("gpu-fell-off-bus", 1, "GPU-1", "error"), ("gpu-fell-off-bus", 1, "GPU-1", "error"), ("driver-hung", None, "", "error")],
        {"error": 2}, {"notify": 4}, 8,
    )  # fmt: skip
    found = page(state, said)
    assert told(found, "ongpu_gpu_xid_total", gpu="1", uuid="GPU-1", code="79") == 2
    assert told(found, "ongpu_finding", slug="gpu-fell-off-bus", gpu="1", uuid="GPU-1", severity="error") == 1
    assert told(found, "ongpu_finding", slug="driver-hung", gpu="", uuid="") == 1
    assert [told(found, "ongpu_incidents_open", severity=one) for one in ("error", "warning", "note")] == [2, 0, 0]
    assert told(found, "ongpu_part_errors_total", part="notify") == 4
    assert told(found, "ongpu_part_errors_total", part="store") == 0
    assert told(found, "ongpu_gpus_expected") == 8
    assert told(found, "ongpu_kernel_log_readable") == 0


def test_errors_of_all_parts_of_the_agent_are_counted_from_zero() -> None:
    source = Path(str(metrics.__file__)).with_name("agent.py").read_text("utf-8")
    assert set(re.findall(r'\b(?:guard|failed)\("([a-z ]{1,30})"', source)) <= set(PARTS)


def test_processes_and_jobs_are_bounded_and_nothing_is_lost_in_the_sum() -> None:
    found = page(many(1000), most=100)
    for name in ("ongpu_process_memory_bytes", "ongpu_process_cpu_cores", "ongpu_process_resident_memory_bytes", "ongpu_job_memory_bytes"):
        assert len(found[name]) == 101
    memory = sum(range(1000)) * 2**20
    assert sum(found["ongpu_process_memory_bytes"].values()) == memory
    assert sum(found["ongpu_job_memory_bytes"].values()) == memory
    assert sum(found["ongpu_process_cpu_cores"].values()) == 1000
    assert told(found, "ongpu_process_memory_bytes", pid="999", user="user999", command="python3 train999.py", gpu="1") == 999 * 2**20
    assert told(found, "ongpu_process_memory_bytes", pid="other", gpu="") == sum(range(900)) * 2**20
    assert told(found, "ongpu_job_gpus", job_id="other") == 2
    assert told(found, "ongpu_job_utilization_ratio", job_id="slurm:999") == pytest.approx(0.87)
    few = page(many(4), most=100)
    assert "other" not in str(few["ongpu_process_memory_bytes"])
    assert told(few, "ongpu_process_memory_bytes", pid="0") is None  # not told
    assert told(few, "ongpu_process_resident_memory_bytes", pid="0") == 10 * 2**20


def test_a_process_on_two_gpus_and_in_two_lists_of_one() -> None:
    state = machine()
    host = {"user": "ada", "command": "python -m trainer --lr 1", "rss": 7}
    for index in (0, 1):
        state.gpus[index].processes = [Proc(5, 10, "C", None, host, 2.0), Proc(5, 10, "G", None, host, 2.0)]
    found = page(state)
    assert len(found["ongpu_process_memory_bytes"]) == 2
    assert list(found["ongpu_process_cpu_cores"].values()) == [2.0]
    assert told(found, "ongpu_process_resident_memory_bytes", command="python -m trainer") == 7 * 2**20
    assert told(found, "ongpu_gpu_processes", gpu="0") == 1


@settings(deadline=None)
@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_names_that_others_choose_never_spoil_the_page(user: str, line: str, job: str) -> None:
    state = machine()
    state.gpus[0].processes = [Proc(5, 10, "C", 3, {"user": user, "command": line + "\udcff\n", "job": job + "\x00"}, 1.0)]
    state.gpus[0].name = line
    state.reason = job
    made = Page(host=user)
    made.put(state)
    found = series(made.text())
    list(parsed_openmetrics(made.text(OPENMETRICS).decode()))
    for labels in found["ongpu_process_memory_bytes"]:
        assert all(len(value) <= metrics.LONGEST and value.isprintable() for _, value in labels if value)


def test_the_number_of_series_does_not_wander() -> None:
    """The same machine has the same series from sample to sample, as long as nobody comes or goes."""
    state, seen = State(), set()
    for message in demo.messages(seconds=19, gpus=8):
        state.take(message, message.get("t", 0.0))
        if message["k"] == "p" and state.samples > 1:
            seen.add(frozenset((name, key) for name, rows in page(state).items() for key in rows))
    assert len(seen) == 1


def test_both_formats_say_the_same_and_every_family_stands_in_the_table() -> None:
    state = State()
    for message in demo.messages(seconds=180, gpus=8):  # all faults of the story
        state.take(message, message.get("t", 0.0))
    made = Page(host="node7")
    made.put(state, Said(expected=8))
    text, new = made.text().decode(), made.text(OPENMETRICS).decode()
    samples = {(s.name, tuple(sorted(s.labels.items())), s.value) for f in parsed_text(text) for s in f.samples}
    assert samples == {(s.name, tuple(sorted(s.labels.items())), s.value) for f in parsed_openmetrics(new) for s in f.samples}
    names = {name for name, _, _ in samples}
    assert names <= {metric.name for metric in METRICS} | {name.name for name in dcgm_names.NAMES}
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    assert all({label for label, _ in key} == labels[name] for name, key, _ in samples if name in labels)


def test_names_keep_the_conventions() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"ongpu_[a-z0-9_]+", metric.name)
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert not metric.unit or metric.name.removesuffix("_total").endswith("_" + metric.unit)
        assert metric.en != metric.zh
        assert re.search(r"[\u4e00-\u9fff]", metric.zh)


def test_the_names_of_dcgm_exporter() -> None:
    found = page(after({"k": "xid", "t": 2.0, "i": 1, "code": 31}, {"k": "xid", "t": 2.0, "i": 1, "code": 13}), host="node7")
    expected = {
        "DCGM_FI_DEV_GPU_UTIL": 87, "DCGM_FI_DEV_MEM_COPY_UTIL": 40, "DCGM_FI_DEV_FB_USED": 1024, "DCGM_FI_DEV_FB_FREE": 1024,
        "DCGM_FI_DEV_GPU_TEMP": 61, "DCGM_FI_DEV_POWER_USAGE": 250.5, "DCGM_FI_DEV_SM_CLOCK": 1410, "DCGM_FI_DEV_MEM_CLOCK": 1593,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 9_000_500, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.87, "DCGM_FI_DEV_XID_ERRORS": 13,
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 7, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 3,
    }  # fmt: skip
    labels = {
        "gpu": "1", "UUID": "GPU-1", "device": "nvidia1", "modelName": "NVIDIA A100", "Hostname": "node7",
        "pci_bus_id": "00000000:02:00.0", "DCGM_FI_DRIVER_VERSION": "535.183.01",
    }  # fmt: skip
    assert {name: told(found, name, **labels) for name in expected} == expected
    assert told(found, "DCGM_FI_DEV_XID_ERRORS", gpu="0") == 0
    lost = page(after({"k": "s", "t": 2.0, "n": 1, "g": [list(ROW), 15]}), host="node7")
    assert told(lost, "DCGM_FI_DEV_GPU_UTIL", gpu="1") is None
    assert told(lost, "DCGM_FI_DEV_FB_FREE", gpu="1") is None
