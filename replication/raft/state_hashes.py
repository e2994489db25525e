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
    """A hash as nodes tell it.

    A hash of the first version is bare, as the first builds had it. Of others the version stands before it.
    """
    return rolling if version == FIRST_VERSION else bytes([version]) + rolling


def comparable(one: bytes, other: bytes) -> bool:
    """True if two hashes, as told, were made by the same version.

    Else a difference says nothing, so an upgrade condemns no node.
    """
    return one[:-HASH_BYTES] == other[:-HASH_BYTES]


class StateHashes:
    """A ring of the newest entries' hashes: 196 KB, and one slice assignment per entry.

    `newest` is the index of the last one, 0 before the first.
    """

    SIZE = 8192
    """Entries that are remembered: several seconds of a busy cluster. An index is asked for within one."""

    def __init__(self) -> None:
        self.newest = 0
        self._index = [0] * self.SIZE
        self._versions = bytearray(self.SIZE)
        self._hashes = bytearray(self.SIZE * HASH_BYTES)

    def note(self, index: int, rolling: bytes, version: int = FIRST_VERSION) -> None:
        """Enter the hash after the entry at `index`, which is newer than all before, made by this version."""
        slot = index % self.SIZE
        self._index[slot] = self.newest = index
        self._versions[slot] = version
        self._hashes[slot * HASH_BYTES : (slot + 1) * HASH_BYTES] = rolling

    def at(self, index: int) -> bytes | None:
        """The hash after the entry at `index`, as nodes tell it.

        None if that entry is not applied here, was no command, or is too long ago.
        """
        slot = index % self.SIZE
        if index <= 0 or self._index[slot] != index:
            return None
        return told(bytes(self._hashes[slot * HASH_BYTES : (slot + 1) * HASH_BYTES]), self._versions[slot])
