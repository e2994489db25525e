"""A disk that counts what is read of it."""

from storage.file.disk import Disk


class ReadingDisk(Disk):
    """How many reads, and how many bytes."""

    def __init__(self) -> None:
        self.reads = 0
        self.read_bytes = 0

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read, and count it."""
        self.reads += 1
        self.read_bytes += size
        return super().read(fd, size, offset)
