"""The configuration that is written has no trap; each trap is found where it is put into it, and nowhere else."""
# ruff: noqa: E501 - a configuration has long lines

import json
import os
import re
import string
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fronts_run import ongpu
from hypothesis import given
from hypothesis import strategies as st
from parts.machines import Box

from ongpu.queue.engines.slurm.nodes import Node
from ongpu.queue.engines.slurm.setup import conf
from ongpu.queue.engines.slurm.setup.checks import check
from ongpu.queue.engines.slurm.setup.devices import gres_word, roomy
from ongpu.queue.engines.slurm.setup.files import Files, gather
from ongpu.queue.engines.slurm.setup.here import Gpu, Here, look, unsafe
from ongpu.queue.engines.slurm.setup.traps import TRAPS
from ongpu.queue.engines.slurm.setup.write import executable, files, steps

A100 = tuple(Gpu(i, "NVIDIA A100-SXM4-80GB", i, 81920) for i in range(4))
HERE = Here(
    host="ws1", cpus=64, sockets=2, cores=16, threads=2, memory=512_000, gpus=A100, nodes=frozenset(range(4)), cgroup="v2", version=(23, 11, 4),
    plugins=frozenset({"gpu_generic.so"}), ongpu="/opt/ongpu/bin/ongpu",
)  # fmt: skip
SCRIPTS = ("/etc/slurm/ongpu-healthcheck.sh", "/etc/slurm/ongpu-prolog.sh", "/etc/slurm/ongpu-taskprolog.sh")


def written(here: Here = HERE) -> dict[str, str]:
    return files(here)


def read(texts: dict[str, str], **more: object) -> Files:
    found = {name: conf.read(texts[name], name) if name in texts else conf.Conf(name=name, there=False) for name in conf.NAMES}
    programs = {f"/etc/slurm/{name}": text for name, text in texts.items() if executable(name)}
    values = {"programs": programs, **more}
    return Files(slurm=found["slurm.conf"], gres=found["gres.conf"], cgroup=found["cgroup.conf"], **values)  # type: ignore[arg-type]


def slugs(texts: dict[str, str], here: Here = HERE, **more: object) -> set[str]:
    return {one.slug for one in check(read(texts, **more), here)}


