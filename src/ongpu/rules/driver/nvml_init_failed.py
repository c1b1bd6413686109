"""NVML is there and does not start, with an error that no other rule explains."""

from collections.abc import Iterator

from ongpu.facts.driver import Driver
from ongpu.model import Finding, Fix, Layer, Rule, Severity, Text

# The words of nvmlErrorString (nvml.h: nvmlReturn_t). Not loaded, version mismatch, no permission, no library, unknown error, lost GPU
# and "blocked by the operating system" (WSL) have rules of their own.
WORDS = (
    "Uninitialized", "Invalid Argument", "Not Supported", "Not Found", "Insufficient External Power", "Timeout", "Interrupt Request Issue",
    "Function Not Found", "Corrupted infoROM", "Insufficient Memory", "GPU requires restart", "GPU requires reset", "Insufficient Size",
)  # fmt: skip


def check(driver: Driver) -> Iterator[Finding]:
    if driver.nvml in WORDS:
        yield Finding(
            values={"error": driver.nvml, "version": driver.version}, fixes=(Fix("look-at-the-bus"), Fix("reboot-node")),
            refs=driver.about("nvml")[:2],
        )  # fmt: skip


RULE = Rule(
    slug="nvml-init-failed",
    layer=Layer.DRIVER,
    severity=Severity.ERROR,
    check=check,
    hides=("cuda-unavailable",),
    settle=("nvidia-smi", "sudo dmesg | grep -iE 'nvrm|xid|nvidia'"),
    see=("https://docs.nvidia.com/deploy/nvml-api/group__nvmlInitializationAndCleanup.html",),
    en=Text(
        title="The driver's management library does not start: \"{error}\"",
        why="NVML answers each program in this way, nvidia-smi too: no GPU of the machine can be asked{version:, with driver *|}.",
        fix="Look in the kernel log for NVRM and Xid lines: they name the cause. Often one broken card keeps all from starting; a power "
        "cycle tells whether it stays. Where the driver was just changed, reboot; else install it anew.",
    ),
    zh=Text(
        title="驱动的管理库（NVML）无法启动：“{error}”",
        why="所有程序（包括 nvidia-smi）都会得到这个回答：本机的 GPU 都无法查询{version:（驱动 *）|}。",
        fix="先看内核日志里的 NVRM、Xid 行，原因就在那里。常见情形是一块坏卡使全部无法启动；断电重启可看是否仍然如此。刚换过驱动则重启，否则重装驱动。",
    ),
)
