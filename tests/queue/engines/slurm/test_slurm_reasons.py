"""Every reason that Slurm's documentation names has words in both languages that say what to do; so has each message of refusal."""
# ruff: noqa: E501 - messages stand in one piece

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.engines.slurm import errors
from ongpu.queue.engines.slurm.reasons import WORDS, spaced, words

# https://slurm.schedmd.com/job_reason_codes.html, "All Reasons", and squeue(1) of 22.05
DOCUMENTED = [
    "AccountingPolicy",
    "AccountNotAllowed",
    "AssocGrpBB",
    "AssocGrpBBMinutes",
    "AssocGrpBBRunMinutes",
    "AssocGrpBilling",
    "AssocGrpBillingMinutes",
    "AssocGrpBillingRunMinutes",
    "AssocGrpCpuLimit",
    "AssocGrpCPUMinutesLimit",
    "AssocGrpCPURunMinutesLimit",
    "AssocGrpEnergy",
    "AssocGrpEnergyMinutes",
    "AssocGrpEnergyRunMinutes",
    "AssocGrpGRES",
    "AssocGrpGRESMinutes",
    "AssocGrpGRESRunMinutes",
    "AssocGrpJobsLimit",
    "AssocGrpLicense",
    "AssocGrpLicenseMinutes",
    "AssocGrpLicenseRunMinutes",
    "AssocGrpMemLimit",
    "AssocGrpMemMinutes",
    "AssocGrpMemRunMinutes",
    "AssocGrpNodeLimit",
    "AssocGrpNodeMinutes",
    "AssocGrpNodeRunMinutes",
    "AssocGrpSubmitJobsLimit",
    "AssocGrpUnknown",
    "AssocGrpUnknownMinutes",
    "AssocGrpUnknownRunMinutes",
    "AssocGrpWallLimit",
    "AssocMaxBBMinutesPerJob",
    "AssocMaxBBPerJob",
    "AssocMaxBBPerNode",
    "AssocMaxBillingMinutesPerJob",
    "AssocMaxBillingPerJob",
    "AssocMaxBillingPerNode",
    "AssocMaxCpuMinutesPerJobLimit",
    "AssocMaxCpuPerJobLimit",
    "AssocMaxCpuPerNode",
    "AssocMaxEnergyMinutesPerJob",
    "AssocMaxEnergyPerJob",
    "AssocMaxEnergyPerNode",
    "AssocMaxGRESMinutesPerJob",
    "AssocMaxGRESPerJob",
    "AssocMaxGRESPerNode",
    "AssocMaxJobsLimit",
    "AssocMaxLicenseMinutesPerJob",
    "AssocMaxLicensePerJob",
    "AssocMaxMemMinutesPerJob",
    "AssocMaxMemPerJob",
    "AssocMaxMemPerNode",
    "AssocMaxNodeMinutesPerJob",
    "AssocMaxNodePerJobLimit",
    "AssocMaxSubmitJobLimit",
    "AssocMaxUnknownMinutesPerJob",
    "AssocMaxUnknownPerJob",
    "AssocMaxUnknownPerNode",
    "AssocMaxWallDurationPerJobLimit",
    "AssociationJobLimit",
    "AssociationResourceLimit",
    "AssociationTimeLimit",
    "BadConstraints",
    "BeginTime",
    "BurstBufferOperation",
    "BurstBufferResources",
    "BurstBufferStageIn",
    "Cleaning",
    "Constraints",
    "DeadLine",
    "Dependency",
    "DependencyNeverSatisfied",
    "FedJobLock",
    "InactiveLimit",
    "InvalidAccount",
    "InvalidQOS",
    "JobArrayTaskLimit",
    "JobHeldAdmin",
    "JobHeldUser",
    "JobHoldMaxRequeue",
    "JobLaunchFailure",
    "Licenses",
    "MaxBBPerAccount",
    "MaxBillingPerAccount",
    "MaxCpuPerAccount",
    "MaxEnergyPerAccount",
    "MaxGRESPerAccount",
    "MaxJobsPerAccount",
    "MaxLicensePerAccount",
    "MaxMemoryPerAccount",
    "MaxMemPerLimit",
    "MaxNodePerAccount",
    "MaxSubmitJobsPerAccount",
    "MaxUnknownPerAccount",
    "NodeDown",
    "NonZeroExitCode",
    "None",
    "OutOfMemory",
    "PartitionConfig",
    "PartitionDown",
    "PartitionInactive",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "Priority",
    "Prolog",
    "QOSGrpBB",
    "QOSGrpBBMinutes",
    "QOSGrpBBRunMinutes",
    "QOSGrpBilling",
    "QOSGrpBillingMinutes",
    "QOSGrpBillingRunMinutes",
    "QOSGrpCpuLimit",
    "QOSGrpCPUMinutesLimit",
    "QOSGrpCPURunMinutesLimit",
    "QOSGrpEnergy",
    "QOSGrpEnergyMinutes",
    "QOSGrpEnergyRunMinutes",
    "QOSGrpGRES",
    "QOSGrpGRESMinutes",
    "QOSGrpGRESRunMinutes",
    "QOSGrpJobsLimit",
    "QOSGrpLicense",
    "QOSGrpLicenseMinutes",
    "QOSGrpLicenseRunMinutes",
    "QOSGrpMemLimit",
    "QOSGrpMemoryMinutes",
    "QOSGrpMemoryRunMinutes",
    "QOSGrpNodeLimit",
    "QOSGrpNodeMinutes",
    "QOSGrpNodeRunMinutes",
    "QOSGrpSubmitJobsLimit",
    "QOSGrpUnknown",
    "QOSGrpUnknownMinutes",
    "QOSGrpUnknownRunMinutes",
    "QOSGrpWallLimit",
    "QOSJobLimit",
    "QOSMaxBBMinutesPerJob",
    "QOSMaxBBPerJob",
    "QOSMaxBBPerNode",
    "QOSMaxBBPerUser",
    "QOSMaxBillingMinutesPerJob",
    "QOSMaxBillingPerJob",
    "QOSMaxBillingPerNode",
    "QOSMaxBillingPerUser",
    "QOSMaxCpuMinutesPerJobLimit",
    "QOSMaxCpuPerJobLimit",
    "QOSMaxCpuPerNode",
    "QOSMaxCpuPerUserLimit",
    "QOSMaxEnergyMinutesPerJob",
    "QOSMaxEnergyPerJob",
    "QOSMaxEnergyPerNode",
    "QOSMaxEnergyPerUser",
    "QOSMaxGRESMinutesPerJob",
    "QOSMaxGRESPerJob",
    "QOSMaxGRESPerNode",
    "QOSMaxGRESPerUser",
    "QOSMaxJobsPerUserLimit",
    "QOSMaxLicenseMinutesPerJob",
    "QOSMaxLicensePerJob",
    "QOSMaxLicensePerUser",
    "QOSMaxMemoryMinutesPerJob",
    "QOSMaxMemoryPerJob",
    "QOSMaxMemoryPerNode",
    "QOSMaxMemoryPerUser",
    "QOSMaxNodeMinutesPerJob",
    "QOSMaxNodePerJobLimit",
    "QOSMaxNodePerUserLimit",
    "QOSMaxSubmitJobPerUserLimit",
    "QOSMaxUnknownMinutesPerJob",
    "QOSMaxUnknownPerJob",
    "QOSMaxUnknownPerNode",
    "QOSMaxUnknownPerUser",
    "QOSMaxWallDurationPerJobLimit",
    "QOSMinBB",
    "QOSMinBilling",
    "QOSMinCpuNotSatisfied",
    "QOSMinEnergy",
    "QOSMinGRES",
    "QOSMinLicense",
    "QOSMinMemory",
    "QOSMinNode",
    "QOSMinUnknown",
    "QOSNotAllowed",
    "QOSResourceLimit",
    "QOSTimeLimit",
    "QOSUsageThreshold",
    "ReqNodeNotAvail",
    "Reservation",
    "ReservationDeleted",
    "Resources",
    "SchedDefer",
    "SystemFailure",
    "TimeLimit",
    "FrontEndDown",
    "WaitingForScheduling",
    # src/common/job_state_reason.c of 25.05 and 26.05; the page leaves these out
    *(f"Max{what}RunMinsPer{whom}" for what in ("BB", "Billing", "Cpu", "Energy", "GRES", "License", "Memory", "Node", "Unknown")
      for whom in ("Account", "User")),
    "MaxPoweredUpNodes", "MpiPortsBusy", "NvidiaImexChannels", "RaisedSignal", "RaisedSignal:9(Killed)", "ReservationInvalid",
]  # fmt: skip
CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize("reason", DOCUMENTED)
def test_every_reason_has_words(reason: str) -> None:
    found = words(reason)
    assert found is not None, reason
    english, do, chinese, do_zh = found
    assert english
    assert do
    assert do_zh
    assert CHINESE.search(chinese)
    assert not CHINESE.search(english + do)


