"""A Prometheus server, asked over its HTTP API (https://prometheus.io/docs/prometheus/latest/querying/api/)."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

MOST = 64 << 20  # bytes of one answer


class Refused(OSError):
    """The server could not be asked, or did not answer the question; the words say why."""


def query(url: str, expression: str, limit: float, token: str = "") -> list[tuple[dict[str, str], float]]:
    """(labels, value) of each series of an instant query. token: sent as bearer token.

    Raises Refused; ValueError where the address is none of http or https.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("not an http or https address")
    address = f"{url.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310  (checked above)
    try:
        with urllib.request.urlopen(request, timeout=limit) as answer:  # noqa: S310
            text = answer.read(MOST + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(f"HTTP {error.code}: {_words(error.read(4096)) or error.reason}") from None
    except (OSError, ValueError) as error:
        raise Refused(str(getattr(error, "reason", error)) or type(error).__name__) from None
    if len(text) > MOST:
        raise Refused(f"an answer of more than {MOST >> 20} MiB")
    try:
        data = json.loads(text)
        if data["status"] != "success" or data["data"]["resultType"] != "vector":
            raise Refused(_words(text) or "not a vector")
        return [(_labels(row["metric"]), float(row["value"][1])) for row in data["data"]["result"]]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise Refused("not the answer of a Prometheus server") from None


def _labels(given: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in given.items()}


def _words(text: bytes) -> str:
    """The server's own words about an error."""
    try:
        return str(json.loads(text).get("error", ""))[:300]
    except (ValueError, AttributeError, RecursionError):
        return ""
