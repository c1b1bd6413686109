"""`ongpu watch web`: where it listens, who may come in, and the server itself."""

import os
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import uvicorn

from ongpu.watch.config import Config, ConfigError, address
from ongpu.watch.web import tokens
from ongpu.watch.web.app import build
from ongpu.watch.web.guard import Access, is_loopback
from ongpu.watch.web.queue.opening import may_submit, of
from ongpu.watch.web.reading import Reader
from ongpu.watch.web.sockets import Quiet

MOST_CONNECTIONS = 512
MOST_MESSAGE = 1 << 20  # bytes of a WebSocket message
PARENT_EVERY = 1.0  # seconds between two looks whether the agent that started us is still there
Say = Callable[[str, str], None]


def serve(
    path: Path, listen: str, token_file: Path, config: Config, prometheus: str | None = None, *,
    demo: bool = False, cert: str | None = None, key: str | None = None, parent: int | None = None, say: Say = lambda en, zh: None,
) -> int:  # fmt: skip
    """Serves until it is told to end; the exit code. Raises ConfigError where it may not begin, OSError where it cannot listen.

    demo: a made-up node, kept in a folder that goes away at the end. parent: ends when that process has ended. say: one line to the user.
    """
    host, port = address(listen)
    cert, key = cert or config.get("web", "tls_cert"), key or config.get("web", "tls_key")
    access = Access(tokens.TokenFile(token_file), is_loopback(host), bool(cert))
    if not access.loopback:
        _needs_token(host, token_file)
    elif token_file.exists():
        _read(token_file)
    _readable(cert, key)
    with ExitStack() as stack:
        if demo:
            if threading.current_thread() is threading.main_thread():  # else SIGTERM would leave the made-up history behind
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            path = _demo(stack, say)
        reader = stack.enter_context(closing(Reader(path, *(config.get("cost", name) for name in ("kwh", "gpu_hour", "currency")))))
        if demo and reader.price_gpu_hour is None:
            reader.price_kwh, reader.price_gpu_hour = 0.25, 2.5  # so that the page of costs has some
        listening = stack.enter_context(_listening(host, port))
        queue = stack.enter_context(closing(of(reader, may_submit(access.loopback, config.get("web", "submit")))))
        app = build(reader, access, prometheus or config.get("web", "prometheus"), queue=queue)
        server = uvicorn.Server(uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, proxy_headers=False, lifespan="on", ws=Quiet,
            ws_max_size=MOST_MESSAGE, limit_concurrency=MOST_CONNECTIONS, timeout_graceful_shutdown=2, ssl_certfile=cert, ssl_keyfile=key,
        ))  # fmt: skip
        if parent is not None:
            threading.Thread(target=_follow, args=(parent, server), name="ongpu parent", daemon=True).start()
        shown = f"[{host}]" if ":" in host else host
        place = f"{'https' if cert else 'http'}://{shown}:{listening.getsockname()[1]}/"
        say(f"dashboard {place}", f"网页面板 {place}")
        if not access.loopback and not cert:
            say("without --tls-cert the token goes over the network as plain text", "未设置 --tls-cert：令牌会以明文在网络上传输")
        server.run(sockets=[listening])
    return 0


def _needs_token(host: str, token_file: Path) -> None:
    try:
        _read(token_file)
    except FileNotFoundError:
        raise ConfigError(
            "--listen", "", f"{host} can be reached from elsewhere, and there is no token: run `ongpu watch token` first",
            f"{host} 可被其他机器访问，但还没有令牌：请先运行 `ongpu watch token`",
        ) from None  # fmt: skip


def _read(token_file: Path) -> None:
    try:
        tokens.read(token_file)
    except tokens.BadToken as error:
        raise ConfigError("token", "", error.en, error.zh) from error


def _readable(cert: str | None, key: str | None) -> None:
    if bool(cert) != bool(key):
        raise ConfigError("--tls-cert", "", "--tls-cert and --tls-key belong together", "--tls-cert 与 --tls-key 须同时给出")
    if cert and key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(cert, "", f"cannot be used with {key}: {error}", f"无法与 {key} 一起使用：{error}") from error


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from error


def _follow(parent: int, server: uvicorn.Server) -> None:
    """Ends the server when the process that started us is gone, however it ended."""
    while os.getppid() == parent:
        time.sleep(PARENT_EVERY)
    server.should_exit = True


def _demo(stack: ExitStack, say: Say) -> Path:
    from ongpu.watch.web import demo

    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ongpu-demo-", ignore_cleanup_errors=True))) / "watch.db"
    say("making up a week of a simulated node, some seconds", "正在生成模拟节点一周的数据，需要几秒")
    demo.fill(path)
    stack.callback(demo.agent(path))
    return path


def to_stderr(lang: str) -> Say:
    """Tells the user on standard error."""
    return lambda en, zh: print(f"ongpu watch web: {zh if lang == 'zh' else en}", file=sys.stderr, flush=True)  # noqa: T201