class TestWritten:
    @pytest.mark.parametrize("here", [
        HERE, Here(host="ws1", cpus=2, cores=2, memory=2000), Here(host="w", cpus=8, cores=8, memory=30_000, cgroup="v1", gpus=A100[:1], nodes=frozenset({0}), version=(22, 5, 8)),
        Here(host="gpu-box", cpus=12, cores=6, threads=2, memory=64_000, cgroup="v2", systemd=False, gpus=(Gpu(0, "NVIDIA GeForce RTX 4090", 0), Gpu(1, "NVIDIA RTX A6000", 1)), nodes=frozenset({0, 1})),
        Here(host="m", cpus=12, cores=12, memory=64_000, gpus=(Gpu(0, "NVIDIA A100", 2), Gpu(1, "NVIDIA A100", 0), Gpu(2, "NVIDIA A100", 1)), nodes=frozenset({0, 1, 2})),
        Here(host="old", cpus=12, cores=12, memory=64_000, cgroup="v1", version=(21, 8, 5), gpus=A100, nodes=frozenset(range(4))),
    ], ids=["a100", "no-gpu", "one", "unlike", "minors", "old"])  # fmt: skip
    def test_it_has_no_trap(self, here: Here) -> None:
        assert slugs(written(here), here) == set()

    def test_what_it_says(self) -> None:
        texts = written()
        text = texts["slurm.conf"]
        assert "for ws1: 4 x NVIDIA A100-SXM4-80GB, 64 CPUs, 512000 MiB of memory." in text
        assert (
            "NodeName=ws1 NodeAddr=127.0.0.1 CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=495616 Gres=gpu:a100-sxm4-80gb:4 State=UNKNOWN"
            in text
        )
        assert "DefMemPerCPU=7744\nDefCpuPerGPU=16\n" in text
        assert texts["gres.conf"].count("File=/dev/nvidia") == 4
        assert "ONGPU=/opt/ongpu/bin/ongpu" in texts["ongpu-prolog.sh"]
        assert "ConstrainDevices=yes" in texts["cgroup.conf"]
        assert "CgroupPlugin" not in files(replace(HERE, version=(21, 8, 5), cgroup="v1"))["cgroup.conf"]  # 22.05 and newer know it

    def test_a_partitioned_gpu_is_left_out_and_said(self) -> None:
        here = replace(HERE, gpus=(A100[0], replace(A100[1], mig=True), *A100[2:]))
        texts = written(here)
        assert "# NodeName=ws1 Name=gpu Type=a100-sxm4-80gb File=/dev/nvidia1" in texts["gres.conf"]
        assert "Gres=gpu:a100-sxm4-80gb:3" in texts["slurm.conf"]
        assert slugs(texts, here) == {"gpu-left-open", "gres-count-differs"}

    @pytest.mark.parametrize("name", ["ongpu-healthcheck.sh", "ongpu-prolog.sh", "ongpu-taskprolog.sh"])
    def test_the_scripts_are_sound_shell(self, name: str) -> None:
        assert subprocess.run(["sh", "-n"], input=written()[name], text=True, check=False).returncode == 0

    @pytest.mark.parametrize(
        "name", ["NVIDIA GeForce RTX 4090", "Tesla V100-SXM2-16GB", "NVIDIA H100 80GB HBM3", "Quadro RTX 6000", "A (B) / C", "", "4090"]
    )
    def test_types_are_words_that_slurm_takes(self, name: str) -> None:
        assert re.fullmatch(r"[a-z][\w.-]*", Gpu(0, name).type)

    @given(st.integers(512, 8_000_000))
    def test_the_system_keeps_some_memory(self, memory: int) -> None:
        assert memory // 2 <= roomy(memory) < memory

    def test_a_place_with_spaces(self) -> None:
        assert "\nONGPU='/opt/my folder/ongpu'\n" in written(replace(HERE, ongpu="/opt/my folder/ongpu"))["ongpu-prolog.sh"]

    def test_the_steps_name_every_file(self) -> None:
        assert all(any(name in step for step in steps(HERE, "/etc/slurm", "d")) for name in written())


def edit(old: str, new: str, name: str = "slurm.conf") -> Callable[[dict[str, str]], dict[str, str]]:
    def change(texts: dict[str, str]) -> dict[str, str]:
        assert old in texts[name], old
        return {**texts, name: texts[name].replace(old, new)}

    return change


def more(line: str, name: str = "slurm.conf") -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda texts: {**texts, name: f"{texts[name]}\n{line}\n"}


def same(texts: dict[str, str]) -> dict[str, str]:
    return texts


