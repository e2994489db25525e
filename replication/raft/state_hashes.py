"""The rolling hashes of the newest entries applied here, by index: what nodes compare.

The hash after entry i covers every entry up to i, what each of them wrote and where each left the dispatch state
(apply/machine.py), so two nodes that stand at the same hash at one index have applied the same with the same effect
ever since the cluster was founded, and two that once differ differ at every later index. It is in the checkpoint: a
restart does not forget a difference.
"""

from __future__ import annotations

HASH_BYTES = 16
FIRST_VERSION = 1


def told(rolling: bytes, version: int) -> bytes:
    """A hash as nodes tell it: the first version's is bare, as the first builds had it; of others the version stands
    before it."""
    return rolling if version == FIRST_VERSION else bytes([version]) + rolling


def comparable(one: bytes, other: bytes) -> bool:
    """Whether two hashes, as told, were made by the same version: else nothing follows from their difference, and a
    node is not condemned by an upgrade."""
    return one[:-HASH_BYTES] == other[:-HASH_BYTES]


class StateHashes:
    """A ring of the newest entries' hashes: 196 KB, and one slice assignment per entry. `newest` is the index of the
    last one, 0 before the first."""

    SIZE = 8192
    """Entries that are remembered: several seconds of a busy cluster; an index is asked for within one."""

    def __init__(self) -> None:
        self.newest = 0
        self._index = [0] * self.SIZE
        self._versions = bytearray(self.SIZE)
        self._hashes = bytearray(self.SIZE * HASH_BYTES)

    def note(self, index: int, rolling: bytes, version: int = FIRST_VERSION) -> None:
        """The hash after the entry at `index`, which is newer than all before, made by this version."""
        slot = index % self.SIZE
        self._index[slot] = self.newest = index
        self._versions[slot] = version
        self._hashes[slot * HASH_BYTES : (slot + 1) * HASH_BYTES] = rolling

    def at(self, index: int) -> bytes | None:
        """The hash after the entry at `index`, as it is told; None if that is not applied here, was no command, or is
        too long ago."""
        slot = index % self.SIZE
        if index <= 0 or self._index[slot] != index:
            return None
        return told(bytes(self._hashes[slot * HASH_BYTES : (slot + 1) * HASH_BYTES]), self._versions[slot])
