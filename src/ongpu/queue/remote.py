"""Servers that run jobs, asked over HTTP with JSON: what goes wrong there is one line in English and in Chinese."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ongpu.hosts import rest
from ongpu.hosts.rest import Answer, Door, Status, Unanswered, segment
from ongpu.queue.engines import EngineError

__all__ = ["Server", "segment"]

JSON = "application/json"
UNABLE = 3  # nobody answers, or not sensibly: no verdict about what was asked
REFUSED = 2  # the server will not
_NO_ANSWER: Mapping[str, tuple[str, str]] = {
    rest.ADDRESS: ("the address is not one that can be asked over HTTP", "地址不是可用的 HTTP 地址"),
    rest.NAME: ("its name is not known ({words})", "主机名无法解析（{words}）"),
    rest.REFUSED: ("nobody listens there: connection refused", "该处无人监听：连接被拒绝"),
    rest.NO_WAY: ("it cannot be reached ({words})", "无法到达（{words}）"),
    rest.LATE: ("no answer within {words}", "{words} 内没有应答"),
    rest.TRUST: ("its TLS certificate is not trusted, or it speaks no TLS ({words})", "TLS 证书不受信任，或对方不使用 TLS（{words}）"),
    rest.CUT: ("it cut the connection ({words})", "连接被对方中断（{words}）"),
    rest.LARGE: ("an answer of more than {words}", "应答超过 {words}"),
    rest.ODD: ("what answers is no HTTP server ({words})", "应答者不是 HTTP 服务器（{words}）"),
}
_STATUS: Mapping[int, tuple[str, str]] = {
    400: ("it does not take the request", "请求不被接受"),
    401: ("it does not know who asks: no token, or one that is no longer valid", "未通过身份验证：没有令牌，或令牌已失效"),
    403: ("it does not allow this", "没有权限"),
    404: ("there is no such thing", "没有这个对象"),
    405: ("it does not know this request", "不支持该请求"),
    409: ("it is there already, or someone else changed it", "已经存在，或已被他人修改"),
    413: ("the request is too large for it", "请求过大"),
    422: ("it finds the request wrong", "请求内容有误"),
    429: ("it is asked too often", "请求过于频繁"),
}
MOST_WORDS = 300  # characters of the server's own


class Server:
    """A named server. words: its own, of the body of an answer that is an error. hints: by status, what to do about it."""

    def __init__(self, name: str, door: Door, words: Callable[[bytes], str], hints: Mapping[int, tuple[str, str]] | None = None) -> None:
        self.name, self.door, self._words, self._hints = name, door, words, hints or {}

    def ask(self, method: str, path: str, body: Any = None, *, kind: str = JSON, limit: float = 10.0, missing: bool = False) -> Any:
        """The JSON of its answer; None for an empty one, and with `missing` for a 404. body: bytes are sent as they are, all else as
        JSON. limit: seconds in all. Raises EngineError."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape")
        answer = self.answer(method, path, data, kind, limit)
        if missing and answer.status == 404:
            return None
        if not 200 <= answer.status < 300:
            raise self.refused(answer)
        if not answer.body.strip():
            return None
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise self._error(("its answer is no JSON", "应答不是 JSON"), UNABLE) from None

    def answer(self, method: str, path: str, body: bytes | None = None, kind: str = JSON, limit: float = 10.0) -> Answer:
        """Its answer, whatever status it has. Raises EngineError where there is none."""
        try:
            return self.door.ask(method, path, body, kind, limit)
        except Unanswered as error:
            raise self.silent(error) from None

    def stream(self, path: str, quiet: float = 1.0) -> Iterator[bytes]:
        """What a GET brings, piece by piece; b"" at first, and where nothing came for `quiet` seconds. Raises EngineError."""
        try:
            yield from self.door.stream(path, quiet)
        except Unanswered as error:
            raise self.silent(error) from None
        except Status as error:
            raise self.refused(error.answer) from None

    def silent(self, error: Unanswered) -> EngineError:
        """Nobody answers."""
        english, chinese = _NO_ANSWER[error.kind]
        return self._error((english.format(words=error.words), chinese.format(words=error.words)), UNABLE)

    def refused(self, answer: Answer) -> EngineError:
        """It answers with an error: what its status means, its own words, what to do."""
        words = one_line(self._words(answer.body))
        if 300 <= answer.status < 400:
            return self._error((f"it sends us elsewhere (status {answer.status}), which is not followed", f"要求转向他处（状态 {answer.status}），不予跟随"), UNABLE)  # fmt: skip # noqa: E501
        english, chinese = _STATUS.get(answer.status, (f"it failed with status {answer.status}", f"出错，状态 {answer.status}"))
        more = self._hints.get(answer.status, ("", ""))
        told = f": {words}" if words else ""
        lines = (f"{english}{told}" + (f"; {more[0]}" if more[0] else ""), f"{chinese}{told}" + (f"；{more[1]}" if more[1] else ""))
        return Refusal(*self._lines(lines), UNABLE if answer.status >= 500 else REFUSED, answer.status)

    def _lines(self, words: tuple[str, str]) -> tuple[str, str]:
        place = where(self.door.url)
        return f"{self.name} at {place}: {words[0]}", f"{self.name}（{place}）：{words[1]}"

    def _error(self, words: tuple[str, str], code: int) -> EngineError:
        return EngineError(*self._lines(words), code)


class Refusal(EngineError):
    """The server answered with an error. status: of HTTP."""

    def __init__(self, english: str, chinese: str, code: int, status: int) -> None:
        super().__init__(english, chinese, code)
        self.status = status


def cut(job: str) -> EngineError:
    """What was followed stopped, and the job did not."""
    return EngineError(
        f"{job}: the server ended the stream, and the job goes on: ongpu logs -f {job}",
        f"{job}：服务器中断了输出流，作业仍在继续：ongpu logs -f {job}",
        UNABLE,
    )


def where(url: str) -> str:
    """The address without what may be secret in it."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    except ValueError:
        return "?"


def one_line(text: str, most: int = MOST_WORDS) -> str:
    """Without line breaks and control characters, cut."""
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 4 * most]).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
