from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.hardware import Gpus
from ongpu.facts.system import Processes
from ongpu.model import Evidence
from ongpu.sources.device_monitor import read

DMON = """# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     C     %     %     %     %   MHz   MHz
    0    26    65     -     6     0     0     0  4006  1404
    0     7    61     -   100    12     0     0   405   139
"""
PMON = (
    "# gpu        pid  type    sm   mem   enc   dec   command\n# Idx          #   C/G     %     %     %     %   name\n"
    "    0       4411     C    98    60     -     -   python\n"
)


def test_the_busy_row_counts() -> None:
    gpus = next(f for f in read(Evidence("pasted", DMON, "p")) if isinstance(f, Gpus))
    assert (gpus.gpus[0].clock_sm, gpus.gpus[0].clock_sm_max, gpus.gpus[0].temperature) == (139, 1404, 61)


def test_pmon_names_processes() -> None:
    found = next(f for f in read(Evidence("pasted", PMON, "p")) if isinstance(f, Processes))
    assert (found.processes[0].pid, found.processes[0].name) == (4411, "python")


@settings(max_examples=60, derandomize=True)
@given(st.text(max_size=300))
def test_no_text_crashes(text: str) -> None:
    list(read(Evidence("pasted", "# gpu sm pclk\n" + text, "p")))
