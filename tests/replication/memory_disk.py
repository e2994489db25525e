"""A disk in memory that forgets what a real one may forget: for crash tests of the journal, thousands of them a second.

It keeps two images of every file and directory: what a process sees, and what is certainly on the platter. A kill keeps
the first; a power cut keeps the second plus any part of what was not synced, sector by sector, as a kernel writes back
in no order.
"""

from pathlib import Path
from random import Random

from typing_extensions import Buffer

from storage.file.disk import Disk

SECTOR = 64
"""Bytes that reach the platter together. Far below a real sector, so that small tests see many patterns."""


class Stopped(BaseException):
    """The process ended here. No Exception: nothing may catch it and go on."""


class Inode:
    """One file: what is read back now, what is on the platter, which ranges a sync would have to carry there."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.kept = b""
        self.dirty: list[tuple[int, int]] = []

    def power_cut(self, random: Random) -> None:
        """What was not synced survives sector by sector, or does not; so does the length."""
        seen, kept = bytes(self.seen), self.kept
        if seen == kept:
            return
        length = random.choice((len(kept), len(seen), random.randint(min(len(kept), len(seen)), max(len(seen), 1))))
        result = bytearray(length)
        chance = random.random()
        for start in range(0, length, SECTOR):
            source = seen if random.random() < chance else kept
            part = source[start : min(start + SECTOR, length)]
            result[start : start + len(part)] = part
        self.seen, self.kept, self.dirty = result, bytes(result), []

    def sync(self) -> None:
        """What was written since the last sync reaches the platter; pages held to be clean do not."""
        kept = bytearray(self.kept[: len(self.seen)].ljust(len(self.seen), b"\0"))
        for start, end in self.dirty:
            kept[start:end] = self.seen[start:end]
        self.kept, self.dirty = bytes(kept), []


class MemoryDisk(Disk):
    """`stop_at`: the number of the changing call (from 1) that does not return; a write may leave a torn beginning."""

    def __init__(self) -> None:
        self.names: dict[Path, Inode] = {}
        self.kept_names: dict[Path, Inode] = {}
        self.changes: list[dict[Path, Inode]] = []
        self.open: dict[int, Inode] = {}
        self.calls: list[str] = []
        self.stop_at = 0
        self.torn = 0
        self.written: list[Buffer] = []
        self._next_fd = 1000

    def kill(self) -> None:
        """The process is gone, the operating system is not."""
        self.open.clear()
        self.stop_at = 0
        self.calls.clear()

    def power_cut(self, random: Random) -> None:
        """The machine is gone. Names survive up to some point after the last directory sync, in their order."""
        self.kill()
        states = [self.kept_names, *self.changes]
        self.names = dict(states[random.randrange(len(states))])
        self.kept_names, self.changes = dict(self.names), []
        for inode in set(self.names.values()):
            inode.power_cut(random)

    def copy(self) -> "MemoryDisk":
        """The same files, nothing open, all of it on the platter."""
        other = MemoryDisk()
        for path, inode in self.names.items():
            twin = other.names[path] = Inode()
            twin.seen, twin.kept = bytearray(inode.seen), bytes(inode.seen)
        other.kept_names = dict(other.names)
        return other

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.stop_at:
            raise Stopped(name)

    def _change_names(self, names: dict[Path, Inode]) -> None:
        self.names = names
        self.changes.append(dict(names))

    def open_write(self, path: Path) -> int:
        if path not in self.names:
            self._call("create")
            self._change_names({**self.names, path: Inode()})
        self._next_fd += 1
        self.open[self._next_fd] = self.names[path]
        return self._next_fd

    def close(self, fd: int) -> None:
        del self.open[fd]

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self.open[fd].seen[offset : offset + size])

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        content = bytes(data)
        if len(self.calls) + 1 == self.stop_at:
            content = content[: self.torn]
        seen = self.open[fd].seen
        if len(seen) < offset:
            seen.extend(bytes(offset - len(seen)))
        seen[offset : offset + len(content)] = content
        self.open[fd].dirty.append((offset, offset + len(content)))
        self._call("write")
        self.written.append(data)

    def fdatasync(self, fd: int) -> None:
        self._call("fdatasync")
        self.open[fd].sync()

    def fsync_directory(self, path: Path) -> None:
        self._call("fsync directory")
        self.kept_names, self.changes = dict(self.names), []

    def truncate(self, fd: int, length: int) -> None:
        self._call("truncate")
        del self.open[fd].seen[length:]

    def size(self, fd: int) -> int:
        return len(self.open[fd].seen)

    def rename(self, old: Path, new: Path) -> None:
        self._call("rename")
        names = dict(self.names)
        names[new] = names.pop(old)
        self._change_names(names)

    def unlink(self, path: Path) -> None:
        self._call("unlink")
        self._change_names({name: inode for name, inode in self.names.items() if name != path})

    def list_directory(self, path: Path) -> list[str]:
        return sorted(name.name for name in self.names)