def test_limits_say_what_for_whom_and_how() -> None:
    assert words("QOSMaxGRESPerUser") == (
        "a user may have no more under its QOS: GPUs", "wait for jobs of that owner to end: sacctmgr show qos",
        "单个用户在该QOS下已到上限：GPU", "等自己的作业结束：sacctmgr show qos",
    )  # fmt: skip
    assert "minutes of CPUs of what runs" in (words("AssocGrpCPURunMinutesLimit") or ("",))[0]
    assert "its account" in (words("AssocGrpGRES") or ("",))[0]
    assert "a user may have no more under its QOS: minutes of GPUs of what runs" in (words("MaxGRESRunMinsPerUser") or ("",))[0]
    assert words("QOSMaxGRESPerJob") != words("QOSMaxGRESPerUser") != words("QOSGrpGRES")


@pytest.mark.parametrize(("said", "name"), [
    ("ReqNodeNotAvail, UnavailableNodes:gpu07", "ReqNodeNotAvail"), ("(Resources)", "Resources"), ("launch failed requeued held", "JobHeldUser"),
    ("job requeued in held state", "JobHeldUser"), ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", "ReqNodeNotAvail"),
    ("Something new", None),
])  # fmt: skip
def test_reasons_as_they_are_printed(said: str, name: str | None) -> None:
    assert words(said) == (WORDS[name] if name else None)
    assert spaced("JobHeldUser") == "Job Held User"


