"""The chain of a second: units linked backwards, newest first. So an insert is O(1) and sorts nothing.

```
heads[s] = {last_global_index 812, count 3}        index:  ... 17 ....... 350 ......... 812 ...
                                                    pre:      -1 <------- 17 <-------- 350
                                                    local:     0           1            2
```
A whole batch is linked at once. A stable sort by second ranks its rows, unless the seconds rise already. The first row
of each second is linked to the unit that the second's head names, each other row to the row before it.

A walk back reads in blocks where the chain is dense, and unit by unit where it is thin. Every unit of the second is a
link of the chain. So one comparison over a block finds all of its links.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U32
from storage.format.rows import UNIT, Corrupt, Units, join_rows

SECONDS: Final = 3600
HEADS_BYTES: Final = 8 * SECONDS
"""Memory of the heads of a near hour."""
_SECOND_MS: Final = np.array(1000, np.int64)
_SECONDS: Final = np.array(SECONDS, np.int64)

_ONE: Final = np.uint64(1)

NOT_LINKED: Final = -2
"""pre_global_index of a staged unit. Its chain is linked when it is written."""

_BLOCK_UNITS_MAX: Final = 65_536
_BLOCK_UNITS_MIN: Final = 64
_SPARSE: Final = 64
"""If fewer than every 64th unit of a block is a link, links are cheaper to read alone."""

_LINK: Final = struct.Struct("<q")
_LINK_AT: Final = int(cast(Mapping[str, Any], UNIT.fields)["pre_global_index"][1])


class ChainIndex(Protocol):
    """An index file, as a walk reads it."""

    @property
    def name(self) -> str:
        """The file's name, for errors."""

    def read_rows(self, first: int, count: int) -> Units:
        """Read units from ordinal `first` on. Raises Corrupt for a wrong checksum or ordinal."""

    def row_bytes(self, row: int) -> bytes:
        """Read one unit without any check."""

    def checked(self, data: bytes, at: I64) -> Units:
        """Return these bytes as the units with the ordinals `at`. Raises Corrupt for a wrong checksum or ordinal."""


