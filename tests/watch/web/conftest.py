"""A small store that the tests of the dashboard read, and clients of its API."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ongpu.store import Store
from ongpu.watch.web import demo
from ongpu.watch.web.app import build
from ongpu.watch.web.guard import Access
from ongpu.watch.web.queue.demo import opening
from ongpu.watch.web.queue.reading import Queue
from ongpu.watch.web.reading import Reader
from ongpu.watch.web.tokens import TokenFile, create

QUARTER = ((900.0, 0.0, 15.0, 100.0, 20 / 900),)  # a quarter of an hour in which GPU 7 is lost


@pytest.fixture(scope="session")
def quarter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a quarter of an hour of eight GPUs, made once; not to be changed."""
    path = tmp_path_factory.mktemp("web") / "watch.db"
    demo.fill(path, parts=QUARTER)
    return path


@pytest.fixture
def filled(quarter: Path, tmp_path: Path) -> Path:
    """A copy of it, in which the agent has just spoken."""
    path = tmp_path / "watch.db"
    shutil.copy(quarter, path)
    speak(path)
    return path


def speak(path: Path, ago: float = 0.0, **changes: object) -> None:
    """The agent says the same again, with these changes; so many seconds ago."""
    with Store(path) as store:
        now = json.loads(store.now() or "{}")
        store.put_now(json.dumps({**now, **changes, "written": time.time() - ago}))


@pytest.fixture
def token(tmp_path: Path) -> str:
    """The token of the clients."""
    return create(tmp_path / "web.token")


@pytest.fixture
def client(filled: Path, tmp_path: Path, token: str) -> Iterator[TestClient]:
    """Somebody on this machine."""
    yield from _client(filled, tmp_path, loopback=True)


@pytest.fixture
def stranger(filled: Path, tmp_path: Path, token: str) -> Iterator[TestClient]:
    """Somebody at a server that listens on another address."""
    yield from _client(filled, tmp_path, loopback=False)


def _client(path: Path, folder: Path, *, loopback: bool) -> Iterator[TestClient]:
    reader = Reader(path, 0.25, 2.0, "EUR")
    queue = Queue(opening(), submits=True)
    app = build(reader, Access(TokenFile(folder / "web.token"), loopback), queue=queue, pages=False)
    host = "http://localhost:19480" if loopback else "http://gpu7.example:19480"
    with TestClient(app, base_url=host, follow_redirects=False) as client:
        yield client
    reader.close()
    queue.close()


@pytest.fixture
def speaking() -> Callable[..., None]:
    """`speak`, for tests."""
    return speak
