"""Heads of hours that are not near, kept in memory from one write of an hour to the next.

The head of a second names the last unit of its chain, to which the next unit is linked, and counts its units.

Heads are kept for hours whose index would take long to read again, up to a bound in bytes. Those of the hour written
longest ago are dropped first. Kept heads never change, and name the unit that they reach up to. So they are either
right or not used.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.array import U32
from storage.format.chain import Heads

KEPT_UNITS_MIN: Final = 256
"""The index of an hour with fewer units is read again: 16 KB, which costs less than to keep its heads."""

KEPT_BYTES_MAX: Final = 64 << 20
"""Memory for heads of far hours: ten bytes for each used second."""

KEPT_HOURS_MAX: Final = 8192
"""The most hours with kept heads: a year, less a month."""

_OVERHEAD: Final = 512


@dataclass(frozen=True, slots=True)
class UsedHeads:
    """The heads of the n seconds of an hour that have units, [n] each. They are the second, 1 + the global_index of its
    last unit (`after`), and the number of its units (`count`)."""

    next: int  # the global_index behind the last unit that they count
    seconds: npt.NDArray[np.uint16]
    after: U32
    count: U32

    @property
    def bytes(self) -> int:
        """Memory of these heads, in bytes."""
        return 10 * len(self.seconds) + _OVERHEAD


def used_heads(after: U32, count: U32, following: int) -> UsedHeads:
    """The heads of the seconds that have units, out of the heads of all 3,600. They cover the units below
    `following`."""
    used = np.flatnonzero(count)
    return UsedHeads(following, used.astype(np.uint16), after[used], count[used])


def all_heads(used: UsedHeads) -> Heads:
    """The heads of all 3,600 seconds, to which units can be linked, from those of the used seconds."""
    heads = Heads()
    heads.after[used.seconds], heads.count[used.seconds] = used.after, used.count
    return heads


class HeadsKept:
    """The kept UsedHeads, by hour. An hour's positions are never given twice, so hour and `next` name one state of its
    index.

    A checkpoint's thread works on a `fork`. It keeps there the heads of the hours that it writes, and asks the loop's
    object for all other hours. `join` adds the fork's heads to the loop's object, on the loop.
    """

    def __init__(self, base: "HeadsKept | None" = None) -> None:
        self._base = base
        self._kept: OrderedDict[int, UsedHeads] = OrderedDict()
        self.bytes = 0
        """Memory of the kept heads."""

    def __len__(self) -> int:
        return len(self._kept)

    def fork(self) -> "HeadsKept":
        """A fork for another thread, without heads of its own yet."""
        return HeadsKept(self)

    def join(self, fork: "HeadsKept") -> None:
        """Keep here the heads that a fork has kept since it was made."""
        for hour, heads in fork._kept.items():
            self.keep(hour, heads)

    def get(self, hour: int, following: int) -> UsedHeads | None:
        """The kept heads of an hour, if they cover exactly its units below `following`. Otherwise None."""
        found = self._kept.get(hour)
        if found is not None and found.next == following:
            return found
        return None if self._base is None else self._base.get(hour, following)

    def keep(self, hour: int, heads: UsedHeads) -> None:
        """Keep heads, in place of older ones of this hour. Past a bound, drop the heads that were kept longest ago."""
        self.drop(hour)
        self._kept[hour] = heads
        self.bytes += heads.bytes
        while self.bytes > KEPT_BYTES_MAX or len(self._kept) > KEPT_HOURS_MAX:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.bytes

    def drop(self, hour: int) -> None:
        """Drop the kept heads of an hour, if there are any."""
        old = self._kept.pop(hour, None)
        if old is not None:
            self.bytes -= old.bytes
