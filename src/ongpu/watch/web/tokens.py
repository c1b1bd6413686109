"""The token that lets somebody in, the session that a browser gets for it, and the count of those who guess."""

import contextlib
import hmac
import os
import secrets
import stat
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

LEAST = 32  # characters of a token: sessions are signed with it, so that a short one could be guessed from a session
MOST = 4096  # bytes of a token file that are read
SESSION = 7 * 86400.0  # seconds that a browser stays logged in
TRIES, WITHIN = 5, 60.0  # wrong tokens of one address, seconds: then it has to wait
ADDRESSES = 1024  # that are remembered


class BadToken(Exception):
    """A token file that cannot be used; the words in both languages."""

    def __init__(self, en: str, zh: str) -> None:
        super().__init__(en)
        self.en, self.zh = en, zh


def create(path: Path) -> str:
    """The token in the file, made first where there is none: 43 characters (256 bits); only its owner may read the file.

    Raises BadToken where there is a file that cannot be used, OSError where none can be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # written whole under another name first: a reader never sees half a token, and two that create at once agree
        new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        try:
            os.link(new, path)
        finally:
            new.unlink()
    return read(path)


def read(path: Path) -> str:
    """The token in the file. Raises BadToken, and FileNotFoundError where there is no file."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        text = file.read(MOST).decode("utf-8", "replace").strip()
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise BadToken(f"others may read {path}: chmod 600 it", f"其他用户可以读取 {path}：请执行 chmod 600")
    if len(text) < LEAST or not text.isascii() or not text.isprintable() or " " in text:
        raise BadToken(
            f"{path} holds no token of at least {LEAST} characters: remove it, and `ongpu watch token` makes a new one",
            f"{path} 中没有至少 {LEAST} 个字符的令牌：删除它后运行 `ongpu watch token` 可生成新的",
        )
    return text


@dataclass
class TokenFile:
    """The file, read again when it changes: a new token ends all sessions of the old one."""

    path: Path
    _stamp: tuple[int, int, int] | None = field(default=None, repr=False)
    _token: str | None = field(default=None, repr=False)

    def token(self) -> str | None:
        """The token now; None where there is no file, or none that can be used."""
        try:
            told = self.path.stat()
        except OSError:
            self._stamp = self._token = None
            return None
        stamp = (told.st_mtime_ns, told.st_ino, told.st_mode)
        if stamp != self._stamp:
            self._stamp, self._token = stamp, None
            with contextlib.suppress(OSError, BadToken):
                self._token = read(self.path)
        return self._token


def same(given: str, wanted: str | None) -> bool:
    """Whether that is the token; takes as long for a near miss as for any other."""
    return wanted is not None and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def session(token: str, now: float) -> str:
    """What a browser keeps instead of the token: until when, and a signature made with the token."""
    until = f"{int(now + SESSION)}.{secrets.token_hex(8)}"
    return f"{until}.{_sign(token, until)}"


def valid(given: str, token: str | None, now: float) -> bool:
    """Whether that is a session of this token that has not run out."""
    until, _, signature = given.rpartition(".")
    seconds, _, nonce = until.partition(".")
    if token is None or len(given) > 128 or not (seconds.isascii() and seconds.isdecimal() and nonce.isascii()):
        return False
    return hmac.compare_digest(signature.encode("utf-8", "replace"), _sign(token, until).encode()) and now < int(seconds)


def _sign(token: str, text: str) -> str:
    return hmac.new(token.encode(), f"ongpu session {text}".encode(), sha256).hexdigest()


@dataclass
class Failures:
    """Wrong tokens by address: TRIES of them WITHIN seconds, then none is looked at until these have passed."""

    seen: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)  # how many, until when they count

    def wait(self, address: str, now: float) -> float:
        """Seconds that the address has to wait; 0: its token is looked at."""
        count, until = self.seen.get(address, (0, 0.0))
        return max(until - now, 0.0) if count >= TRIES else 0.0

    def add(self, address: str, now: float) -> None:
        """One more of that address."""
        count, until = self.seen.pop(address, (0, 0.0))
        self.seen[address] = (count + 1, until) if now < until else (1, now + WITHIN)
        while len(self.seen) > ADDRESSES:
            self.seen.popitem(last=False)
