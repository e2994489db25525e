"""The rolling hashes of the newest entries applied here, by index. Nodes compare them.

The hash after entry i covers every entry up to i, what each of them wrote and where each left the dispatch state
(apply/machine.py). Two nodes with the same hash at one index have applied the same entries with the same effect since
the cluster was founded. Two nodes that once differ do so at every later index. The hash is in the checkpoint, so a
restart does not forget a difference.
"""

from __future__ import annotations

HASH_BYTES = 16
FIRST_VERSION = 1


def told(rolling: bytes, version: int) -> bytes:
    """A hash in the form in which nodes send it to each other.

    A hash of the first version is bare, as the first builds send it. Before a hash of a later version stands its
    version.
    """
    return rolling if version == FIRST_VERSION else bytes([version]) + rolling


def comparable(one: bytes, other: bytes) -> bool:
    """True if both hashes, in the form of `told`, were made by the same version.

    If not, a difference says nothing. So an upgrade makes no node the odd one out.
    """
    return one[:-HASH_BYTES] == other[:-HASH_BYTES]


class StateHashes:
    """The hashes after the newest applied entries, in a ring buffer of 196 KB. To note one costs one slice assignment.
    `newest` is the index of the newest entry, 0 before the first.
    """

    SIZE = 8192
    """The number of entries that are remembered: several seconds of a busy cluster. Peers ask within one second."""

    def __init__(self) -> None:
        self.newest = 0
        self._index = [0] * self.SIZE
        self._versions = bytearray(self.SIZE)
        self._hashes = bytearray(self.SIZE * HASH_BYTES)

    def note(self, index: int, rolling: bytes, version: int = FIRST_VERSION) -> None:
        """Enter the hash after the entry at `index`, made by this version. The entry is newer than all entries
        before.
        """
        slot = index % self.SIZE
        self._index[slot] = self.newest = index
        self._versions[slot] = version
        self._hashes[slot * HASH_BYTES : (slot + 1) * HASH_BYTES] = rolling

    def at(self, index: int) -> bytes | None:
        """The hash after the entry at `index`, in the form of `told`.

        None if that entry is not applied here, is no command, or is too old to be remembered.
        """
        slot = index % self.SIZE
        if index <= 0 or self._index[slot] != index:
            return None
        return told(bytes(self._hashes[slot * HASH_BYTES : (slot + 1) * HASH_BYTES]), self._versions[slot])
