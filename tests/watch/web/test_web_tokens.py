"""The token's file, sessions, and who guesses."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ongpu.watch.web import tokens


def test_the_token_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "web.token"
    first = tokens.create(path)
    assert len(first) >= 43
    assert tokens.create(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["web.token"]


def test_two_that_create_at_once_agree(tmp_path: Path) -> None:
    path, found = tmp_path / "web.token", []
    threads = [threading.Thread(target=lambda: found.append(tokens.create(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {tokens.create(path)}


@pytest.mark.parametrize("text", ["", "short", "x" * 31, "a b" * 20, "é" * 40, "x" * 20 + "\n" + "y" * 20])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "web.token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(tokens.BadToken) as told:
        tokens.read(path)
    assert str(path) in told.value.en
    assert str(path) in told.value.zh
    assert tokens.TokenFile(path).token() is None


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "web.token"
    tokens.create(path)
    path.chmod(0o640)
    with pytest.raises(tokens.BadToken, match="chmod 600"):
        tokens.read(path)


def test_a_new_token_ends_the_sessions_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "web.token"
    old = tokens.create(path)
    kept = tokens.TokenFile(path)
    cookie = tokens.session(old, 1000.0)
    assert tokens.valid(cookie, kept.token(), 1000.0)
    path.unlink()
    assert kept.token() is None
    assert not tokens.valid(cookie, kept.token(), 1000.0)
    tokens.create(path)
    assert kept.token() not in (None, old)
    assert not tokens.valid(cookie, kept.token(), 1000.0)


def test_a_session_runs_out_and_is_bound_to_what_it_says() -> None:
    token = "t" * 40
    cookie = tokens.session(token, 1000.0)
    assert token not in cookie
    assert tokens.valid(cookie, token, 1000.0 + tokens.SESSION - 2)
    assert not tokens.valid(cookie, token, 1000.0 + tokens.SESSION + 1)
    until, nonce, signature = cookie.split(".")
    assert not tokens.valid(f"{int(until) + 1}.{nonce}.{signature}", token, 1000.0)
    assert not tokens.valid(f"{until}.{nonce}.{'0' * 64}", token, 1000.0)


@given(st.text(max_size=200))
def test_no_other_text_is_a_session(text: str) -> None:
    assert not tokens.valid(text, "t" * 40, 0.0)
    assert not tokens.same(text, "t" * 40) or text == "t" * 40
    assert not tokens.same(text, None)


def test_who_guesses_has_to_wait_and_is_forgotten() -> None:
    failures = tokens.Failures()
    for number in range(tokens.TRIES):
        assert failures.wait("a", 10.0) == 0, number
        failures.add("a", 10.0)
    assert failures.wait("a", 11.0) == pytest.approx(tokens.WITHIN - 1)
    assert failures.wait("b", 11.0) == 0
    assert failures.wait("a", 10.0 + tokens.WITHIN) == 0
    for number in range(2 * tokens.ADDRESSES):
        failures.add(str(number), 20.0)
    assert len(failures.seen) == tokens.ADDRESSES
