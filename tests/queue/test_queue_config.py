"""The queue's configuration: what is taken, what is refused and how that is told."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.queue.config import _KEYS, MAX_BYTES, Config, Quota, load, parse, places
from ongpu.queue.engines import EngineError
from ongpu.queue.placement import POLICIES

EVERYTHING = """
engine = "slurm"
[policy]
name = "ours"
headroom = 0.5
patience = "7d"
preempts = false
fair_share_half_life_days = 2
[quota]
gpus = 4
gpu_hours_per_week = 100.5
users = { ann = { gpus = 8 }, "bob@x" = {} }
projects.vision.gpu_hours_per_week = 1000
[limits]
cpus = 16
host_memory = "64GiB"
[idle]
after = "30min"
stop = true
[reboot]
jobs = "fail"
[cost]
per_gpu_hour = { A100 = 2.5, H200 = 4 }
per_kwh = 0.3
currency = "元"
[notify]
urls = ["json://localhost"]
on = ["failed"]
language = "zh"
[daemon]
idle_exit = 60
foreign_memory = "2GiB"
keep = "90d"
[slurm]
partition = "gpu"
account = "lab"
extra = ["--exclusive"]
[ray]
address = "http://head:8265"
[kubernetes]
context = "prod"
namespace = "ml"
queue = "team-a"
image = "nvcr.io/nvidia/pytorch:25.01-py3"
priority_classes = { "-10" = "low", "0" = "normal" }
"""


def write(tmp_path: Path, text: str | bytes) -> dict[str, str]:
    path = tmp_path / "queue.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return {"ONGPU_QUEUE_CONFIG": str(path)}


def refused(environ: dict[str, str]) -> str:
    with pytest.raises(EngineError) as caught:
        load(environ)
    one_line(caught.value)
    assert environ["ONGPU_QUEUE_CONFIG"] in caught.value.english
    return caught.value.english


def one_line(error: EngineError) -> None:
    assert "\n" not in error.english + error.chinese
    assert "\r" not in error.english + error.chinese
    assert len(error.english) < 1000
    assert re.search(r"[\u4e00-\u9fff]", error.chinese)


class TestReading:
    def test_nothing_is_set_where_there_is_no_file(self, tmp_path: Path) -> None:
        assert load({"HOME": str(tmp_path)}) == Config() or places({"HOME": str(tmp_path)})[0].exists()
        assert Config().policy == POLICIES["ours"]

    def test_another_policy_has_its_own_knobs(self) -> None:
        config = parse({"policy": {"name": "las", "fair_share_half_life_days": 2}})
        assert (config.policy, config.half_life) == (POLICIES["las"], 2 * 86400.0)

    def test_everything(self, tmp_path: Path) -> None:
        environ = write(tmp_path, EVERYTHING)
        config = load(environ)
        assert config.paths == (tmp_path / "queue.toml",)
        assert (config.engine, config.policy.order, config.policy.headroom, config.policy.patience) == ("slurm", "feedback", 0.5, 604800.0)
        assert (config.policy.preempts, config.half_life) == (False, 172800.0)
        assert config.quotas.of("ann", "vision") == (("user:ann", Quota(gpus=8)), ("project:vision", Quota(gpu_hours=1000)))
        assert config.quotas.of("eve", "other") == (("user:eve", Quota(gpus=4, gpu_hours=100.5)),)
        assert config.quotas.of("bob@x", "") == (("user:bob@x", Quota()),)
        assert (config.cpus, config.host_memory, config.idle_after, config.idle_stop) == (16, 65536, 1800.0, True)
        assert (config.on_reboot, config.cost.gpu_hour, config.cost.kwh) == ("fail", {"a100": 2.5, "h200": 4.0}, 0.3)
        assert (config.cost.currency, config.notify, config.on, config.language) == ("元", ("json://localhost",), ("failed",), "zh")
        assert (config.idle_exit, config.foreign, config.keep) == (60.0, 2048, 90 * 86400.0)
        assert (config.slurm.partition, config.slurm.account, config.slurm.extra) == ("gpu", "lab", ("--exclusive",))
        assert (config.ray.address, config.kubernetes.queue) == ("http://head:8265", "team-a")
        assert config.kubernetes.priorities == {-10: "low", 0: "normal"}

    def test_the_users_file_is_stronger_than_the_machines(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        system, home = tmp_path / "system.toml", tmp_path / "home"
        monkeypatch.setattr("ongpu.queue.config.SYSTEM", system)
        (home / ".config" / "ongpu").mkdir(parents=True)
        system.write_text('engine = "ray"\n[idle]\nafter = 60\nstop = true\n')
        (home / ".config" / "ongpu" / "queue.toml").write_text("[idle]\nafter = 90\n")
        config = load({"HOME": str(home)})
        assert (config.engine, config.idle_after, config.idle_stop) == ("ray", 90.0, True)
        assert config.paths == (system, home / ".config" / "ongpu" / "queue.toml")
        assert load({"HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path / "none")}).idle_after == 60.0

    def test_one_price_for_all(self) -> None:
        assert parse({"cost": {"per_gpu_hour": 2}}).cost.gpu_hour == {"": 2.0}


class TestRefusing:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("engin = 1", "engin: unknown; did you mean engine?"),
            ("[polcy]", "polcy: unknown; did you mean policy?"),
            ("[policy]\nheadrom = 1", "policy.headrom: unknown; did you mean headroom?"),
            ("engine = 5", "engine: is to be a text"),
            ('engine = "pbs"', "engine: is to be one of: local, slurm, ray, kubernetes"),
            ("policy = 5", "policy: is to be a table"),
            ("[policy]\nheadroom = 1.5", "policy.headroom: is outside 0 .. 1"),
            ("[policy]\nheadroom = nan", "policy.headroom: is outside 0 .. 1"),
            ("[policy]\npatience = '90'", "policy.patience: is to be seconds"),
            ("[policy]\npatience = true", "policy.patience: is to be seconds"),
            ("[policy]\npreempts = 1", "policy.preempts: is to be true or false"),
            ("[policy]\nname = 'fifo'\npreempts = true", 'policy.preempts: the policy "ours" alone has it, not "fifo"'),
            ("[quota]\ngpus = -1", "quota.gpus: is outside"),
            ("[quota]\ngpus = 1.5", "quota.gpus: is to be a whole number"),
            ("[quota.users.ann]\ngpu = 1", "quota.users.ann.gpu: unknown; did you mean gpus?"),
            ("[quota.users]\nann = 1", "quota.users.ann: is to be a table"),
            ("[limits]\nhost_memory = '5'", "limits.host_memory: is to be MiB"),
            ("[cost]\nper_gpu_hour = { A100 = 'x' }", "cost.per_gpu_hour.A100: is to be a number"),
            ("[notify]\nurls = ['x']", "notify.urls: holds what is no address"),
            ("[notify]\nurls = 'json://x'", "notify.urls: is to be a list"),
            ("[notify]\non = ['always']", "notify.on: may hold: done"),
            ("[kubernetes]\nnamespace = 'a b'", "kubernetes.namespace: is to be one word"),
            ("[kubernetes]\npriority_classes = { 11 = 'x' }", "kubernetes.priority_classes.11: is to be a priority"),
            ("[ray]\naddress = 'head:8265'", "ray.address: is to be an address"),
            ("[cost]\ncurrency = 'a\\nb'".replace("'", '"'), "cost.currency: is to be one line"),
            ("x = ", "is not TOML"),
            ("a = " + "[" * 5000, "is not TOML"),
            (b"\xff\xfe", "is not UTF-8 text"),
            (b"#" * (MAX_BYTES + 1), "larger than 1 MiB"),
        ],
        ids=lambda text: str(text)[:40],
    )
    def test_one_line_says_file_key_and_what_is_allowed(self, tmp_path: Path, text: str | bytes, words: str) -> None:
        assert words in refused(write(tmp_path, text))

    def test_a_file_that_is_not_there_or_no_file(self, tmp_path: Path) -> None:
        assert "no such file" in refused({"ONGPU_QUEUE_CONFIG": str(tmp_path / "none.toml")})
        assert "cannot be read" in refused({"ONGPU_QUEUE_CONFIG": str(tmp_path)})
        home = {"HOME": str(tmp_path / "nowhere\0")}
        with pytest.raises(EngineError, match="cannot be read"):
            load(home)


anything: st.SearchStrategy[Any] = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(("2h", "1GiB", "gpus", "json://x", "a\nb", 10**400)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(("ann", "0", "gpus")), inner, max_size=3)
    ),
    max_leaves=8,
)
tables = st.fixed_dictionaries(
    {},
    optional={
        section: anything | st.dictionaries(st.sampled_from([*keys, "other"]), anything, max_size=4)
        for section, keys in _KEYS.items()
        if section
    },
)


@given(tables | anything | st.builds(lambda table, engine: {**table, "engine": engine}, tables, anything))
def test_anything_is_taken_or_refused_in_one_line(data: Any) -> None:
    try:
        config = parse(data)
    except EngineError as error:
        one_line(error)
    else:
        assert 0 <= config.policy.headroom <= 1
        assert config.idle_exit > 0
        assert config.engine in ("local", "slurm", "ray", "kubernetes")


@given(st.text(max_size=80) | st.binary(max_size=80))
def test_any_file_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    try:
        load(write(folder, text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text))
    except EngineError as error:
        one_line(error)
