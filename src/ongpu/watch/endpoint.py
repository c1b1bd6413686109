"""/metrics in the agent: opened where that is wanted, and tried again where it cannot be had yet."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ongpu.watch import config as configuration
from ongpu.watch.config import Config
from ongpu.watch.state import State

AGAIN = 10.0  # seconds until an address that was taken is tried again: whoever has it may go, as an old agent does


class Endpoint:
    """The page and its server, for the agent's loop.

    listen: the address that the command line asks for; None: the configuration's. names: also under dcgm-exporter's names.
    say: one line for the operator, English and Chinese.
    """

    def __init__(self, listen: str | None, names: bool, say: Callable[[str, str], None]) -> None:
        self._listen, self._names, self._say = listen, names, say
        self._again: tuple[float, Config, str] | None = None  # when to try again, with what
        self.page: Any = None
        self.server: Any = None
        self.problem: tuple[str, str] | None = None  # why there is none although it is wanted

    @property
    def address(self) -> str:
        """Where it is; "-" where it is not."""
        return f"http://{self.server.server_address[0]}:{self.server.port}/metrics" if self.server else "-"

    def open(self, config: Config, host: str, clock: float) -> None:
        """Opens it, where that is wanted and can be. host: this machine's name; clock: monotonic."""
        self._again = None
        listen = self._listen if self._listen is not None else config.get("metrics", "listen")
        if not listen:
            return
        if find_spec("prometheus_client") is None:
            self._complain("no /metrics: pip install 'ongpu[watch]'", "未开 /metrics：pip install 'ongpu[watch]'")
            return
        from ongpu.watch.scrape import Page, Server

        where, port = configuration.address(listen)
        token = config.get("metrics", "token_file")
        secret = Path(token).read_text("utf-8").strip() if token else None
        if not configuration.is_loopback(where) and not secret and not config.get("metrics", "open"):
            self._complain(
                f"no /metrics at {listen}: others can reach it, so it needs a token: name its file in metrics.token_file (Prometheus: "
                "authorization.credentials_file), or set metrics.open = true where whoever reaches it may read who runs what",
                f"未在 {listen} 开 /metrics：其他机器可访问该地址，需要令牌：请在 metrics.token_file 中写明令牌文件（Prometheus 用 "
                "authorization.credentials_file）；若任何能访问的人都可以查看谁在运行什么，可设 metrics.open = true",
            )
            return
        page = Page(config.get("metrics", "processes"), host if self._names or config.get("metrics", "dcgm_names") else None)
        try:
            self.server = Server(page, where, port, secret).start()
        except OSError as error:
            self._again = clock + AGAIN, config, host
            self._complain(f"no /metrics at {listen}: {error.strerror}", f"/metrics 无法使用 {listen}：{error.strerror}")
            return
        if self.problem:
            self._say(f"/metrics is at {listen} now", f"/metrics 现已在 {listen} 提供")
        self.page, self.problem = page, None

    def _complain(self, english: str, chinese: str) -> None:
        """Once, however often it is tried."""
        if self.problem != (english, chinese):
            self._say(english, chinese)
        self.problem = english, chinese

    def step(self, clock: float) -> None:
        """Tries again, where it is time to."""
        if self._again and clock >= self._again[0]:
            self.open(self._again[1], self._again[2], clock)

    def put(self, state: State, said: Any) -> None:
        """What the page is to say from now on."""
        if self.page:
            self.page.put(state, said)

    def close(self) -> None:
        """Ends it."""
        if self.server:
            self.server.close()
        self.server = self.page = self.problem = self._again = None
