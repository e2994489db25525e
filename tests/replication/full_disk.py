"""A child process on a file system of 256 KiB, seen by nobody else: what a journal does when the disk is full.

`python -m tests.replication.full_disk stock|ours DIRECTORY` mounts a tmpfs on DIRECTORY in a user and mount namespace
of its own, which goes with the process, and adds entries until something happens. Ends with 77 where that is forbidden.
The process may have one thread only, so OPENBLAS_NUM_THREADS=1.
"""

import ctypes
import os
import sys
from pathlib import Path

import pysyncobj.journal

from replication.journal.journal import Journal
from storage.file.disk import Disk, DiskFailed

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
FORBIDDEN = 77


def mount(directory: Path) -> bool:
    """A small tmpfs on `directory`, for this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)
    return bool(libc.mount(b"tmpfs", bytes(directory), b"tmpfs", 0, b"size=256k") == 0)


def main(which: str, directory: Path) -> int:
    """Fill the disk through one of the journals; what was durable then is printed and must open again."""
    if not mount(directory):
        return FORBIDDEN
    if which == "stock":
        journal = pysyncobj.journal.FileJournal(str(directory / "j"))
        for index in range(1, 1000):
            journal.add(bytes(1000), index, 1)
        return 0
    ours = Journal.open(directory, disk=Disk(), segment_bytes=50_000)
    try:
        for index in range(1, 1000):
            ours.add(bytes(1000), index, 1)
            ours.sync_now()
    except DiskFailed as failed:
        durable = ours.durable_index
        ours.close()
        (directory / f"{1:020d}.seg").unlink()  # space is back
        again = Journal.open(directory, disk=Disk())
        print(failed.errno, durable, again.last_index)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