DOWN = Node(name="ws1", state="DOWN+DRAIN", gpus=("a",) * 4, reason="Prolog error")
SHORT = Node(name="ws1", state="IDLE", gpus=("a",) * 3)
TRAPPED = [
    ("no-configuration", lambda texts: {}, HERE, {}),
    ("not-readable-by-all", same, HERE, {"modes": {"/etc/slurm/slurm.conf": "600"}}),
    ("munge-key-open", same, HERE, {"modes": {"/etc/munge/munge.key": "644"}}),
    ("obsolete-parameter", more("FastSchedule=1"), HERE, {}),
    ("obsolete-parameter", more("CacheGroups=0"), HERE, {}),
    ("set-twice", more("SchedulerParameters=nohold_on_prolog_fail,batch_sched_delay=0,sched_interval=5,bf_interval=5"), HERE, {}),
    ("no-gres-types", edit("GresTypes=gpu", "GresTypes=mps"), HERE, {}),
    ("gres-count-differs", edit("Gres=gpu:a100-sxm4-80gb:4", "Gres=gpu:a100-sxm4-80gb:8"), HERE, {}),
    ("gres-count-differs", same, replace(HERE, gpus=A100[:3]), {}),
    ("gpu-left-open", edit("NodeName=ws1 Name=gpu Type=a100-sxm4-80gb File=/dev/nvidia1\n", "", "gres.conf"), HERE, {}),
    ("gres-device-missing", same, replace(HERE, nodes=frozenset({0, 1, 2})), {}),
    ("gres-without-file", more("NodeName=ws1 Name=gpu Type=a100-sxm4-80gb", "gres.conf"), HERE, {}),
    ("gres-type-differs", edit("Type=a100-sxm4-80gb", "Type=a100", "gres.conf"), HERE, {}),
    ("autodetect-unsupported", edit("AutoDetect=off", "AutoDetect=nvml", "gres.conf"), HERE, {}),
    ("mig-as-whole", same, replace(HERE, gpus=(replace(A100[0], mig=True), *A100[1:])), {}),
    ("devices-not-constrained", edit("ConstrainDevices=yes", "ConstrainDevices=no", "cgroup.conf"), HERE, {}),
    ("devices-not-constrained", edit("TaskPlugin=task/cgroup,task/affinity", "TaskPlugin=task/affinity"), HERE, {}),
    ("devices-not-constrained", lambda texts: {n: t for n, t in texts.items() if n != "cgroup.conf"}, HERE, {}),
    ("processes-escape", edit("proctrack/cgroup", "proctrack/linuxproc"), HERE, {}),
    ("memory-not-limited", edit("ConstrainRAMSpace=yes", "ConstrainRAMSpace=no", "cgroup.conf"), HERE, {}),
    ("memory-not-counted", edit("CR_Core_Memory", "CR_Core"), HERE, {}),
    ("no-default-memory", edit("DefMemPerCPU=7744\n", ""), HERE, {}),
    ("whole-node-jobs", edit("SelectType=select/cons_tres", "SelectType=select/linear"), HERE, {}),
    ("whole-node-jobs", edit("SelectType=select/cons_tres\n", ""), replace(HERE, version=(22, 5, 8)), {}),
    ("whole-node-jobs", edit("Default=YES", "Default=YES OverSubscribe=EXCLUSIVE"), HERE, {}),
    ("select-without-gpus", edit("select/cons_tres", "select/cons_res"), HERE, {}),
    ("no-such-node", same, replace(HERE, host="other"), {}),
    ("cpus-differ", edit("CPUs=64", "CPUs=128"), HERE, {}),
    ("memory-too-large", edit("RealMemory=495616", "RealMemory=600000"), HERE, {}),
    ("memory-to-the-last", edit("RealMemory=495616", "RealMemory=512000"), HERE, {}),
    ("memory-not-told", edit(" RealMemory=495616", ""), HERE, {}),
    ("prolog-holds-jobs", edit("nohold_on_prolog_fail,", ""), HERE, {}),
    ("setup-holds-jobs", edit("nohold_on_prolog_fail,", "nohold_on_prolog_fail,requeue_setup_env_fail,"), HERE, {}),
    ("jobs-not-requeued", edit("JobRequeue=1", "JobRequeue=0"), HERE, {}),
    ("prolog-drains-node", same, HERE, {"programs": dict.fromkeys(SCRIPTS, "#!/bin/sh\necho export CUDA_DEVICE_ORDER=PCI_BUS_ID\n")}),
    ("no-health-check", edit("HealthCheckInterval=60", "HealthCheckInterval=0"), HERE, {}),
    ("no-health-check", edit("HealthCheckProgram=/etc/slurm/ongpu-healthcheck.sh\n", ""), HERE, {}),
    ("health-check-late", edit("HealthCheckInterval=60", "HealthCheckInterval=3600"), HERE, {}),
    ("script-missing", same, HERE, {"programs": {**dict.fromkeys(SCRIPTS, "MARK=CUDA_DEVICE_ORDER"), SCRIPTS[1]: None}}),
    ("script-without-ongpu", same, HERE, {"lost": {SCRIPTS[1]: "ongpu"}}),
    ("script-of-a-user", same, HERE, {"owners": {SCRIPTS[0]: "/home/ann/bin/ongpu"}}),
    ("script-reads-cuda", same, HERE, {"programs": dict.fromkeys(SCRIPTS, 'MARK=x CUDA_DEVICE_ORDER\nfor i in $CUDA_VISIBLE_DEVICES; do :; done')}),
    ("stays-down", edit("ReturnToService=2", "ReturnToService=1"), HERE, {}),
    ("stays-down", edit("ReturnToService=2\n", ""), HERE, {}),
    ("hardware-not-checked", more("SlurmdParameters=config_overrides"), HERE, {}),
    ("slow-scheduler", edit("batch_sched_delay=0,sched_interval=5,", ""), HERE, {}),
    ("no-time-limits", edit(" DefaultTime=7-00:00:00", ""), HERE, {}),
    ("state-is-lost", edit("/var/lib/slurm/slurmctld", "/run/slurm"), HERE, {}),
    ("cgroup-version", edit("cgroup/v2", "cgroup/v1", "cgroup.conf"), HERE, {}),
    ("cgroup-too-new", same, replace(HERE, version=(21, 8, 5)), {}),
    ("cgroup-without-systemd", same, replace(HERE, systemd=False), {}),
    ("gpus-not-counted", more("AccountingStorageType=accounting_storage/slurmdbd"), HERE, {}),
    ("count-needs-database", more("AccountingStorageTRES=gres/gpu"), HERE, {}),
    ("nobody-remembers", edit("JobCompType=jobcomp/filetxt", "JobCompType=jobcomp/none"), HERE, {}),
    ("order-differs", same, replace(HERE, gpus=(replace(A100[0], minor=1), replace(A100[1], minor=0), *A100[2:])), {}),
    ("cuda-order", same, replace(HERE, gpus=(*A100[:3], replace(A100[3], name="NVIDIA T4"))), {"programs": dict.fromkeys(SCRIPTS, "MARK=")}),
    ("limits-carried-over", edit("PropagateResourceLimitsExcept=MEMLOCK,NOFILE\n", ""), HERE, {}),
    ("no-such-user", edit("SlurmUser=slurm", "SlurmUser=slrum"), HERE, {}),
    ("running-differs", same, HERE, {"running": conf.running("ReturnToService         = 1\nGresTypes = gpu\n")}),
    ("running-gpus-differ", same, HERE, {"running": conf.running(""), "nodes": (SHORT,)}),
    ("node-closed", same, HERE, {"running": conf.running(""), "nodes": (DOWN,)}),
]  # fmt: skip


