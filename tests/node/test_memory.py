"""Big blocks are used again instead of being mapped and cleared anew each time."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from node.memory import settle_memory
if {settled}:
    settle_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    bytearray(b"x" * (1 << 20))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*, settled: bool) -> int:
    """Page faults of 200 times 2 MiB, in a process of its own."""
    program = PROGRAM.format(settled=settled)
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return int(ran.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts faults as Linux does")
def test_blocks_of_a_megabyte_are_mapped_once() -> None:
    """Hardly a page fault after the first."""
    assert faults(settled=True) < faults(settled=False) / 5
