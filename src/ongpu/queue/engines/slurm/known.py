"""What Slurm knows, asked: jobs from slurmctld while it remembers them, then from its accounts or the file of jobcomp; nodes; settings."""

import getpass
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from ongpu.queue.engines import EngineError
from ongpu.queue.engines.slurm import nodes as cluster
from ongpu.queue.engines.slurm import printed, record, rows
from ongpu.queue.engines.slurm.ask import ask, expect, refusal
from ongpu.queue.engines.slurm.nodes import Node
from ongpu.queue.engines.slurm.rows import Row
from ongpu.queue.job import Want

FORGET = 14 * 86_400  # seconds back that sacct is asked for
TAIL = 4 << 20  # bytes of the jobcomp file that are read: the end


class Known:
    """folder: of our records. All methods raise EngineError where Slurm does not answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.json = True  # squeue --json, until it refuses

    def settings(self) -> dict[str, str]:
        """What slurmctld goes by."""
        return settings_of(expect(ask(["scontrol", "show", "config"]), "scontrol show config"))

    def nodes(self) -> list[Node]:
        """The nodes, with their GPUs."""
        return cluster.read(expect(ask(["scontrol", "show", "node", "-d"]), "scontrol show node"))

    def live(self) -> list[Row]:
        """What slurmctld knows: what waits and runs, and for MinJobAge what has ended."""
        if self.json:
            answer = ask(["squeue", "--json", "--states=all"])
            if answer.code == 0:
                try:
                    return rows.from_json(answer.out)
                except ValueError:
                    self.json = False
            elif "json" in answer.err.lower() or "unrecognized" in answer.err.lower() or "serializer" in answer.err.lower():
                self.json = False
            else:
                raise refusal(answer, "squeue")
        answer = ask(["scontrol", "show", "job", "-d"])
        if "No jobs in the system" in answer.out:
            return []
        return printed.from_scontrol(expect(answer, "scontrol show job"))

    def past(self, want: Want, live: Mapping[str, Row]) -> tuple[dict[str, Row], tuple[str, str] | None]:
        """What has ended and Slurm forgot, of its accounts or of jobcomp's file; and why there is none."""
        columns = ",".join(printed.SACCT)
        argv = ["sacct", "-X", "-n", "-P", f"--delimiter={printed.DELIMITER}", "-o", columns]
        if want.ids:
            bare = [job for job in want.ids if job not in live and record.valid(job)]
            if not bare:
                return {}, None
            argv += ["-j", ",".join(bare)]  # of all times
        else:
            argv += ["-u", want.user or getpass.getuser(), f"--starttime=now-{FORGET}seconds"]
        try:
            answer = ask(argv)
            if answer.code == 0:
                return {row.id: row for row in printed.from_sacct(answer.out) if row.index is not None or not row.tasks}, None
            error = refusal(answer, "sacct")
        except EngineError as late:  # not there, or its database hangs: what lives is told all the same
            error = late
        there = {row.raw for row in live.values()} | {row.array for row in live.values()}
        return self._jobcomp(want, there), (error.english, error.chinese)

    def _jobcomp(self, want: Want, there: Collection[str]) -> dict[str, Row]:
        """Of its file, those that are asked for or ours. It names no arrays: their tasks go by numbers that mean nothing to a reader."""
        told_settings = self.settings()
        place = told_settings.get("JobCompLoc", "")
        if told_settings.get("JobCompType") != "jobcomp/filetxt" or not place.startswith("/"):
            return {}
        try:
            with open(place, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
                text = file.read(TAIL).decode("utf-8", "replace")
        except OSError:  # root's, on most
            return {}
        found = {row.id: row for row in printed.from_jobcomp(text) if row.id not in there}
        if want.ids:
            return {name: row for name, row in found.items() if name in want.ids}
        kept = {name: record.read(self.folder, name) for name in found}
        return {name: row for name, row in found.items() if (mine := kept[name]) is not None and not mine.indices}


def settings_of(text: str) -> dict[str, str]:
    """NAME -> value of `scontrol show config`; "(null)" is ""."""
    found = {}
    for line in text.splitlines():
        name, mark, value = line.partition("=")
        if mark and name.strip():
            found[name.strip()] = value.strip() if value.strip() != "(null)" else ""
    return found
