"""/metrics in the agent: an address that is taken is asked for again, and that is said once."""

import socket
import urllib.request
from pathlib import Path

from ongpu.watch.config import parse
from ongpu.watch.endpoint import AGAIN, Endpoint


def test_a_port_that_is_taken_is_tried_again_and_told_once() -> None:
    said: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        endpoint = Endpoint(f"127.0.0.1:{port}", False, lambda english, _: said.append(english))
        endpoint.open(parse({}, None), "node7", 0.0)
        endpoint.step(AGAIN - 1)
        endpoint.step(AGAIN)
        endpoint.step(2 * AGAIN)
        assert (endpoint.address, endpoint.page, len(said)) == ("-", None, 1)
        assert "no /metrics" in said[0]
    endpoint.step(2.5 * AGAIN)  # not yet due
    assert endpoint.page is None
    endpoint.step(3 * AGAIN)
    try:
        with urllib.request.urlopen(endpoint.address, timeout=5) as answer:
            assert b"ongpu_up" in answer.read()
        assert len(said) == 2
        assert not endpoint.problem
    finally:
        endpoint.close()
    endpoint.step(9 * AGAIN)
    assert endpoint.address == "-"


def test_none_is_opened_where_none_is_wanted() -> None:
    endpoint = Endpoint("", False, lambda *_: None)
    endpoint.open(parse({}, None), "node7", 0.0)
    assert (endpoint.address, endpoint.problem) == ("-", None)


def test_what_others_can_reach_needs_a_token_or_a_word(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    for metrics, served in (({}, False), ({"token_file": str(secret)}, True), ({"open": True}, True)):
        said: list[str] = []
        endpoint = Endpoint("0.0.0.0:0", False, lambda english, _, said=said: said.append(english))
        endpoint.open(parse({"metrics": metrics}, None), "node7", 0.0)
        try:
            assert (endpoint.server is not None) is served
            assert bool(said) is not served
            assert served or "metrics.token_file" in said[0]
        finally:
            endpoint.close()
