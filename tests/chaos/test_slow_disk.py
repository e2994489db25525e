"""The slow disk: delays fdatasync of the process it is loaded into, by what its control file says at that moment."""

import os
import subprocess
import sys
from pathlib import Path

from chaos.slow_disk import SlowDisk

SCRIPT = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for line in sys.stdin:
    begin = time.monotonic()
    os.fdatasync(fd)
    print(time.monotonic() - begin, flush=True)
"""


def test_delay_is_set_and_lifted_while_the_process_runs(tmp_path: Path) -> None:
    """No control file: no delay; then 200 ms; then none again. Another node's file changes nothing."""
    slow_disk = SlowDisk(tmp_path)
    slow_disk.build()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "file")],
        env=os.environ | slow_disk.environment("n1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def sync_s() -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    with process.stdin, process.stdout:
        before_s = min(sync_s() for _ in range(3))
        slow_disk.set("n2", 500)
        slow_disk.set("n1", 200)
        slow_s = sync_s()
        slow_disk.set("n1", 0)
        after_s = min(sync_s() for _ in range(3))
    assert process.wait() == 0
    assert before_s < 0.15
    assert after_s < 0.15
    assert slow_s >= 0.2