def seconds_of(due_ms: I64) -> npt.NDArray[np.uint16]:
    """The slot in its hour, 0 to 3599, of each due time. The result is 16 bits wide, which numpy sorts by radix."""
    return (due_ms // _SECOND_MS % _SECONDS).astype(np.uint16)


def run_edges(values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """The start of each run of equal neighbours, then the end of the last: r + 1 numbers for r runs of n >= 1
    values."""
    edge = np.empty(len(values) + 1, bool)
    edge[0] = edge[-1] = True
    edge[1:-1] = values[1:] != values[:-1]
    return edge.nonzero()[0]


def falls(values: npt.NDArray[Any]) -> bool:
    """True if some value is smaller than the value before it."""
    return len(values) > 1 and len((values[1:] < values[:-1]).nonzero()[0]) > 0


class Heads:
    """For each second of an hour: 1 + the global_index of its last unit (0: none), and the number of its units. 8 bytes
    each.

    An hour has fewer than 2^32 units, for its index would have 256 GiB.
    """

    __slots__ = ("after", "count")

    def __init__(self, after: U32 | None = None, count: U32 | None = None) -> None:
        self.after: U32 = np.zeros(SECONDS, np.uint32) if after is None else after
        self.count: U32 = np.zeros(SECONDS, np.uint32) if count is None else count

    def absorb(self, units: Units) -> None:
        """Add units, read in order from the index file, to these heads. The units have their chain already."""
        absorb(units, self.after, self.count)

    def link(self, units: Units) -> None:
        """Give units, in order of global_index, their local_index and pre_global_index, and add them to the heads."""
        link_slots(units, seconds_of(units["due_ms"]), self.after, self.count)

    def second(self, second: int) -> tuple[int, int]:
        """(global_index of the last unit or -1, number of units) of one second."""
        return int(self.after[second]) - 1, int(self.count[second])


def absorb(units: Units, after: U32, count: U32) -> None:
    """Add units, read in order from the index file, to the heads of an hour's 3,600 seconds. `after` and `count` are as
    in Heads, and are updated. The units have their chain already."""
    seconds = seconds_of(units["due_ms"])
    count += np.bincount(seconds, minlength=SECONDS).astype(np.uint32)
    after[seconds] = units["global_index"] + _ONE  # the last of equal seconds wins


def link_slots(units: Units, slots: npt.NDArray[np.uint16], after: U32, count: U32) -> None:
    """Link units to the chains of their slots, within each slot in order of global_index.

    `after` and `count` are as in Heads, by slot, and are updated for the new units. A slot is a second of an hour. With
    16 bits a slot, one call may link the units of several hours, whose slots are counted on from hour to hour.
    """
    ranked, indexes = slots, units["global_index"].astype(np.int64)
    order: npt.NDArray[np.intp] | slice = slice(None)
    if falls(ranked):
        order = ranked.argsort(kind="stable")
        ranked, indexes = ranked[order], indexes[order]
    edges = run_edges(ranked)
    starts, ends = edges[:-1], edges[1:]
    used, lengths = ranked[starts].astype(np.intp), ends - starts
    pre = np.empty(len(ranked), np.int64)
    pre[1:] = indexes[:-1]
    pre[starts] = after[used].astype(np.int64) - 1
    units["pre_global_index"][order] = pre
    units["local_index"][order] = np.arange(len(ranked)) + (count[used].astype(np.int64) - starts).repeat(lengths)
    after[used] = indexes[ends - 1] + 1
    count[used] += lengths.astype(np.uint32)


def walk(second: int, last: int, count: int, index: ChainIndex, *, least: int = 0) -> Units:
    """The units of one second, in order of local_index. Walks the chain back from `last`, its newest of `count` units.

    The index begins with unit `least`. Raises Corrupt if the chain does not hold together.
    """
    missing, at = count, last
    found: list[Units] = []
    size = 1
    while missing:
        if size == 1:
            links, gap = _thin(second, at, missing, index, least)
        else:
            first = max(least, at + 1 - size)
            block = index.read_rows(first, at + 1 - first)
            links = block[seconds_of(block["due_ms"]) == second][-missing:]
            if not len(links):
                raise _broken(index, second, f"unit {at} of another second", "one of its own")
            gap = at - int(links["pre_global_index"][0])
        found.append(links)
        missing -= len(links)
        at -= gap
        if (at < least) != (missing == 0):
            raise _broken(index, second, f"{missing} units short", "none")
        if size == 1 or len(links) * _SPARSE >= size:
            size = min(max(size * 4, _BLOCK_UNITS_MIN), _BLOCK_UNITS_MAX)
        else:
            size = 1
    units = join_rows(found[::-1], UNIT)
    _check(units, second, index)
    return units


def _thin(second: int, last: int, missing: int, index: ChainIndex, least: int) -> tuple[Units, int]:
    """Read links alone, from `last` back, as long as they are far apart, `missing` at most. Return them in order, and
    how far the next one is from the first of them. They are checked when all are read."""
    links: list[bytes] = []
    places: list[int] = []
    at = last
    while True:
        link = index.row_bytes(at)
        links.append(link)
        places.append(at)
        before = _LINK.unpack_from(link, _LINK_AT)[0]
        if at - before <= _SPARSE or before < least or len(links) == missing:
            break
        at = before
    return index.checked(b"".join(links[::-1]), np.array(places[::-1], np.int64)), last - before


def _broken(index: ChainIndex, second: int, found: str, expected: str) -> Corrupt:
    return Corrupt(index.name, 0, f"chain of second {second}", found, expected)


def _check(units: Units, second: int, index: ChainIndex) -> None:
    """Raise Corrupt if the units are not one chain, although their checksums are right.

    A chain counts its units from 0, each names the one before, and all are of its second.
    """
    if not np.array_equal(units["local_index"], np.arange(len(units))):
        raise _broken(index, second, "out of count", f"0 to {len(units) - 1}")
    if (units["pre_global_index"][1:] != units["global_index"][:-1].astype(np.int64)).any():
        raise _broken(index, second, "a link past its unit", "the one before")
    if (seconds_of(units["due_ms"]) != second).any():
        raise _broken(index, second, "a unit of another second", "units of its own")
