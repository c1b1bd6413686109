"""The GPUs that were here when the agent ran last: one that is missing since then is lost, one that was replaced is not.

A machine that starts with a GPU fewer than it had (a loose power cable) looks healthy to whoever knows only the present.
"""

from collections.abc import Iterable, Sequence

from ongpu.watch.evidence import place_of
from ongpu.watch.incidents import Incident
from ongpu.watch.state import GONE, UNKNOWN, GpuState, State


class Known:
    """What was known. text: the state that the last run wrote (`State.as_json` and more); None: none did. host: this machine's name."""

    def __init__(self, text: str | None, host: str) -> None:
        import json

        self._gpus: list[GpuState] = []
        self._tidy = False  # whether the present GPUs are told apart from those of then
        if text and json.loads(text).get("host") == host:
            self._gpus = [gpu for gpu in State.from_json(text).gpus.values() if gpu.uuid]
        self.count = len(self._gpus)  # those that were gone then are still expected

    def seed(self, state: State, now: float) -> None:
        """Puts the GPUs of then into the state: unknown until they answer, gone where the driver counts fewer."""
        for gpu in self._gpus:
            state.gpus[gpu.index] = GpuState(gpu.index, gpu.uuid, gpu.name, gpu.bus, since=now)
        state.gpus = dict(sorted(state.gpus.items()))

    def replaced(self, state: State, open: Sequence[Incident]) -> list[str]:
        """The places of GPUs that are gone although the driver counts as many as before: others have taken their place.

        And, once all GPUs have said who they are, of incidents of GPUs that nobody knows. Asked after each message, until then.
        """
        if self._tidy or not state.up or state.count is None:
            return []
        here = [gpu for gpu in state.gpus.values() if gpu.index < state.count]
        self._tidy = all(gpu.condition != UNKNOWN for gpu in here)
        if state.count < self.count:
            return []
        known = {gpu.uuid for gpu in self._gpus}
        gone = [place_of(gpu) for gpu in state.gpus.values() if gpu.condition == GONE and gpu.uuid in known]
        return gone + (_strangers(open, state.gpus.values()) if self._tidy else [])


def _strangers(open: Iterable[Incident], gpus: Iterable[GpuState]) -> list[str]:
    places = {place_of(gpu) for gpu in gpus}
    return list(dict.fromkeys(one.key[1] for one in open if one.key[1] and one.key[1] not in places))
