"""Directories that belong to no hour of the store, until a checkpoint's thread has removed them.

- An unlinked hour's directory is here from the unlink on. The next checkpoint removes it, when that checkpoint is
  durable and no pin holds the directory.
- A leftover is a directory that the checkpoint at the start does not name. It is here from the start on. Each
  checkpoint removes a piece of the leftovers.

A kill within a checkpoint of many hours makes leftovers of them all. To remove one takes about a millisecond, so no
start and no checkpoint waits for all of them. Where the disk is short of space, a checkpoint first removes more of
them. It writes the hours of the leftovers again, and would fill the disk, at each start anew. No checkpoint ever names
a leftover again, so it may be removed at any time. The next start finds leftovers that a kill left.

An unlinked hour may be begun again (a Realign has turned the wheel back). It keeps its number. Until the old directory
is removed it takes another generation, hence a directory of its own. A crash would bring the old directory back, so
not a byte of it may change. The new units get positions behind the old ones, which are never given again: the catalog
keeps where an unlinked hour ended. So all nodes give the same positions, whether or not they made a checkpoint in
between. The hour also takes another generation if a pin holds the old directory (pin.py). So does an hour that the
replay begins while its old directory is a leftover. The generation is the node's own matter, not replicated.

Invariant: no hour is begun in a directory that `_taken` names. Each directory to remove is named there until the
checkpoint that has removed it is over. So the thread that removes a directory never meets writes of the loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

Directory = tuple[int, int]
"""An hour's directory: number and generation."""

_PIECE: Final = 2048
"""Leftovers that one checkpoint removes, which takes its thread some seconds."""


@dataclass(slots=True)
class FrozenUnlinked:
    """A checkpoint's directories to remove.

    - `unlinked`: those of unlinked hours. This checkpoint does not name them any more, but the one before it may.
    - `leftovers`: the leftovers that this checkpoint removes in any case.
    - `rest`: all other leftovers, which this checkpoint removes only if the disk lacks space.
    - `removed`: the directories that the checkpoint's thread has removed, also those that a pin held until now.
    - `more`: how many of `rest` the thread has removed, counted from the first one.
    """

    unlinked: list[Directory]
    leftovers: list[Directory]
    rest: Sequence[Directory]
    removed: list[Directory] = field(default_factory=list)
    more: int = 0


class UnlinkedHours:
    """The directories to remove, and for each hour the generations that a new directory must not have. For the loop's
    thread."""

    def __init__(self, leftovers: Sequence[Directory]) -> None:
        """`leftovers` are the leftovers that were found when the store was opened."""
        self._taken: dict[int, tuple[int, ...]] = {}  # generations by hour, of directories that may exist
        self._leftovers = list(leftovers)  # a checkpoint under way reads it, so items go when that is over
        for number, generation in leftovers:
            self._take(number, generation)
        self._waiting: list[Directory] = []  # for the next checkpoint

    def add(self, number: int, generation: int) -> None:
        """Add an unlinked hour. The next checkpoint does not name its directory."""
        self._take(number, generation)
        self._waiting.append((number, generation))

    def _take(self, number: int, generation: int) -> None:
        self._taken[number] = (*self._taken.get(number, ()), generation)

    @property
    def leftovers(self) -> int:
        """The number of leftovers that no checkpoint has taken yet."""
        return len(self._leftovers)

    def generation(self, number: int) -> int:
        """The generation for the directory of an hour that is begun now. No other directory of this hour has it. It is
        0 if the hour has no other directory."""
        taken = self._taken.get(number)
        return max(taken) + 1 if taken else 0

    def freeze(self) -> FrozenUnlinked:
        """Take the directories that the next checkpoint removes. `thaw` must come before the next call."""
        unlinked, self._waiting = sorted(self._waiting), []
        piece, self._leftovers = self._leftovers[:_PIECE], self._leftovers[_PIECE:]
        return FrozenUnlinked(unlinked, piece, self._leftovers)

    def thaw(self, frozen: FrozenUnlinked) -> None:
        """Free the names of the directories that a finished checkpoint has removed. New directories may then have these
        names."""
        del self._leftovers[: frozen.more]
        for number, generation in frozen.removed:
            left = tuple(each for each in self._taken[number] if each != generation)
            if left:
                self._taken[number] = left
            else:
                del self._taken[number]
