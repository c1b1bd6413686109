"""The systemd unit of the agent: for the whole machine, or for one user."""

import os
import shlex
import sys
from pathlib import Path

NAME = "ongpu-watch.service"
SYSTEM, USER = Path("/etc/systemd/system"), Path("~/.config/systemd/user")

_COMMON = """\
[Unit]
Description=ongpu watch: samples, incidents and metrics of this machine's GPUs
Documentation=man:systemd.exec(5)
After={after}
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=5
TimeoutStopSec=10
"""
# What each line is for: systemd.exec(5). Not there, on purpose: PrivateDevices (the GPUs' nodes are needed), ProtectKernelLogs
# (Xid errors stand in /dev/kmsg), ProcSubset=pid (/proc/stat, /proc/net/dev), MemoryDenyWriteExecute (NVML and ctypes may map
# pages that they execute; not tried on a GPU), PrivateUsers (process owners are shown).
_HARDENED = """\
# Runs as a user of its own that exists only while it runs; all it may write is /var/lib/ongpu.
DynamicUser=yes
StateDirectory=ongpu
StateDirectoryMode=0750
UMask=0027
# to read the kernel log (Xid errors), and /proc/PID/io and /proc/PID/cwd of other users' processes
AmbientCapabilities=CAP_SYSLOG CAP_SYS_PTRACE
CapabilityBoundingSet=CAP_SYSLOG CAP_SYS_PTRACE
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
KeyringMode=private
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# the GPUs and the kernel log, no other device (the names as /proc/devices has them, of old and new drivers)
DevicePolicy=closed
DeviceAllow=/dev/kmsg r
DeviceAllow=char-nvidia rw
DeviceAllow=char-nvidiactl rw
DeviceAllow=char-nvidia-frontend rw
DeviceAllow=char-nvidia-modeset rw
DeviceAllow=char-nvidia-uvm rw
DeviceAllow=char-nvidia-caps rw
DeviceAllow=char-nvidia-nvlink rw
DeviceAllow=char-nvidia-nvswitch rw
MemoryMax=512M
TasksMax=128
"""
_USER = """\
NoNewPrivileges=yes
UMask=0077
MemoryMax=512M
TasksMax=128
"""


def command(config: str | None = None, more: tuple[str, ...] = ()) -> str:
    """The command line that starts the agent with the interpreter that runs now, quoted as systemd wants it."""
    words = [sys.executable, "-m", "ongpu", "watch", *(("--config", os.path.abspath(config)) if config else ()), *more]
    return " ".join(shlex.quote(word.replace("%", "%%").replace("$", "$$")) for word in words)


def unit(user: bool, config: str | None = None, more: tuple[str, ...] = ()) -> str:
    """The text of the unit. user: for `systemctl --user`. more: further arguments of `ongpu watch`."""
    start = command(config, more)
    if user:
        return _COMMON.format(after="default.target", command=start) + _USER + "\n[Install]\nWantedBy=default.target\n"
    home = "read-only" if _in_a_home(sys.executable) or (config and _in_a_home(os.path.abspath(config))) else "yes"
    return (
        _COMMON.format(after="network.target nvidia-persistenced.service", command=start)
        + _HARDENED.format(home=home)
        + "\n[Install]\nWantedBy=multi-user.target\n"
    )


def _in_a_home(path: str) -> bool:
    """Whether ProtectHome=yes would hide it."""
    return path.startswith(("/home/", "/root/", "/run/user/"))


def out_of_reach(path: str) -> str:
    """The first folder or file on the way to it that a user of the service's own could not use; "" where there is none.

    /tmp and /var/tmp count: PrivateTmp shows the service empty ones.
    """
    whole = Path(os.path.abspath(path))
    for hidden in (Path("/tmp"), Path("/var/tmp")):
        if whole.is_relative_to(hidden):
            return str(hidden)
    for way in (whole, whole.resolve()):  # links: a virtual environment's python is one
        for folder in reversed(way.parents):
            if not _others(folder, 0o001):
                return str(folder)
    return "" if _others(whole, 0o004) else str(whole)


def _others(path: Path, bit: int) -> bool:
    """Whether those who are neither its owner nor of its group may; True where it cannot be told."""
    try:
        return bool(path.stat().st_mode & bit)
    except OSError:
        return True


def place(user: bool) -> Path:
    """Where the unit's file lies."""
    return (USER.expanduser() if user else SYSTEM) / NAME


def next_steps(user: bool, there: bool) -> list[str]:
    """The commands that bring the unit into force (there: it was written), or take it out of force (it was removed)."""
    control = "systemctl --user" if user else "sudo systemctl"
    if there:
        steps = [f"{control} daemon-reload", f"{control} enable --now {NAME}", f"{control} status {NAME}"]
        return [*steps, "sudo loginctl enable-linger $USER"] if user else steps
    # apart: of a unit whose file is gone, `disable --now` may stop nothing
    return [f"{control} stop {NAME}", f"{control} disable {NAME}", f"{control} daemon-reload"]
