"""The configuration: every key optional, each mistake one line that names file, key and remedy, in both languages."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.watch import config
from ongpu.watch.config import TABLE, Config, ConfigError, address, duration, is_loopback, masked, parse, read, shown, store_path


def test_without_a_file_all_is_as_the_table_says(tmp_path: Path) -> None:
    told = read(environ={"XDG_CONFIG_HOME": str(tmp_path)})
    assert told == parse({}, None)
    assert {(section, key.name): told.get(section, key.name) for section, keys in TABLE.items() for key in keys} == {
        (section, key.name): key.default for section, keys in TABLE.items() for key in keys
    }


def test_a_file_at_the_default_place_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ongpu" / "watch.toml"
    path.parent.mkdir()
    path.write_text('[sample]\ninterval = "500ms"\n[cost]\nkwh = 0.31\n[notify]\nrepeat = "2h"\n')
    told = read(environ={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (told.path, told.get("sample", "interval"), told.get("cost", "kwh"), told.get("notify", "repeat")) == (path, 0.5, 0.31, 7200.0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"sampel": {}}, "sampel: unknown; did you mean sample?"),
        ({"sample": {"intervall": 1}}, "sample.intervall: unknown; did you mean interval?"),
        ({"sample": {"interval": 0}}, "sample.interval: 0 is outside 0.05 .. 60"),
        ({"sample": {"interval": float("nan")}}, "sample.interval: nan is outside"),
        ({"sample": {"interval": "soon"}}, 'sample.interval: is to be seconds, or a time such as "2h"'),
        ({"sample": {"interval": True}}, "sample.interval: is to be seconds"),
        ({"sample": {"gpus": 8.5}}, "sample.gpus: is to be a whole number"),
        ({"sample": 3}, "sample: is to be a table: [sample]"),
        ({"notify": {"urls": "json://x"}}, "notify.urls: is to be a list of texts"),
        ({"notify": {"urls": [1]}}, "notify.urls: is to be a list of texts"),
        ({"notify": {"language": "de"}}, "notify.language: is to be one of: en, zh"),
        ({"notify": {"resolved": "yes"}}, "notify.resolved: is to be true or false"),
        ({"history": {"path": ""}}, "history.path: is to be a text in quotes"),
        ({"metrics": {"listen": "19400"}}, 'metrics.listen: "19400" is no address; write HOST:PORT'),
        ({"metrics": {"listen": "127.0.0.1:99999"}}, "is no address"),
        ({"web": {"listen": "0.0.0.0:80"}}, "web.listen: 0.0.0.0 can be reached from elsewhere: make a token"),
        ({"web": {"tls_cert": "/c"}}, "web.tls_cert: tls_cert and tls_key belong together"),
        ({"alerts": {"Thermal Throttle": {}}}, "alerts.Thermal Throttle: is no slug"),
        ({"alerts": {"thermal-throtle": {"off": True}}}, "alerts.thermal-throtle: is no slug; did you mean thermal-throttle?"),
        ({"alerts": {"thermal-throttle": {"holds": 1}}}, "alerts.thermal-throttle.holds: unknown; did you mean hold?"),
        ({"alerts": {"thermal-throttle": {"hold": -1}}}, "alerts.thermal-throttle.hold: -1 is outside"),
        ({"silence": {}}, "silence: is to be a list of tables: [[silence]]"),
        ({"silence": [{"slug": "thermal-throtle"}]}, "silence[0].slug: is no slug; did you mean thermal-throttle?"),
        ({"silence": [{"why": "x"}]}, "silence[0]: name a slug, a gpu, or both"),
        ({"silence": [{"gpu": 3, "until": "tomorrow"}]}, "silence[0].until: is to be a date"),
    ],
)
def test_each_mistake_is_one_line_in_both_languages(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(data, Path("/etc/ongpu/watch.toml"))
    assert words in caught.value.en
    assert caught.value.en.startswith("/etc/ongpu/watch.toml: ")
    assert "\n" not in caught.value.en + caught.value.zh
    assert re.search(r"[\u4e00-\u9fff]", caught.value.zh)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[sample", "is not TOML"), (b"\xff\xfe", "is not UTF-8"), (b"#" * (1 << 20) + b"##", "larger than 1 MiB"),
        (b"a=" + b"[" * 100_000, "TOML"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "watch.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(words)):
        read(path)


def test_a_named_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path)


def test_silences_and_alerts() -> None:
    told = parse(
        {
            "silence": [{"gpu": 3, "until": __import__("datetime").date(2026, 12, 31)}, {"slug": "fan-failure"}],
            "alerts": {"thermal-throttle": {"hold": "5 min"}, "gpu-held-idle": {"off": True}},
        },
        None,
    )
    assert [(one.slug, one.gpu, one.until) for one in told.silences] == [("", "3", 1798675200.0), ("fan-failure", "", float("inf"))]
    assert told.alerts == {"thermal-throttle": {"hold": 300.0}}
    assert told.off == {"gpu-held-idle"}


def everything() -> Config:
    return parse(
        {
            "sample": {"gpus": 8, "name": 'no"de\\7'}, "notify": {"urls": ["json://u:p@h/t", "feishu://tok"], "heartbeat": "https://h/tok"},
            "alerts": {"fan-failure": {"hold": 1, "off": True}}, "silence": [{"gpu": 3, "why": "being mended"}],
            "web": {"listen": "0.0.0.0:8443", "token_file": "/t", "tls_cert": "/c", "tls_key": "/k"}, "cost": {"kwh": 0.2},
        },
        None,
    )  # fmt: skip


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("told", [parse({}, None), everything()])
def test_what_is_shown_is_the_configuration_again_but_for_its_secrets(told: Config, lang: str) -> None:
    import tomllib

    text = shown(told, lang)
    again = parse(tomllib.loads(text), None)
    for section, keys in TABLE.items():
        for key in keys:
            if key.name not in ("urls", "heartbeat"):
                assert again.get(section, key.name) == told.get(section, key.name), key.name
    assert (again.alerts, again.off, again.silences) == (told.alerts, told.off, told.silences)
    assert "tok" not in text.replace("token", "").replace("令牌", "")
    assert "u:p" not in text


def test_every_key_is_told_in_both_languages() -> None:
    for keys in TABLE.values():
        for key in keys:
            assert key.en
            assert re.search(r"[\u4e00-\u9fff]|URL", key.zh), key.name


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (90, 90), (1.5, 1.5), ("90s", 90), ("15 min", 900), ("15m", 900), ("2h", 7200), ("7d", 604800), ("250ms", 0.25), ("3", 3),
        ("", None), ("2 hours", None), (True, None), (None, None), ([], None),
    ],
)  # fmt: skip
def test_durations(text: object, seconds: float | None) -> None:
    assert duration(text) == seconds


@given(st.text(max_size=40))
def test_addresses_are_read_or_refused(text: str) -> None:
    try:
        host, port = address(text)
    except ConfigError:
        return
    assert 0 <= port <= 65535
    assert isinstance(is_loopback(host), bool)


def test_which_addresses_are_loopback() -> None:
    here = ("127.0.0.1:1", "localhost:1", "[::1]:1")
    elsewhere = (":1", "0.0.0.0:1", "[::]:1", "127.example.com:1", "localhost.example.com:1")
    assert all(is_loopback(address(text)[0]) for text in here)
    assert not any(is_loopback(address(text)[0]) for text in elsewhere)


@given(st.text(max_size=80))
def test_a_masked_address_tells_its_kind_only(text: str) -> None:
    told = masked(f"json://{text}")
    assert told == "json://***"
    assert masked(text) in ("***", f"{text.partition('://')[0]}://***")


NAMES = st.sampled_from([*TABLE, "silence", "alerts", "interval", "urls", "x"])
LEAVES = st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers()


@given(st.dictionaries(NAMES, st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4))))
def test_any_data_is_a_configuration_or_one_mistake(data: Any) -> None:
    with contextlib.suppress(ConfigError):
        parse(data, None)


def test_where_the_history_is() -> None:
    told = parse({}, None)
    assert store_path(told, {"STATE_DIRECTORY": "/var/lib/ongpu:/x"}) == Path("/var/lib/ongpu/watch.db")
    assert store_path(told, {"XDG_STATE_HOME": "/s"}) == Path("/s/ongpu/watch.db")
    if os.geteuid() == 0:
        assert store_path(told, {}) == Path("/var/lib/ongpu/watch.db")
        assert config.default_path({}) == Path("/etc/ongpu/watch.toml")
    assert config.default_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/ongpu/watch.toml")
    assert store_path(parse({"history": {"path": "/h.db"}}, None), {"STATE_DIRECTORY": "/s"}) == Path("/h.db")


def test_the_service_reads_the_machines_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 61234)  # DynamicUser
    assert config.default_path({"STATE_DIRECTORY": "/var/lib/ongpu"}) == Path("/etc/ongpu/watch.toml")
    assert config.default_path({}) != Path("/etc/ongpu/watch.toml")