class TestTraps:
    @pytest.mark.parametrize(("slug", "change", "here", "values"), TRAPPED, ids=[f"{row[0]}-{i}" for i, row in enumerate(TRAPPED)])
    def test_each_is_found(
        self, slug: str, change: Callable[[dict[str, str]], dict[str, str]], here: Here, values: dict[str, object]
    ) -> None:
        found = check(read(change(written()), **values), here)
        assert slug in {one.slug for one in found}
        for one in found:
            for lang in ("en", "zh"):
                assert all(one.text(lang))
                assert "{" not in "".join(one.text(lang))

    def test_every_trap_is_tried(self) -> None:
        assert {row[0] for row in TRAPPED} == set(TRAPS)

    @pytest.mark.parametrize("slug", sorted(TRAPS))
    def test_words_in_both_languages(self, slug: str) -> None:
        trap = TRAPS[slug]

        def names(*texts: str) -> set[str]:
            return {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}

        assert names(trap.en) == names(trap.zh)
        assert names(trap.why) == names(trap.why_zh)
        assert re.search("[\u4e00-\u9fff]", trap.why_zh)
        assert not re.search("[\u4e00-\u9fff]", trap.en + trap.why)

    def test_a_mended_line_ends_it(self) -> None:
        """What `mend` says is enough, for those that are a line of slurm.conf."""
        mended = 0
        for _, change, here, values in TRAPPED:
            texts = change(written())
            for one in check(read(texts, **values), here):
                name = one.mend.partition("=")[0]
                if (
                    one.place.startswith("slurm.conf")
                    and re.fullmatch(r"[A-Za-z]+=[\w/,.=-]+", one.mend)
                    and name not in ("Gres", "CPUs", "RealMemory", "DefaultTime", "OverSubscribe")
                ):
                    kept = "\n".join(line for line in texts["slurm.conf"].splitlines() if not line.startswith(f"{name}="))
                    again = check(read({**texts, "slurm.conf": f"{kept}\n{one.mend}\n"}, **values), here)
                    left = {(two.slug, str(two.values)) for two in again}
                    assert (one.slug, str(one.values)) not in left or one.slug in ("running-differs", "cuda-order"), one
                    mended += 1
        assert mended > 10

    @pytest.mark.parametrize("here", [HERE, replace(HERE, version=(22, 5, 8))])
    def test_memory_is_counted_where_nothing_is_said(self, here: Here) -> None:
        """CR_Core_Memory is the default of select/cons_tres, in all versions since 21.08 (slurm.conf(5))."""
        assert slugs(edit("SelectTypeParameters=CR_Core_Memory\n", "")(written()), here) == set()

    def test_gpus_of_a_type_that_begins_with_a_number(self) -> None:
        texts = {name: text.replace("a100-sxm4-80gb", "2080ti") for name, text in written().items()}
        assert slugs(texts) == set()

    def test_another_machines_file_is_not_compared_with_this_one(self) -> None:
        assert slugs(written(), replace(HERE, host="laptop", gpus=(), memory=8000, cpus=4, cgroup="v1"), ours=False) == set()

    def test_many_nodes(self) -> None:
        texts = written()
        text = re.sub(r"NodeName=ws1 NodeAddr=127.0.0.1", "NodeName=DEFAULT Gres=gpu:a100:8\nNodeName=gpu[01-04]", texts["slurm.conf"])
        text = re.sub(r"Gres=gpu:a100-sxm4-80gb:4 ", "", text)
        gres = "NodeName=gpu[01-03] Name=gpu Type=a100 File=/dev/nvidia[0-7]\nNodeName=gpu04 Name=gpu Type=a100 File=/dev/nvidia[0-6]\n"
        found = [
            one
            for one in check(read({**texts, "slurm.conf": text, "gres.conf": gres}, ours=False), HERE)
            if one.slug == "gres-count-differs"
        ]
        assert [(one.values["node"], one.values["count"]) for one in found] == [("gpu04", 7)]


