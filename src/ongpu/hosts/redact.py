"""Names, paths, addresses, serials and tokens out, before anything is written. The same name gets the same mask."""

import os
import re
from collections.abc import Mapping

from ongpu.lazy import dataclass, field, lazy, replace
from ongpu.model import Evidence

_SECRET_NAME = lazy(  # whole words of a name: HF_TOKEN, accessToken, but not tokenizer or max_tokens
    r"(?:^|_)(?:token|secret|passw\w*|pwd|credentials?|apikey|(?:api|access|private|signing)_?key|auth|authorization|cookie|dsn|webhook)(?:_|$)"
)
_CAMEL = lazy(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNED = lazy(r'(?P<name>[A-Za-z_][A-Za-z0-9_]{0,80})(?P<eq>["\']?\s?[=:,]\s?["\']?)(?P<value>[^\s"\',}]{1,400})')
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy(r"-----BEGIN [A-Z ]{3,40}-----.{0,8000}?-----END [A-Z ]{3,40}-----", re.DOTALL), "<private key>"),
    (lazy(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}|glpat-[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})"), "<token>"),
    (lazy(r"(?<=://)[^\s/@:]{1,80}:[^\s/@]{1,200}(?=@)"), "<login>"),
    (lazy(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b"), "<mail>"),
    (lazy(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", re.IGNORECASE), "<mac>"),
)  # fmt: skip
_UUID = lazy(r"\b(?P<kind>GPU-|MIG-(?:GPU-)?)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_SERIAL = lazy(r"(?P<head>serial(?: number|_number)?\"?\s*[:=]\s*\"?)(?P<value>[A-Za-z0-9-]{6,40})", re.IGNORECASE)
_IPV4 = lazy(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_IPV6 = lazy(r"(?<![\w:.])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}(?![\w:.])", re.IGNORECASE)
_HOME = lazy(r"(?P<head>/home/|/Users/|[A-Z]:\\+Users\\+|/data/home/|/mnt/home/)(?P<name>[^/\\\s:\"',;]{1,64})")
MOST_VALUE = 20_000  # characters of a variable that are looked at
_PUBLIC_NAMES = {"user", "shared", "public", "root", "runner", "ubuntu"}


_SWITCHES = ("true", "false", "none", "0", "1")
_SECRET_VALUES = _PATTERNS[:3]  # keys, tokens, logins


def _secret_name(name: str) -> bool:
    return _SECRET_NAME.search(_CAMEL.sub("_", name).lower()) is not None


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of the environment holds a secret, as its name or its value says: HF_TOKEN, a URL with a login. Where a secret
    is kept (GOOGLE_APPLICATION_CREDENTIALS, SSH_AUTH_SOCK: a file that is there) is none."""
    if _secret_name(name) and value and value.lower() not in _SWITCHES and not (value.startswith("/") and os.path.lexists(value)):
        return True
    return any(pattern.search(value[:MOST_VALUE]) for pattern, _ in _SECRET_VALUES)


@dataclass
class Redactor:
    """Masks with memory: UUID 1 stays UUID 1 in every text, so that findings on the masked texts are the same.

    names: user and host names of this machine, which are masked wherever they stand alone.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)

    def _mask(self, kind: str, value: str) -> str:
        key = f"{kind}:{value.lower()}"
        if key not in self.seen:
            self.seen[key] = f"{kind}{sum(k.startswith(kind + ':') for k in self.seen) + 1}"
        return self.seen[key]

    def secrets(self, text: str) -> str:
        """The text without keys, tokens, passwords and addresses of mail: what not even the machine's own users should read."""
        for pattern, mask in _PATTERNS:
            text = pattern.sub(mask, text)
        return _ASSIGNED.sub(self._assigned, text)

    def text(self, text: str) -> str:
        """The text without what names a person, a machine or a secret."""
        text = self.secrets(text)
        text = _UUID.sub(self._uuid, text)
        text = _SERIAL.sub(lambda m: m["head"] + self._mask("serial", m["value"]), text)
        text = _IPV4.sub(self._address, text)
        text = _IPV6.sub(lambda m: m[0] if m[0].count(":") < 4 else self._mask("ip", m[0]), text)
        text = _HOME.sub(self._home, text)
        for name, mask in self.names.items():
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", mask, text)
        return text

    def _assigned(self, match: re.Match[str]) -> str:
        if not _secret_name(match["name"]) or match["value"].lower() in _SWITCHES:
            return match[0]
        return f"{match['name']}{match['eq']}<secret>"

    def _uuid(self, match: re.Match[str]) -> str:
        number = int(re.sub(r"\D", "", self._mask("uuid", match[0].lower())))
        return f"{match['kind'] or ''}00000000-0000-0000-0000-{number:012x}"

    def _address(self, match: re.Match[str]) -> str:
        parts = match[0].split(".")
        loopback = parts[0] in ("127", "0") or match[0] == "255.255.255.255"
        if loopback or any(int(part) > 255 for part in parts) or self._version(match):
            return match[0]
        return self._mask("ip", match[0])

    @staticmethod
    def _version(match: re.Match[str]) -> bool:
        """Whether the four numbers are a version ("cudnn 9.1.0.70", "nvidia-cublas-cu12==12.4.5.8"), not an address."""
        before = match.string[max(0, match.start() - 24) : match.start()].lower()
        return bool(re.search(r"(?:==|>=|<=|-|_|version\W*|cu1\d\W+|so\.|v|\(|cudnn\W*|nccl\W*)$", before)) or int(match[0].split(".")[0]) < 10

    def _home(self, match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name.lower() in _PUBLIC_NAMES else match["head"] + self._mask("user", name)

    def evidence(self, item: Evidence) -> Evidence:
        """The evidence, masked."""
        command = self.text(item.command) if item.command else item.command
        return replace(item, text=self.text(item.text), origin=self.text(item.origin), command=command)


def for_this_machine(user: str, host: str) -> Redactor:
    """A redactor that knows the user's and the machine's name; names too common to be one are left."""
    names = {host: "host1", host.split(".")[0]: "host1", user: "user1"}
    common = _PUBLIC_NAMES | {"localhost", "linux", "python", "nvidia", "cuda", "gpu", "torch", "docker", ""}
    kept = {name: mask for name, mask in names.items() if name.lower() not in common and len(name) > 2}
    redactor = Redactor(kept)
    if user in kept:
        redactor.seen[f"user:{user.lower()}"] = "user1"
    return redactor
