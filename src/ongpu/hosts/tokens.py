"""What opens a door: tokens, passwords, keys, logins; known by their form, or by the name of what holds them."""

import os
import re
from collections.abc import Iterator

from ongpu.lazy import lazy

MOST_VALUE = 20_000  # characters of a variable that are looked at
SECRET = "<secret>"  # noqa: S105
_SECRET_NAME = lazy(  # whole words of a name: HF_TOKEN, accessToken, but not tokenizer or max_tokens
    r"(?:^|_)(?:token|secrets?|pwd|credentials?|apikeys?|(?:api|access|private|signing|account|auth|encryption)_?keys?(?:_?id)?"
    r"|auth|authorization|cookie|dsn|webhook|signature)(?:_|$)|passw|passphrase|[a-z]{2,40}(?:secret|apikey)$|(?:hf|gh|git|api|auth|access|bot|bearer)token$"
)
# Tokens of a tokenizer, and counts: no secrets.
_PLAIN_NAME = lazy(
    r"(?:^|_)(?:eos|bos|pad|unk|sep|cls|mask|stop|start|end|image|special|next|first|last|new|per|each|cur|prev|num|input|output|decoder|"
    r"encoder|bypass|by|one|two|multi|first|second|forward|backward|single)_(?:token|pass)(?:_|$)|_pass(?:es)?_(?:count|id|manager)|token_(?:type|count|num|len)|^sshpass_?file$"
)
_SHORT = lazy(r"(?:^|_)[A-Z]{0,8}(?:PASS|PW)$")  # DB_PASS, SSHPASS: in capitals only
_CAMEL = lazy(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNED = lazy(  # a name and what stands between it and its value
    r'(?<![A-Za-z_])(?P<name>[A-Za-z_][A-Za-z0-9_-]{0,80})(?:\\?["\']?[ \t]{0,4}(?:[=:]|=>|:=)[ \t]{0,4}|\\?["\'],[ \t]{0,4}(?=\\?["\'])|["\']?\][ \t]?=[ \t]?)'
)
# Marks within an unquoted value: a quote, brace or backslash that something follows; "&", where it neither begins the next pair of an
# address ("token=x&user=me") nor ends a command. In quotes: a quote doubled ('it''s') or left for a moment ('it'\''s').
_WITHIN = r"""["'}](?=[\w!@#$%^*~?-])|&(?!amp;|\w{1,60}=)(?=[^\s&"'])|\\(?=[^\snrtubfx0"'\\])"""
_BARE = rf"(?:[^\s\"',}}\\&]|{_WITHIN}|,(?![A-Za-z_]\w{{0,60}}=)(?=[\w/+]))"
_QUOTED = r"""\\"[^"\n\\]{1,20000}|"(?:[^"\n\\]|\\[^\n]){1,20000}|'(?:[^'\n]|''(?=\w)|'\\''){1,20000}"""
_VALUE = lazy(rf"{_QUOTED}|{_BARE}{{1,20000}}")
_PAIR = lazy(  # Kubernetes: "- name: HF_TOKEN" and "value: ..." on two lines, or in one object
    r"(?P<head>\bname[\"']?[ \t]?:[ \t]{0,4}[\"']?(?P<name>[A-Za-z_][\w-]{0,80})[\"']?,?\s{1,40}[\"']?value[\"']?[ \t]?:[ \t]{0,4})(?P<value>"
    rf"{_QUOTED}|{_BARE}{{1,20000}})"
)
_FLAG = lazy(  # --token VALUE, --password VALUE; "-u name:password" of curl
    r"(?P<head>(?<![\w-])--?(?P<name>[A-Za-z][A-Za-z0-9_-]{1,60})(?:[\"']?,?[ \t\0]{1,4}|[\"'],))"
    rf"(?P<value>{_QUOTED}|(?!-)(?:(?!\0){_BARE}){{2,20000}})"
)
_CURL = lazy(r"(?<![\w-])(?P<head>(?:-u|--user|--proxy-user)[ =][\"']?)(?P<value>[^\s:\"']{1,80}:(?:[^\s\"']|[\"'](?=\w)){1,200})")
_HEADER = lazy(  # to the end of the quotes or of the line, whatever the scheme
    r"(?P<head>\b(?:proxy-)?authorization[\"']?\s{0,4}[:=,]\s{0,4}[\"']?)(?P<value>[^\"'\n\\]{3,4000})", re.IGNORECASE
)
_BEARER = lazy(r"\b(?P<head>Bearer|Basic)[ \t]{1,4}(?P<value>(?=[A-Za-z._~+/-]{0,200}[\d=]|[A-Za-z._~+/-]{20})[A-Za-z0-9._~+/=-]{8,4000})", re.IGNORECASE)
_NETRC = lazy(r"\b(?P<head>(?:machine[ \t]+\S{1,200}[ \t\n]+)login[ \t]+)(?P<value>\S{1,200}[ \t\n]+password[ \t]+\S{1,200})")
_LOGGED_IN = lazy(r"(?P<head>\b(?:wandb|docker|huggingface-cli|hf|comet|neptune)(?: auth)? login[ \t]+)(?P<value>[A-Za-z0-9_-]{16,200})")
KEYS: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy(r"-----BEGIN [A-Z ]{3,40}-----.{0,8000}?-----END [A-Z ]{3,40}-----", re.DOTALL), "<private key>"),
    (lazy(r"\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-nistp\d{3}) AAAA[A-Za-z0-9+/=]{20,2000}"), "<public key>"),
    # Prefixes as their issuers print them: GitHub, Hugging Face, OpenAI/Anthropic, Slack, AWS, GitLab, NVIDIA, Google, npm, PyPI, Docker,
    # Stripe, Replicate, Groq, xAI, Databricks, Vault, DigitalOcean, SendGrid, Tailscale, Linear, Atlassian, Azure, JSON web tokens.
    (lazy(
        r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|(?:hf|api_org)_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
        r"|xapp-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{12,}|gl(?:pat|dt|rt|cbt|ptt|ft|agent|soat|imt)-[\w-]{16,}|nvapi-[\w-]{6,}"
        r"|AIza[\w-]{20,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{10,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dckr_(?:pat|oat)_[\w-]{16,}"
        r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|r8_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|dapi[0-9a-f]{32}|hv[sbr]\.[\w-]{20,}"
        r"|do[op]_v1_[0-9a-f]{32,}|SG\.[\w-]{16,}\.[\w-]{16,}|tskey-[\w-]{10,}|lin_api_\w{16,}|ATATT[\w=-]{16,}|eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]{5,})?"
        r"|(?:local-)?wandb_v1_\w{16,}|\d{8,10}:AA[\w-]{30,})"), "<token>"),
    (lazy(r"(?<=hooks\.slack\.com/services/)[\w/]{10,}|(?<=/api/webhooks/)\d{10,}/[\w-]{20,}|(?<=[?&]sig=)[\w%+/=-]{10,}"), "<token>"),
    (lazy(r"(?<=://)[^\s/@:\"']{0,80}:(?:[^\s@\"']|['\"](?=\w)|@(?=[^\s@/\"']{1,200}@)){1,200}@(?=[\w\[<])"), "<login>@"),
)  # fmt: skip
MAIL = lazy(r"\b(?![\w.+-]{1,64}@[\w.-]{1,200}\.(?:service|socket|slice|timer|mount|target|device)\b)[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.[A-Za-z]{2,24}\b")
MAC = lazy(r"(?<![\w:-])(?:[0-9a-f]{2}[:-]){5,31}[0-9a-f]{2}(?![\w:-])", re.IGNORECASE)
_SWITCHES = ("true", "false", "none", "null", "0", "1", "yes", "no")


