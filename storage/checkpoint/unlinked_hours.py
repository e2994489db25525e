"""Directories that no hour of the store has any more, until a checkpoint's thread has removed them.

| what | since | removed |
|---|---|---|
| an unlinked hour's | the unlink | by the next checkpoint, when it is durable and no pin holds it |
| a leftover: the checkpoint that the store was opened with does not name it | the start | a piece in each checkpoint |

A kill within a checkpoint of many hours leaves them all as leftovers. To remove one takes about a millisecond, so
neither a start nor one checkpoint waits for all of them. Where the disk is short a checkpoint removes more of them
first: it writes their hours again, and would fill the disk, at each start anew. No checkpoint ever names a leftover
again, so it may go at any time; what a kill leaves of them the next start finds again.

An hour that was unlinked may be begun again (a Realign has turned the wheel back): under the same number and, until the
directory of the one before is gone, under another generation, which gives it a directory of its own. A crash would
bring the old one back, so not a byte of it may change; and a node that made its checkpoint in between and one that did
not give the new units the same positions: those behind the old ones', which no unit is ever given again (the catalog
keeps where an unlinked hour ended). So it is where a pin holds the old directory (pin.py), and where it is a
leftover, of which the replay begins the hour again. The generation is the node's own matter, no replicated content.

Invariant: no hour is begun in a directory that `_taken` names, and each directory that is to be removed is named there
until the checkpoint that has removed it is over. So the thread that removes one never meets what the loop writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

Directory = tuple[int, int]
"""An hour's directory: number and generation."""

_PIECE: Final = 2048
"""Leftovers that one checkpoint removes: some seconds of its thread."""


@dataclass(slots=True)
class FrozenUnlinked:
    """One checkpoint's part. `unlinked` are the directories that it does not name any more and the one before may,
    `leftovers` a piece of those that none names, `rest` the others of these. Its thread adds to `removed` what it has
    removed, with what a pin held until now, and counts in `more` those of `rest`, which it removes in order."""

    unlinked: list[Directory]
    leftovers: list[Directory]
    rest: Sequence[Directory]
    removed: list[Directory] = field(default_factory=list)
    more: int = 0


class UnlinkedHours:
    """On the loop's thread."""

    def __init__(self, leftovers: Sequence[Directory]) -> None:
        """`leftovers` are what the store was opened with."""
        self._taken: dict[int, tuple[int, ...]] = {}  # generations by hour, of directories that may be there
        self._leftovers = list(leftovers)  # a checkpoint under way reads it: what goes from it goes when that is over
        for number, generation in leftovers:
            self._take(number, generation)
        self._waiting: list[Directory] = []  # for the next checkpoint to begin

    def add(self, number: int, generation: int) -> None:
        """An hour was unlinked: the next checkpoint does not name its directory."""
        self._take(number, generation)
        self._waiting.append((number, generation))

    def _take(self, number: int, generation: int) -> None:
        self._taken[number] = (*self._taken.get(number, ()), generation)

    @property
    def leftovers(self) -> int:
        """How many wait for a checkpoint to begin."""
        return len(self._leftovers)

    def generation(self, number: int) -> int:
        """The one in which an hour may be begun that is not there."""
        taken = self._taken.get(number)
        return max(taken) + 1 if taken else 0

    def freeze(self) -> FrozenUnlinked:
        """For a checkpoint. One at a time."""
        unlinked, self._waiting = sorted(self._waiting), []
        piece, self._leftovers = self._leftovers[:_PIECE], self._leftovers[_PIECE:]
        return FrozenUnlinked(unlinked, piece, self._leftovers)

    def thaw(self, frozen: FrozenUnlinked) -> None:
        """The checkpoint is over: the names of what it has removed are free again."""
        del self._leftovers[: frozen.more]
        for number, generation in frozen.removed:
            left = tuple(each for each in self._taken[number] if each != generation)
            if left:
                self._taken[number] = left
            else:
                del self._taken[number]
