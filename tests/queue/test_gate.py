"""`ongpu gate` over recorded machines and the fake NVML: what refuses, what does not, and the scripts that schedulers run."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from fronts_run import ongpu
from hypothesis import given
from hypothesis import strategies as st
from parts.machines import Box

from ongpu.model import Certainty, Finding, Layer, Report, Rule, Severity, Text, Verdict
from ongpu.queue import gate
from ongpu.queue.gate import Asked, BadName, Policy, asked, bus, decide

HOOKS = Path(gate.__file__).parent / "hooks"
XID = "NVRM: Xid (PCI:0000:{:02x}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def finding(slug: str = "x", layer: Layer = Layer.DRIVER, severity: Severity = Severity.ERROR, **more: object) -> Finding:
    words = Text("title\nof it", "why", "fix")
    rule = Rule(slug=slug, layer=layer, severity=severity, check=lambda: iter(()), en=words, zh=words, see=())
    return Finding(rule=rule, **more)  # type: ignore[arg-type]


def report(*findings: Finding, hidden: tuple[Finding, ...] = (), verdict: Verdict = Verdict.FOUND) -> Report:
    return Report(subject="", verdict=verdict, findings=findings, hidden=hidden)


class TestDecision:
    @pytest.mark.parametrize(("found", "place"), [
        (finding(), False),
        (finding(layer=Layer.HARDWARE), False),
        (finding(layer=Layer.LIBRARIES), False),
        (finding(layer=Layer.FRAMEWORK), True),
        (finding(layer=Layer.SYSTEM), True),
        (finding(severity=Severity.WARNING), True),
        (finding(certainty=Certainty.LIKELY), True),
        (finding(subject="GPU 1 (NVIDIA A100)"), True),
        (finding(subject="GPU 0 (NVIDIA A100)"), False),
        (finding(subject="GPU 00"), False),
    ])  # fmt: skip
    def test_only_what_is_certain_and_below_the_program_refuses(self, found: Finding, place: bool) -> None:
        decision = decide(report(found), Asked(("0",), "--gpus"))
        assert decision.place is place
        assert [reason.text("en") for reason in decision.reasons] == ([] if place else ["title of it"])

    def test_what_is_certain_refuses_though_a_likely_cause_hides_it(self) -> None:
        assert not decide(report(finding("a", certainty=Certainty.LIKELY), hidden=(finding("b"),)), Asked()).place

    def test_the_administrator_names_what_refuses_and_what_does_not(self) -> None:
        note = finding("gpu-busy", Layer.SYSTEM, Severity.NOTE, certainty=Certainty.LIKELY)
        assert decide(report(note), Asked()).place
        assert not decide(report(note), Asked(), Policy(refuse=frozenset({"gpu-busy"}))).place
        over = decide(report(finding("x")), Asked(), Policy(override=frozenset({"x"}), strict=True))
        assert over.place
        assert [one.slug for one in over.overridden] == ["x"]

    def test_unknown_refuses_only_where_one_is_strict(self) -> None:
        empty = report(verdict=Verdict.UNKNOWN)
        assert decide(empty, Asked()).place
        assert decide(empty, Asked()).unknown
        assert [one.slug for one in decide(empty, Asked(), Policy(strict=True)).reasons] == ["unknown"]

    def test_a_job_without_gpus_is_placed_anywhere(self) -> None:
        assert decide(report(finding()), Asked(())).place


class TestAsked:
    @pytest.mark.parametrize(("environ", "told", "names"), [
        ({}, None, None),
        ({}, "all", None),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "all", None),
        ({"SLURM_JOB_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0,1"}, None, ("2", "3")),
        ({"SLURM_JOB_GPUS": "0-2,5"}, None, ("0", "1", "2", "5")),
        ({"CUDA_VISIBLE_DEVICES": ""}, None, ()),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, None, ()),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, None, ("1",)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-fa4e0000-0000-4000-8000-000000000001"}, None, ("GPU-fa4e0000-0000-4000-8000-000000000001",)),
        ({}, "01, 1", ("1",)),
    ])  # fmt: skip
    def test_whose_gpus_are_meant(self, environ: dict[str, str], told: str | None, names: tuple[str, ...] | None) -> None:
        assert asked(environ, told).names == names

    @given(st.text(max_size=40))
    def test_any_text_is_a_name_or_bad(self, text: str) -> None:
        try:
            names = asked({}, text).names
        except BadName:
            return
        assert names is None or all(name.isdigit() or name.startswith(("GPU-", "MIG-")) for name in names)
        assert asked({"CUDA_VISIBLE_DEVICES": text}).names == names

    @pytest.mark.parametrize("text", ["0-99999", "0-9999", "5-2"])
    def test_ranges_are_bounded(self, text: str) -> None:
        try:
            assert len(asked({}, text).names or ()) <= gate.MOST + 1
        except BadName:
            assert text != "0-9999"

    def test_a_place_on_the_bus_has_one_spelling(self) -> None:
        assert bus("00000000:3B:00.0") == bus("0000:3b:00") == bus("3b:00.0") == "3b:00"
        assert bus("NVIDIA A100") == bus("Xid 119") == bus("") == ""


def run(box: Box, root: Path, library: Path, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """The gate on a recorded machine, as a process."""
    if not (root / ".ongpu").exists():
        box.write(root)
    return ongpu("gate", "--root", str(root), *arguments, **{**box.environment(library), "PATH": os.environ["PATH"], **environ})


class TestMachines:
    def test_a_healthy_machine_in_half_a_second(self, nvml: Path, tmp_path: Path) -> None:
        box = Box(cards=8)
        done = run(box, tmp_path, nvml, "--strict")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        begin = time.perf_counter()
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            ongpu("gate", "--root", str(tmp_path), **{**box.environment(nvml), "PATH": os.environ["PATH"]})
            times.append(time.perf_counter() - begin)
        assert min(times) < (1.5 if os.getloadavg()[0] > 2 else 0.5)

    @pytest.mark.parametrize(("arguments", "code"), [((), 1), (("--gpus", "2"), 1), (("--gpus", "0,1,3"), 0), (("--gpus", "none"), 0)])
    def test_a_lost_gpu_refuses_only_jobs_that_want_it(self, nvml: Path, tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
        box = Box(cards=4, nvml=["gpu.2.error = 15"])
        box.break_log(XID.format(0x1C))
        done = run(box, tmp_path, nvml, *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        assert [line.partition(":")[0] for line in done.stdout.splitlines()] == (["gpu-fell-off-bus"] if code else [])

    def test_a_lost_gpu_of_which_the_log_says_nothing(self, nvml: Path, tmp_path: Path) -> None:
        box = Box(cards=2, nvml=["gpu.1.error = 15"])
        assert run(box, tmp_path, nvml, "--gpus", "0").returncode == 0
        assert run(box, tmp_path, nvml, "--gpus", "1").returncode == 1

    def test_slurm_names_its_gpus_by_their_physical_index(self, nvml: Path, tmp_path: Path) -> None:
        box = Box(cards=4, nvml=["gpu.2.error = 15"])
        box.break_log(XID.format(0x1C))
        assert run(box, tmp_path, nvml, SLURM_JOB_GPUS="0,1", CUDA_VISIBLE_DEVICES="2").returncode == 0
        assert run(box, tmp_path, nvml, SLURM_JOB_GPUS="2,3", CUDA_VISIBLE_DEVICES="0,1").returncode == 1

    def test_a_driver_that_is_gone(self, nvml: Path, tmp_path: Path) -> None:
        box = Box(cards=2, module=None, modules=[])
        done = run(box, tmp_path, nvml)
        assert done.returncode == 1
        assert done.stdout.splitlines()[0].partition(":")[0] in gate.slugs()

    def test_an_asked_gpu_that_is_not_there(self, nvml: Path, tmp_path: Path) -> None:
        done = run(Box(cards=2), tmp_path, nvml, "--gpus", "5")
        assert done.returncode == 1
        assert done.stdout.startswith("gpu-not-found: GPU 5 (--gpus): the driver shows 2 GPUs")

    @pytest.mark.parametrize("hang", ["hang.Init = 1", "gpu.1.hang = 1"])
    def test_a_driver_that_hangs_does_not_hang_the_gate(self, nvml: Path, tmp_path: Path, hang: str) -> None:
        begin = time.monotonic()
        done = run(Box(cards=2, nvml=[hang]), tmp_path, nvml, "--patience", "0.6")
        assert time.monotonic() - begin < 6
        assert (done.returncode, done.stdout.partition(":")[0]) == (1, "driver-hung")

    def test_override_and_json(self, nvml: Path, tmp_path: Path) -> None:
        box = Box(cards=2, nvml=["gpu.1.error = 15"])
        box.break_log(XID.format(0x1B))
        done = run(box, tmp_path, nvml, "--override", "gpu-fell-off-bus", "--format", "json")
        told = json.loads(done.stdout)
        assert (done.returncode, told["place"], [one["slug"] for one in told["overridden"]]) == (0, True, ["gpu-fell-off-bus"])
        refused = json.loads(run(box, tmp_path, nvml, "--format", "json", "--lang", "zh").stdout)
        assert refused["reasons"][0]["finding"]["fix"]["text"]

    def test_the_administrators_file(self, nvml: Path, tmp_path: Path) -> None:
        box = Box(cards=2, nvml=["gpu.1.error = 15"], files={"/etc/ongpu/gate.toml": 'override = ["gpu-fell-off-bus"]\n'})
        box.break_log(XID.format(0x1B))
        assert run(box, tmp_path, nvml).returncode == 0
        box.put("/etc/ongpu/gate.toml", 'refuze = ["x"]\n')
        bad = ongpu("gate", "--root", str(tmp_path))
        assert (bad.returncode, bad.stdout) == (2, "")
        assert "refuze" in bad.stderr


    @pytest.mark.parametrize("code", [9, 25, 999])
    def test_a_library_that_does_not_start_refuses_though_nothing_says_why(self, nvml: Path, tmp_path: Path, code: int) -> None:
        box = Box(cards=2, nvml=[f"error.Init = {code}"])
        done = run(box, tmp_path, nvml)
        assert (done.returncode, done.stdout.partition(":")[0]) == (1, "nvml-init-failed")
        assert run(box, tmp_path, nvml, "--override", "nvml-init-failed").returncode == 0
        assert "无法启动" in run(box, tmp_path, nvml, "--lang", "zh").stdout

    def test_a_library_that_is_not_there_says_nothing_of_the_gpus(self, nvml: Path, tmp_path: Path) -> None:
        """A container without the driver's utilities: CUDA needs none of them."""
        assert run(Box(cards=2, nvml=["error.Init = 12"]), tmp_path, nvml).returncode == 0

    @pytest.mark.parametrize("redirected", [">/dev/full", "| true", ">&-", "2>&1 | true"])
    @pytest.mark.parametrize("style", ["text", "json"])
    def test_whatever_becomes_of_its_words_the_verdict_stands(self, nvml: Path, tmp_path: Path, redirected: str, style: str) -> None:
        box = Box(cards=2, nvml=["gpu.1.error = 15"])
        box.break_log(XID.format(0x1B))
        box.write(tmp_path)
        line = [sys.executable, "-m", "ongpu", "gate", "--root", str(tmp_path), "--format", style]
        words = ["bash", "-c", f'"$@" {redirected}; exit ${{PIPESTATUS[0]}}', "-", *line]
        environ = {**os.environ, **box.environment(nvml), "PATH": os.environ["PATH"]}
        assert subprocess.run(words, env=environ, check=False, capture_output=True, timeout=30).returncode == 1


