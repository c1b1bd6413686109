"""Users and groups: who owns a file, and whether this user may open it."""

import os
import re
import stat
from pathlib import Path

from ongpu.hosts.live import Live

try:
    import grp
    import pwd
except ImportError:  # Windows
    grp = pwd = None  # type: ignore[assignment]


def user_name(uid: int) -> str:
    """The user's name; the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name if pwd else str(uid)
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """The group's name; the number where there is none."""
    try:
        return grp.getgrgid(gid).gr_name if grp else str(gid)
    except KeyError:
        return str(gid)


def openable(machine: Live, path: Path, info: os.stat_result) -> bool:
    """Whether the user may read and write it; of a recorded tree, by the mode and the recorded `id`."""
    said = machine.recorded.get("id")
    if machine.commands or not said:
        return os.access(path, os.R_OK | os.W_OK)
    user = re.search(r"uid=(\d+)", said)
    uid = int(user[1]) if user else 0
    groups = {int(number) for number in re.findall(r"(\d+)\(", said.partition("gid=")[2])}
    if uid == 0:
        return True
    want = (
        stat.S_IRUSR | stat.S_IWUSR if uid == info.st_uid
        else stat.S_IRGRP | stat.S_IWGRP if info.st_gid in groups
        else stat.S_IROTH | stat.S_IWOTH
    )  # fmt: skip
    return info.st_mode & want == want
