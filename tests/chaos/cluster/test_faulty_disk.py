"""The faulty disk: what its control file says happens to the process it is loaded into, at that moment and no other."""

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.cluster.faulty_disk import FaultyDisk

SCRIPT = """
import ctypes, os, sys, time
from node.runtime.boot import read_boot
from storage.file.disk import Disk
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
libc = ctypes.CDLL(None, use_errno=True)
def syncfs():
    if libc.syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), "syncfs")
def read_boot_id():
    return f" {read_boot(Disk(), None):x}"
calls = {
    "fdatasync": lambda: os.fdatasync(fd),
    "fsync": lambda: os.fsync(fd),
    "syncfs": syncfs,
    "pwrite": lambda: os.pwrite(fd, b"x", os.fstat(fd).st_size),
    "pwritev": lambda: os.pwritev(fd, [b"x"], os.fstat(fd).st_size),
    "size": lambda: os.fstat(fd).st_size,
    "boot": lambda: open("/proc/sys/kernel/random/boot_id").read().strip() + read_boot_id(),
    "free": lambda: os.statvfs(sys.argv[1]).f_bavail * os.statvfs(sys.argv[1]).f_frsize,
}
for line in sys.stdin:
    begin = time.monotonic()
    try:
        result = calls[line.strip()]()
    except OSError as error:
        result = -error.errno
    print(time.monotonic() - begin, result, flush=True)
"""
Call = Callable[[str], tuple[float, str]]


@contextlib.contextmanager
def process(disks: FaultyDisk, path: Path) -> Iterator[Call]:
    """A process with the library; what is given back makes one call in it: (seconds, result or minus the errno)."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path)],
        env=os.environ | disks.environment("n1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, said = process.stdin, process.stdout

    def call(name: str) -> tuple[float, str]:
        asked.write(f"{name}\n")
        asked.flush()
        took, _, result = said.readline().strip().partition(" ")
        return float(took), result

    with asked, said:
        yield call
    assert process.wait() == 0


@pytest.fixture
def disks(tmp_path: Path) -> FaultyDisk:
    """Built."""
    disks = FaultyDisk(tmp_path)
    disks.build()
    return disks


def test_delay_is_set_and_lifted_while_the_process_runs(disks: FaultyDisk, tmp_path: Path) -> None:
    """Nothing set: no delay; then 200 ms for every kind of sync; then none again. Another's disk changes nothing."""
    with process(disks, tmp_path / "file") as call:
        assert min(call("fdatasync")[0] for _ in range(3)) < 0.15
        disks.slow("n2", 500)
        disks.slow("n1", 200)
        assert [call(name)[0] >= 0.2 for name in ("fdatasync", "fsync", "syncfs")] == [True] * 3
        disks.slow("n1", 0)
        assert min(call("fdatasync")[0] for _ in range(3)) < 0.15


@pytest.mark.parametrize("name", ["pwrite", "pwritev"])
def test_one_write_fails_and_writes_nothing(disks: FaultyDisk, tmp_path: Path, name: str) -> None:
    """The next write says ENOSPC and leaves the file as it was, the one after it is done; syncs are not concerned."""
    with process(disks, tmp_path / "file") as call:
        assert call(name)[1] == "1"
        disks.fail("n1", "write", errno.ENOSPC)
        assert call("fdatasync")[1] == "None"
        assert call(name)[1] == str(-errno.ENOSPC)
        assert call("size")[1] == "1"
        assert call(name)[1] == "1"
    assert disks.failed_count("n1") == 1


@pytest.mark.parametrize("name", ["fdatasync", "fsync", "syncfs"])
def test_one_sync_fails(disks: FaultyDisk, tmp_path: Path, name: str) -> None:
    """The next sync says EIO, the one after it is done; one that was taken back before it came does not fail."""
    with process(disks, tmp_path / "file") as call:
        disks.fail("n1", "sync", errno.EIO)
        assert call("pwrite")[1] == "1"
        assert call(name)[1] == str(-errno.EIO)
        assert call(name)[1] == "None"
        disks.fail("n1", "sync", errno.EIO)
        disks.mend("n1")
        assert call(name)[1] == "None"
    assert disks.failed_count("n1") == 1


def test_no_room_is_said_and_taken_back(disks: FaultyDisk, tmp_path: Path) -> None:
    """What is reported as free is what was set, in whole blocks, until it is the truth again."""
    with process(disks, tmp_path / "file") as call:
        truth = int(call("free")[1])
        disks.full("n1", 8 << 20)
        assert int(call("free")[1]) == 8 << 20
        disks.full("n1", None)
        assert abs(int(call("free")[1]) - truth) < 4 << 30


def test_power_that_was_cut_starts_the_machine_anew(disks: FaultyDisk, tmp_path: Path) -> None:
    """`chaos run`, seed 2101: a power cut took 5 s of a leader's account, and its node, back in what it took for the
    same run of the kernel, told where its term ended. 11,729 messages that were received it called lost."""

    def told() -> list[str]:
        with process(disks, tmp_path / "file") as call:
            return call("boot")[1].split()

    true = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    first, again = told(), told()
    assert first == again
    disks.reboot("n2")
    assert told() == first
    disks.reboot("n1")
    anew = told()
    assert len({true, first[0], anew[0]}) == 3
    assert first[1] != anew[1]
