"""A checksum over what an entry wrote, for the rolling hash: units, records, settles, catalog rows, unlinked hours.

Two nodes that applied the same entry and differ by one bit in what they wrote differ in this, and so in every rolling
hash from then on (replication/raft/state_hashes.py). Taken from the bytes on their way, before anything that depends on
when a node writes them out (chain, checksums, staging): the same on all nodes, and nothing is read back or copied.
CRC32C is enough against accidents and runs at memory speed; the rolling hash over it is a cryptographic one.
"""

import google_crc32c
import numpy as np
import numpy.typing as npt


class EntryChecksum:
    """What was written since it was last taken. On the loop's thread."""

    def __init__(self) -> None:
        self._crc = 0

    def rows(self, *columns: npt.NDArray[np.generic]) -> None:
        """Arrays, whatever their types, as the bytes they are."""
        for column in columns:
            self._crc = google_crc32c.extend(self._crc, np.ascontiguousarray(column))

    def row(self, *parts: bytes) -> None:
        """A few bytes."""
        self._crc = google_crc32c.extend(self._crc, b"\0".join(parts))

    def take(self) -> int:
        """The checksum, 32 bits, and begin anew."""
        crc, self._crc = self._crc, 0
        return crc