class TestFile:
    def test_as_slurm_reads_it(self) -> None:
        read_conf = conf.read(
            'A=1 # B=2\nsElEcTtYpE="select/x" \\\n  GresTypes=gpu,mps\n# C=3\nInclude more.conf\nA=4',
            "slurm.conf",
            {"more.conf": "D=5\nInclude more.conf"},
        )
        assert (read_conf.get("a"), read_conf.get("B"), read_conf.get("SelectType"), read_conf.get("D")) == ("4", "", "select/x", "5")
        assert read_conf.words("GresTypes") == ("gpu", "mps")
        assert read_conf.place("GresTypes") == "slurm.conf:2"
        assert read_conf.place("D") == "more.conf:1"
        assert conf.includes("Include /x/y\ninclude z") == ["/x/y", "z"]

    @given(st.text(alphabet=st.sampled_from('NodeName=ab[]0-9,#\\"\n Gres:gpu Include'), max_size=300))
    def test_any_text(self, text: str) -> None:
        for name in conf.NAMES:
            check(read({**written(), name: text}), HERE)
        conf.running(text)


class TestShell:
    @pytest.fixture
    def box(self, tmp_path: Path, nvml: Path) -> tuple[Box, Path, dict[str, str]]:
        box = Box(cards=4, files={
            "/proc/cpuinfo": "".join(f"processor\t: {i}\nphysical id\t: {i % 2}\ncore id\t: {i // 2}\n\n" for i in range(16)), "/proc/meminfo": "MemTotal:       131072000 kB\n",
            "/etc/hostname": "ws1.lab.example\n", "/etc/passwd": "root:x:0:0::/:/bin/sh\nslurm:x:64030:64030::/:/bin/false\n", "/sys/fs/cgroup/cgroup.controllers": "cpu\n", "/run/systemd/system/x": "",
        })  # fmt: skip
        root = tmp_path / "machine"
        box.write(root)
        return box, root, {**box.environment(nvml), "PATH": os.environ["PATH"]}

    def test_written_for_the_machine_that_is_there(self, box: tuple[Box, Path, dict[str, str]], tmp_path: Path) -> None:
        _, root, environ = box
        done = ongpu("queue", "setup", "slurm", "--root", str(root), "--write", str(tmp_path / "out"), **environ)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "out" / "slurm.conf").read_text()
        assert (
            "NodeName=ws1 NodeAddr=127.0.0.1 CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=121600 Gres=gpu:a100_80gb_pcie:4 State=UNKNOWN"
            in text
        )
        assert (tmp_path / "out" / "ongpu-prolog.sh").stat().st_mode & 0o111
        again = ongpu("queue", "setup", "slurm", "--root", str(root), "--write", str(tmp_path / "out"), **environ)
        assert again.returncode == 0  # the same: nothing is lost
        (tmp_path / "out" / "slurm.conf").write_text("ours")
        refused = ongpu("queue", "setup", "slurm", "--root", str(root), "--write", str(tmp_path / "out"), **environ)
        assert (refused.returncode, (tmp_path / "out" / "slurm.conf").read_text()) == (2, "ours")

    def test_checked_in_its_place(self, box: tuple[Box, Path, dict[str, str]]) -> None:
        machine, root, environ = box
        printed = json.loads(ongpu("queue", "setup", "slurm", "--single-node", "--root", str(root), "--format", "json", **environ).stdout)
        for name, text in printed["files"].items():
            machine.put(f"/etc/slurm/{name}", text).chmod(0o755 if name.endswith(".sh") else 0o644)
        clean = ongpu("queue", "setup", "slurm", "--check", "--root", str(root), **environ)
        assert (clean.returncode, clean.stdout.splitlines()[-1]) == (0, "0 errors, 0 warnings, 0 notes"), clean.stdout
        machine.put("/etc/slurm/slurm.conf", printed["files"]["slurm.conf"].replace("DefMemPerCPU", "# DefMemPerCPU"))
        (root / "etc/slurm/ongpu-prolog.sh").chmod(0o644)
        bad = ongpu("queue", "setup", "slurm", "--check", "--root", str(root), **environ)
        assert bad.returncode == 1
        assert {"no-default-memory", "script-missing"} == set(re.findall(r"^error: ([\w-]+)", bad.stdout, re.MULTILINE))
        chinese = ongpu("queue", "setup", "slurm", "--check", "--root", str(root), "--lang", "zh", **environ)
        assert "一次只能跑一个" in chinese.stdout
        assert "写法" in chinese.stdout

    def test_a_folder_that_is_not_in_place_yet(self, tmp_path: Path) -> None:
        for name, text in written(replace(HERE, host="elsewhere")).items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755 if executable(name) else 0o644)
        told = ongpu("queue", "setup", "slurm", "--check", str(tmp_path))
        assert set(re.findall(r"^(?:error|warning): ([\w-]+)", told.stdout, re.MULTILINE)) <= {"script-of-a-user"}
        one = ongpu("queue", "setup", "slurm", "--check", str(tmp_path / "gres.conf"))
        assert "no-configuration" not in one.stdout  # slurm.conf beside it is read too

    @pytest.mark.parametrize(("arguments", "words"), [
        ((), "say --single-node"), (("--check", "/nonexistent/slurm.conf"), "no such file"), (("--single-node", "--only", "x"), "one of slurm.conf"),
    ])  # fmt: skip
    def test_bad_usage(self, arguments: tuple[str, ...], words: str) -> None:
        done = ongpu("queue", "setup", "slurm", *arguments, "--patience", "1")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert words in done.stderr

    def test_one_file_bare(self) -> None:
        done = ongpu("queue", "setup", "slurm", "--single-node", "--only", "cgroup.conf", "--patience", "1")
        assert "ConstrainDevices=yes\n" in done.stdout
        assert "#" not in done.stdout.replace("# No systemd here, so slurmd arranges its cgroups itself.", "")


