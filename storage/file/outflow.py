"""Written bytes flow to the device a little at a time: one sync of hundreds of MiB would fill the device's queue,
and every journal on it, this node's and others', would wait behind that for its own sync.

Nothing is durable by it: a sync follows, and finds little to do. Whoever lets bytes flow out waits for the device, so
this is for threads. A thread that works beside the loop has to share the interpreter with it, too: `pause`.
"""

from typing import Final

from storage.file.disk import Disk

UNDER_WAY_MAX: Final = 4 << 20
"""Bytes that are on their way to the device at a time: milliseconds of what an ordinary one writes."""

_FEW: Final = 128
"""Writes of less than this part of it are counted, not begun one by one: hours with a message each are little."""

LITTLE_MAX: Final = 2_048
"""After so many of these the file system is synced: each is a block, and a new file is an inode and a name, too."""


class Outflow:
    """Of one writer. Invariant: no more than UNDER_WAY_MAX of what it was told of, LITTLE_MAX little writes and one
    file's last bytes are under way, where the device takes them in the order in which they came. Blocks; raises
    DiskFailed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._under_way = 0
        self._little = 0

    def wrote(self, fd: int, offset: int, size: int) -> None:
        """These bytes of an open file were written just now: begin with them, and wait if many are under way."""
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
        """Let the loop have the interpreter; see Disk.pause. Called between pieces of a few milliseconds."""
        self._disk.pause()

    def drain(self, fd: int) -> None:
        """Whatever of this file was written by anybody, piece by piece."""
        for begin in range(0, self._disk.size(fd), UNDER_WAY_MAX):
            self._disk.write_out(fd, begin, UNDER_WAY_MAX)
