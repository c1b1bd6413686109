"""Messages sent and pages fetched by a child process that lives for one errand: what hangs there is ended, what it loads is freed.

Apprise and the libraries below it take some 25 MB and half a second to load, which a process that runs for months need not keep.
Addresses hold tokens: they go to the child by its standard input, never on its command line, and come back in no error.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ongpu.hosts.processes import end

MISSING = "apprise is not installed: pip install 'ongpu[watch]'"
UNKNOWN = "no address that Apprise knows; see its list of services"
MOST = 300  # characters of a reason
_PROGRAM = "from ongpu.hosts.post import main; main()"


def post(url: str, messages: Sequence[Mapping[str, str]], limit: float) -> list[str | None]:
    """Sends messages ({"title", "body", "kind"}: kind is info, success, warning or failure) by Apprise.

    One answer for each: None where it was taken, else why not. limit: seconds for all of them.
    """
    answers = _errand({"url": url, "messages": list(messages)}, url, limit)
    return [answers[number] if number < len(answers) else _last(answers) for number in range(len(messages))]


def fetch(url: str, limit: float) -> str | None:
    """Fetches a page (GET) and forgets it; None where the server said that all is well, else why not."""
    return _last(_errand({"get": url}, url, limit), None)


def _last(answers: Sequence[str | None], otherwise: str | None = "ended without an answer") -> str | None:
    return answers[-1] if answers and answers[-1] else otherwise


def _errand(what: Mapping[str, Any], secret: str, limit: float) -> list[str | None]:
    """What the child says of each part of the errand; where it ends early, the reason stands last."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ,
        start_new_session=True,
    )  # fmt: skip
    problem: str | None = None
    try:
        told, _ = process.communicate(json.dumps(what).encode(), timeout=limit)
        if process.returncode:
            problem = f"the sender ended with status {process.returncode}"
    except subprocess.TimeoutExpired as late:
        end(process)
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        told, problem = late.stdout or b"", f"no answer within {limit:g} s"
    answers: list[str | None] = []
    for line in told.decode("utf-8", "replace").splitlines():
        try:
            why = json.loads(line)["why"]
        except (ValueError, TypeError, KeyError):
            continue
        answers.append(None if why is None else cleaned(str(why), secret))
    return [*answers, problem] if problem else answers


def cleaned(text: str, secret: str) -> str:
    """The text without any part of the address: what is four characters or longer between its signs."""
    for part in sorted(set(re.split(r"[/:@?&=,#+\s]", secret)), key=len, reverse=True):
        if len(part) >= 4:
            text = text.replace(part, "***")
    return " ".join(text.split())[:MOST]


def main() -> None:
    """The child: reads its errand, prints {"why": null} or {"why": "..."} for each part of it."""
    what = json.loads(sys.stdin.buffer.read())
    if "get" in what:
        _say(_get(what["get"]))
        return
    try:
        import apprise
    except ImportError:
        _say(MISSING)
        return
    sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="ongpu", app_desc="ongpu watch", async_mode=False))
    if not sender.add(what["url"]):
        _say(UNKNOWN)
        return
    for message in what["messages"]:
        with apprise.LogCapture(level=apprise.logging.WARNING, fmt="%(message)s") as heard:
            try:
                taken = sender.notify(body=message["body"], title=message["title"], notify_type=message["kind"])
                why = None if taken else heard.getvalue().strip().splitlines()[-1:] or ["refused"]
            except Exception as error:  # one service's fault is told, and stops nothing
                why = [f"{type(error).__name__}: {error}"]
        _say(why[0] if why else None)


def _get(url: str) -> str | None:
    from urllib.request import Request, urlopen

    if not url.startswith(("https://", "http://")):
        return "is to begin with https:// or http://"
    try:
        with urlopen(Request(url, headers={"User-Agent": "ongpu"})) as page:  # noqa: S310  the scheme was looked at
            page.read(1024)
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _say(why: str | None) -> None:
    print(json.dumps({"why": why}), flush=True)  # noqa: T201