class TestBadUsage:
    @pytest.mark.parametrize(("arguments", "words"), [
        (("--gpus", "first"), "neither an index nor a UUID"),
        (("--gpus", "3-0"), "--gpus: 3-0: neither"),
        (("--gpus", ""), '--gpus: "": neither'),
        (("--refuse", "gpu-fell-of-bus"), "did you mean: gpu-fell-off-bus"),
        (("--override", "x"), "no such slug"),
        (("--patience", "0"), "from 0.1 to 600"),
        (("--config", "/nonexistent/gate.toml"), "no such file"),
        (("install", "slurm", "--only", "npd"), "slurm has: config, healthcheck, prolog"),
    ])  # fmt: skip
    def test_one_line_and_code_2(self, arguments: tuple[str, ...], words: str) -> None:
        done = ongpu("gate", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
        chinese = ongpu("gate", *arguments, LC_ALL="zh_CN.UTF-8").stderr
        assert any("\u4e00" <= char <= "\u9fff" for char in chinese)


# --- what `install` prints


@pytest.mark.parametrize("script", sorted(HOOKS.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_sound_shell(script: Path) -> None:
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0


@pytest.mark.parametrize("target", ["slurm", "kubernetes", "ray", "torchrun"])
def test_install_prints_every_file_and_each_alone(target: str) -> None:
    whole = ongpu("gate", "install", target).stdout
    parts = [line.split()[2].rstrip(":") for line in whole.splitlines() if line.startswith("# ====")]
    assert parts
    for part in parts:
        alone = ongpu("gate", "install", target, "--only", part).stdout
        assert alone in whole
        if part == "npd":
            plugin = json.loads(alone)
            assert {rule["condition"] for rule in plugin["rules"]} == {one["type"] for one in plugin["conditions"]}


SCONTROL = """#!/bin/sh
if [ "$1" = show ]; then cat node.txt; else echo "$*" >> calls.txt; fi
"""


class Slurm:
    """A node whose `scontrol` is a script: what the hooks ask of it is written down."""

    def __init__(self, folder: Path, box: Box, library: Path) -> None:
        self.folder, self.box = folder, box
        shutil.rmtree(folder / "root", ignore_errors=True)
        box.write(folder / "root")
        self.environ = {**os.environ, **box.environment(library), "PATH": f"{folder}:{os.environ['PATH']}", "SLURMD_NODENAME": "n1"}
        gate_here = f'#!/bin/sh\nshift\nexec {sys.executable} -m ongpu gate --root {folder}/root "$@"\n'
        for name, text in (("scontrol", SCONTROL), ("ongpu", gate_here)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.reason("")

    def reason(self, text: str) -> None:
        told = f"\n   Reason={text} [root@2026-11-30T10:00:00]" if text else ""
        (self.folder / "node.txt").write_text(f"NodeName=n1 Arch=x86_64\n   State=IDLE{told}\n   Comment=x\n")

    def run(self, script: str, **environ: str) -> int:
        done = subprocess.run(["sh", str(HOOKS / script)], cwd=self.folder, env={**self.environ, **environ}, check=False, timeout=60)
        return done.returncode

    def calls(self) -> list[str]:
        path = self.folder / "calls.txt"
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found


@pytest.mark.parametrize(("gate_", "ready"), [("exit 0", True), ("echo x: y; exit 1", False), ("exit 2", True), ("exit 3", True)])
def test_only_a_refusal_makes_a_pod_unready(tmp_path: Path, gate_: str, ready: bool) -> None:
    probe = yaml.safe_load((HOOKS / "readiness.yaml").read_text())["readinessProbe"]["exec"]["command"]
    (tmp_path / "ongpu").write_text(f"#!/bin/sh\n{gate_}\n")
    (tmp_path / "ongpu").chmod(0o755)
    done = subprocess.run(probe, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False, capture_output=True, timeout=20)
    assert (done.returncode == 0) is ready


def sick(tmp_path: Path, nvml: Path) -> Slurm:
    box = Box(cards=4, nvml=["gpu.2.error = 15"])
    box.break_log(XID.format(0x1C))
    return Slurm(tmp_path, box, nvml)


def test_the_health_check_drains_once_and_takes_back_only_its_own(nvml: Path, tmp_path: Path) -> None:
    node = sick(tmp_path, nvml)
    assert node.run("slurm-healthcheck.sh", CUDA_VISIBLE_DEVICES="0") == 0
    (call,) = node.calls()
    assert call.startswith("update NodeName=n1 State=DRAIN Reason=ongpu gate: gpu-fell-off-bus")
    node.reason(call.partition("Reason=")[2])
    node.run("slurm-healthcheck.sh")
    assert node.calls() == [], "told already"
    node.reason("bad disk, Ada")
    node.run("slurm-healthcheck.sh")
    assert node.calls() == [], "the drain of someone else"
    well = Slurm(tmp_path, Box(cards=4), nvml)
    well.reason("bad disk, Ada")
    well.run("slurm-healthcheck.sh")
    assert well.calls() == []
    well.reason("ongpu gate: gpu-fell-off-bus: GPU 2")
    well.run("slurm-healthcheck.sh")
    assert well.calls() == ["update NodeName=n1 State=UNDRAIN"]


def test_a_gate_that_fails_drains_nothing(nvml: Path, tmp_path: Path) -> None:
    node = sick(tmp_path, nvml)
    for broken in ("exit 1", "exit 2", "exit 3", "kill -9 $$"):
        (tmp_path / "ongpu").write_text(f"#!/bin/sh\n{broken}\n")
        assert node.run("slurm-healthcheck.sh") == 0
        assert node.run("slurm-prolog.sh", SLURM_JOB_GPUS="2") == 0
    assert node.calls() == []


def test_the_prolog_refuses_only_jobs_on_the_sick_gpu(nvml: Path, tmp_path: Path) -> None:
    node = sick(tmp_path, nvml)
    assert node.run("slurm-prolog.sh") == 0
    assert node.run("slurm-prolog.sh", SLURM_JOB_GPUS="0,1", CUDA_VISIBLE_DEVICES="2") == 0
    assert node.calls() == []
    assert node.run("slurm-prolog.sh", SLURM_JOB_GPUS="2,3", CUDA_VISIBLE_DEVICES="0,1") == 1
    assert node.calls()[0].startswith("update NodeName=n1 State=DRAIN Reason=ongpu gate: gpu-fell-off-bus")


@pytest.mark.parametrize("script", ["slurm-prolog.sh", "slurm-healthcheck.sh"])
def test_without_a_path_the_scripts_of_slurm_find_their_programs(tmp_path: Path, script: str) -> None:
    """slurmd sets none for them (22.05: seen; 25.05: its source), and `timeout` then looks into /bin and /usr/bin alone."""
    body = (HOOKS / script).read_text().replace("/usr/local/bin", str(tmp_path))  # where `gate install` says to put it
    for name in ("ongpu", "scontrol"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name}: $*" >>{tmp_path}/asked\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "hook").write_text(body)
    subprocess.run(["/bin/sh", str(tmp_path / "hook")], env={"SLURM_JOB_GPUS": "0", "SLURMD_NODENAME": "n1"}, check=False, timeout=20)
    assert (tmp_path / "asked").read_text().startswith("ongpu: gate --patience 15")


@pytest.mark.parametrize(("card", "started"), [("", True), ("gpu.2.error = 15", False)])
def test_torchrun_is_started_where_the_gpus_are_fit(nvml: Path, tmp_path: Path, card: str, started: bool) -> None:
    node = Slurm(tmp_path, Box(cards=4), nvml) if not card else sick(tmp_path, nvml)
    (tmp_path / "torchrun").write_text('#!/bin/sh\necho "$@" > started.txt\n')
    (tmp_path / "torchrun").chmod(0o755)
    assert node.run("torchrun.sh") == (0 if started else 1)
    assert (tmp_path / "started.txt").exists() is started