@given(st.text(max_size=60))
def test_any_reason(text: str) -> None:
    words(text)
    spaced(text)


@pytest.mark.parametrize(("text", "want", "down"), [
    ("sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified", "nope: no such partition", False),
    ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", "controller does not answer", True),
    ("sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge encode failed: Failed to access \"/x/munge.socket.2\": No such file", "munge is not running", True),
    ("squeue: error: slurm_load_jobs error: Protocol authentication error", "munge's key or clock", True),
    ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified", "not your account", False),
    ("sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", "a limit of your account or QOS", False),
    ("sbatch: error: Batch job submission failed: Invalid qos specification", "no such QOS", False),
    ("sbatch: error: Memory specification can not be satisfied\nsbatch: error: Batch job submission failed: Requested node configuration is not available", "no node has so much memory", False),
    ("scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nscontrol: fatal: Could not establish a configuration source", "no slurm.conf here", True),
    ("Slurm accounting storage is disabled", "keeps no accounts", False),
    ("sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:db:6819: Connection refused\n"
     "sacct: error: Sending PersistInit msg: Connection refused\nsacct: error: Problem talking to the database: Connection refused",
     "database does not answer", False),
    ("Access/permission denied for job 7", "owner or an operator", False),
    ("sbatch: unrecognized option '--frob'\nTry \"sbatch --help\" for more information", "Slurm says: unrecognized option", False),
    ("", "", False),
])  # fmt: skip
def test_refusals_say_what_to_do(text: str, want: str, down: bool) -> None:
    english, chinese, gone = errors.told(text)
    assert want in english
    assert gone is down
    assert bool(CHINESE.search(chinese)) is bool(want)
    assert "\n" not in english + chinese


def test_every_message_has_both_languages() -> None:
    for needle, english, chinese, _ in errors.TABLE:
        assert needle == needle.lower()
        assert CHINESE.search(chinese)
        assert not CHINESE.search(english)


@given(st.text(max_size=300))
def test_any_message(text: str) -> None:
    english, chinese, _ = errors.told(text)
    assert len(english) < 600
    assert len(chinese) < 600