def secret_name(name: str) -> bool:
    """Whether what goes by this name is a secret: HF_TOKEN, accessToken, --api-key; not eos_token."""
    word = _CAMEL.sub("_", name[:200]).replace("-", "_").lower()
    return bool((_SECRET_NAME.search(word) or _SHORT.search(name[:200])) and not _PLAIN_NAME.search(word))


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of the environment holds a secret, as its name or its value says: HF_TOKEN, a URL with a login. Where a secret
    is kept (GOOGLE_APPLICATION_CREDENTIALS, SSH_AUTH_SOCK: a file that is there) is none."""
    if secret_name(name) and value and value.lower() not in _SWITCHES and not (value.startswith("/") and os.path.lexists(value)):
        return True
    return any(pattern.search(value[:MOST_VALUE]) for pattern, _ in KEYS) or _BEARER.search(value[:MOST_VALUE]) is not None


def without(text: str) -> str:
    """The text without keys, tokens, passwords and addresses of mail: what not even the machine's own users should read."""
    for pattern, mask in KEYS:
        text = pattern.sub(mask, text)
    text = _HEADER.sub(rf"\g<head>{SECRET}", text)
    text = _BEARER.sub(rf"\g<head> {SECRET}", text)
    for pattern in (_NETRC, _LOGGED_IN, _CURL):
        text = pattern.sub(rf"\g<head>{SECRET}", text)
    text = MAIL.sub("<mail>", text)
    text = MAC.sub("<mac>", text)
    for pattern in (_PAIR, _FLAG):
        text = pattern.sub(lambda m: m["head"] + _masked(m["value"]) if secret_name(m["name"]) else m[0], text)
    return "".join(_assigned(text))


def _assigned(text: str) -> Iterator[str]:
    """The text in pieces, the values of secret names masked. A value of any other name is looked at itself: -e=HF_TOKEN=..."""
    done = 0
    for match in _ASSIGNED.finditer(text):
        if match.start() >= done and secret_name(match["name"]) and (value := _VALUE.match(text, match.end())):
            yield text[done : match.end()] + _masked(value[0])
            done = value.end()
    yield text[done:]


def _masked(value: str) -> str:
    """The mask of a value, its opening quotes kept; a mere switch stays."""
    bare = value.lstrip("\\").lstrip("\"'")
    return value if not bare or bare.lower() in (*_SWITCHES, SECRET) else value[: len(value) - len(bare)] + SECRET
