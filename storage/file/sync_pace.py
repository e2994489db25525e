"""Lets written bytes flow to the device a little at a time.

One sync of hundreds of MiB would fill the device's queue. Every journal on the device, this node's and others', would
wait behind it for its own sync.

The pace makes nothing durable. A sync follows, and finds little to do. The caller waits for the device, so this is
for threads. A thread beside the loop must also share the interpreter with it: `pause`.
"""

from typing import Final

from storage.file.disk import Disk

UNDER_WAY_MAX: Final = 4 << 20
"""Bytes on their way to the device at a time. An ordinary device writes them in milliseconds."""

_FEW: Final = 128
"""Writes smaller than UNDER_WAY_MAX / _FEW are only counted, not sent to the device one by one. Hours with one message
each make such little writes."""

LITTLE_MAX: Final = 2_048
"""After so many little writes the file system is synced. Each writes a block. One to a new file also writes an inode
and a name."""


class SyncPace:
    """Sends the bytes of one writer to the device a little at a time. It blocks, so it is for a thread. Raises
    DiskFailed.

    Invariant, if the device takes bytes in order: of the written bytes, the device still has to take three things at
    most. These are UNDER_WAY_MAX bytes, LITTLE_MAX little writes, and the last bytes of one file.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._under_way = 0
        self._little = 0

    def wrote(self, fd: int, offset: int, size: int) -> None:
        """Begin to write out to the device bytes that were just written to an open file. Wait if too many are under
        way."""
        if size < UNDER_WAY_MAX // _FEW:
            self._little += 1
            if self._little == LITTLE_MAX:
                self._disk.syncfs(fd)
                self._little = 0
            return
        for begin in range(offset, offset + size, UNDER_WAY_MAX):
            part = min(UNDER_WAY_MAX, offset + size - begin)
            self._disk.start_writing(fd, begin, part)
            self._under_way += part
            if self._under_way >= UNDER_WAY_MAX:
                self._disk.write_out(fd, begin, part)
                self._under_way = 0

    def pause(self) -> None:
        """Let the loop have the interpreter, see Disk.pause. Called between pieces of a few milliseconds."""
        self._disk.pause()

    def drain(self, fd: int) -> None:
        """Write all written bytes of this file out to the device piece by piece, also those of other writers."""
        for begin in range(0, self._disk.size(fd), UNDER_WAY_MAX):
            self._disk.write_out(fd, begin, UNDER_WAY_MAX)
