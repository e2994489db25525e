"""A checksum over the bytes that an entry wrote, for the rolling hash: units, records, settles, catalog rows, unlinked
hours.

If two nodes applied the same entry and differ by one bit in what they wrote, this checksum differs. So does every
rolling hash from then on (replication/raft/state_hashes.py). It is taken from the bytes on their way, before anything
that depends on when a node writes them out (chain, checksums, staging). So it is the same on all nodes, and nothing is
read back or copied. CRC32C is enough against accidents and runs at memory speed. The rolling hash over it is a
cryptographic one.
"""

import google_crc32c
import numpy as np
import numpy.typing as npt


class EntryChecksum:
    """The checksum of all bytes that were added since the last `take`. For the loop's thread."""

    def __init__(self) -> None:
        self._crc = 0

    def rows(self, *columns: npt.NDArray[np.generic]) -> None:
        """Add the bytes of these arrays, of any type, to the checksum."""
        for column in columns:
            self._crc = google_crc32c.extend(self._crc, np.ascontiguousarray(column))

    def row(self, *parts: bytes) -> None:
        """Add one row or change to the checksum. It is given as some byte strings."""
        self._crc = google_crc32c.extend(self._crc, b"\0".join(parts))

    def take(self) -> int:
        """Return the checksum, 32 bits, and begin a new one."""
        crc, self._crc = self._crc, 0
        return crc
