"""The parts of the agent, none of which may stop another: what fails is counted, and told once a minute."""

import contextlib
import time
from collections.abc import Iterator
from typing import TextIO

TOLD_EVERY = 60.0  # seconds between two complaints about one part


class Parts:
    """What is told of parts that fail."""

    def __init__(self, err: TextIO, lang: str) -> None:
        self.errors: dict[str, int] = {}
        self._err, self._lang = err, lang
        self._told: dict[str, float] = {}

    def say(self, english: str, chinese: str) -> None:
        """One line for the operator. A pipe that is closed is no reason to stop."""
        with contextlib.suppress(OSError, ValueError):
            print(f"ongpu watch: {chinese if self._lang == 'zh' else english}", file=self._err, flush=True)

    @contextlib.contextmanager
    def guard(self, part: str) -> Iterator[None]:
        """What happens inside stops nothing outside."""
        try:
            yield
        except Exception as error:
            self.failed(part, error)

    def count(self, part: str, errors: int) -> None:
        """Errors of a part that it tells itself."""
        if errors:
            self.errors[part] = self.errors.get(part, 0) + errors

    def failed(self, part: str, error: Exception) -> None:
        """Counts it, and tells it once a minute."""
        count = self.errors[part] = self.errors.get(part, 0) + 1
        clock = time.monotonic()
        if clock - self._told.get(part, float("-inf")) >= TOLD_EVERY:
            self._told[part] = clock
            what = f"{part}: {type(error).__name__}: {error}"
            self.say(f"{what} (error {count} of this part; it goes on)", f"{what}（该部分第 {count} 次出错；继续运行）")