class TestMachine:
    def test_files_that_others_may_change(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            assert unsafe(str(tmp_path))  # our own, and we are not root
            pytest.skip("not root: a file of another cannot be made")
        place = tmp_path / "hook"
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
        safe = unsafe(str(place))
        assert str(place) not in safe
        os.chown(place, 12345, -1)
        assert unsafe(str(place)) == str(place)
        os.chown(place, 0, -1)
        place.chmod(0o777)
        assert unsafe(str(place)) == str(place)
        place.chmod(0o755)
        (tmp_path / "user").mkdir()
        os.chown(tmp_path / "user", 12345, -1)
        (tmp_path / "user" / "python").write_text("")
        place.write_text(f"#!{tmp_path / 'user' / 'python'}\n")
        assert unsafe(str(place)) == str(tmp_path / "user")

    def test_the_device_file_is_the_kernels_number(self, tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        box = Box(cards=2)
        box.write(tmp_path)
        for name, value in box.environment(nvml).items():
            if name in ("FAKE_NVML", "LD_LIBRARY_PATH"):
                monkeypatch.setenv(name, value)
        for index, minor in ((0, 1), (1, 0)):
            box.put(f"/proc/driver/nvidia/gpus/{box.slot(index)}/information", f"Model: \t\t X\nDevice Minor: \t {minor}\n")
        here = look(str(tmp_path), 3.0)
        if here.gpus:
            assert [gpu.minor for gpu in here.gpus] == [1, 0]
            assert "File=/dev/nvidia1\n" in files(here)["gres.conf"].partition("nvidia0")[0]

    @pytest.mark.parametrize(("line", "lost"), [
        ("ONGPU=/nonexistent/ongpu", "/nonexistent/ongpu"), ("ONGPU='/nonexistent/my folder/ongpu'", "/nonexistent/my folder/ongpu"),
        ("ONGPU=${ONGPU:-no-ongpu-here}", "no-ongpu-here"), ("ONGPU=${ONGPU:-sh}", ""), ("ONGPU=/bin/sh", ""), ("ONGPU='", ""), ("# none", ""),
    ])  # fmt: skip
    def test_a_script_that_does_not_find_ongpu(self, tmp_path: Path, line: str, lost: str) -> None:
        """It would pass every job, and say nothing."""
        (tmp_path / "p.sh").write_text(f"#!/bin/sh\n{line}\nMARK=x\n")
        (tmp_path / "p.sh").chmod(0o755)
        (tmp_path / "slurm.conf").write_text(f"NodeName=ws1\nProlog={tmp_path}/p.sh\n")
        assert gather([str(tmp_path)], "ws1").lost == ({str(tmp_path / "p.sh"): lost} if lost else {})
        assert gather([str(tmp_path)], "another").lost == {}

    def test_one_word_for_unlike_gpus(self) -> None:
        assert gres_word(replace(HERE, gpus=(*A100[:2], Gpu(2, "NVIDIA T4", 2)))) == "gpu:a100-sxm4-80gb:2,gpu:t4:1"

    def test_of_this_machine(self, tmp_path: Path) -> None:
        assert gather([str(tmp_path)], "x").slurm.there is False
