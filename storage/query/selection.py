"""The messages of an hour that a query selects: by topic, due time, state and tag. Counts and lists ask here.

A selection captures the hour's content at one moment, on the loop's thread, and is then read in another thread. It
fills none of the hour's caches, because a look at all hours must not drive out the states of hours in use. States in
memory are copied, a byte a unit. Others are made from the settle file, as far as it went at that moment. So later
changes do not show.

A message counts where it stands. Two units stand for no message: one at a home that was ever forwarded, and one at a
place that was left. A record is read only if its unit's mask may carry the wanted tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U32, Mask
from storage.format.predicate import ALL, Predicate
from storage.format.rows import Settles, Units
from storage.format.states import (
    COUNTED_AS,
    ENDED_STANDINGS,
    FORWARDED,
    LEASED,
    LEAVES,
    OPEN_STANDINGS,
    PENDING,
    READY,
)
from storage.hour.hour import Hour
from storage.query.lease_end import lease_ends_ms
from storage.record.record import Record
from storage.state.unit_states import States

_READ_ROWS: Final = 256
_READ_BYTES: Final = 4 << 20
"""Bytes of records read at a time for their tags."""

_LEASED_OR_WAITING: Final = frozenset((LEASED, PENDING, READY))


@dataclass(frozen=True, slots=True)
class Selection:
    """The wanted messages: those of `which` that are counted under one of `standings` (numbers of STANDINGS).

    A pending unit that is due counts as READY. A unit whose lease is over counts as pending. `term` is the term of the
    leader that asks, by whose clock leases end.
    """

    standings: frozenset[int]
    which: Predicate = ALL
    term: int = 0

    def all_open(self, hour: int) -> bool:
        """True if all open messages of the hour are wanted, and no others."""
        return self.which.takes_all and self.standings == OPEN_STANDINGS and self.which.covers(hour)


class Selected(NamedTuple):
    """Wanted units of a block: the row of each in the block, its due time, and its number of STANDINGS."""

    rows: npt.NDArray[np.intp]
    due_ms: I64
    standing: U8


class SelectedHour:
    """The units of one hour as they are when this is made, and which of them are wanted. Make it on the loop's thread,
    use it in any one thread, and close it."""

    def __init__(self, hour: Hour, selection: Selection, now_ms: int, *, tells_standing: bool = True) -> None:
        """`tells_standing` False: the caller does not ask which standing a unit has. Then leases that are over are
        looked for only where that decides if a unit is wanted. A look at a million leases takes long.
        """
        self.source = hour
        self.units = hour.units
        self.content = hour.snapshot()
        self.selection = selection
        self._now_ms = now_ms
        states = {PENDING if standing == READY else standing for standing in selection.standings}
        self._by_state = _table(states)[COUNTED_AS]
        self._by_standing = _table(selection.standings)
        held = hour.states_held if hour.states_held is not None and not hour.states_held.lacks_states else None
        # Only the settle file shows the homes that were forwarded before they ended.
        use = held is not None and not (held.forwards and selection.standings & ENDED_STANDINGS)
        splits = selection.standings & _LEASED_OR_WAITING not in (frozenset(), _LEASED_OR_WAITING)
        self._state = None
        if held is not None and use:
            self._state = held.copied(hour.units)
            if tells_standing or splits:
                _end_leases(self._state, held, hour.first, now_ms, selection.term)

    def close(self) -> None:
        """Close the descriptors of the captured hour."""
        self.content.close()

    def states(self) -> U8:
        """The state of each unit of the hour. Raises Corrupt or DiskFailed."""
        if self._state is None:
            self._state = self._read_states()
        return self._state

    def blocks(self) -> Iterator[Units]:
        """Yield all units in order. Staged ones are not linked yet. Raises Corrupt or DiskFailed."""
        for _, units in self.content.files.index.blocks(self.content.saved_units):
            yield units
        yield from self.content.staged.units.arrays

    def wanted(self, units: Units, state: U8) -> Selected:
        """Find the wanted units of a block, whose states are `state`. Units that only may have a wanted tag are among
        them."""
        keep = self._by_state[state] & self.selection.which.may_match(units["due_ms"], units["topic"], units["tags"])
        rows = np.flatnonzero(keep)
        due_ms = units["due_ms"][rows]
        standing = COUNTED_AS.take(state[rows])
        standing[(standing == PENDING) & (due_ms <= self._now_ms)] = READY
        keep = self._by_standing[standing]
        if keep.all():
            return Selected(rows, due_ms, standing)
        return Selected(rows[keep], due_ms[keep], standing[keep])

    def tagged(self, at: I64, size: U32) -> Mask:
        """Return a boolean array: False for each of these units (global indexes and sizes) whose record lacks the
        wanted tags. Raises Corrupt or DiskFailed."""
        tags = self.selection.which.tags
        if tags is None:
            return np.ones(len(at), np.bool_)
        return np.array([tags.matches(record.tags) for record in self.records(at, size)], np.bool_)

    def records(self, at: I64, size: U32) -> Iterator[Record]:
        """Yield the records of these units (global indexes and sizes). Reads a few MiB at a time. Raises Corrupt or
        DiskFailed."""
        edges = np.cumsum(size, dtype=np.int64)
        start = 0
        while start < len(at):
            before = int(edges[start - 1]) if start else 0
            most = int(np.searchsorted(edges, before + _READ_BYTES, side="right"))
            stop = max(start + 1, min(start + _READ_ROWS, most))
            yield from self.content.records(at[start:stop])
            start = stop

    def settle_blocks(self) -> Iterator[Settles]:
        """Yield all settle records in order. Raises Corrupt or DiskFailed."""
        for _, rows in self.content.files.settle.blocks(self.content.saved_settles):
            yield rows
        yield from self.content.staged_settles.arrays

    def _read_states(self) -> U8:
        """The state of each unit, from the settle records. A home that was ever forwarded counts as forwarded, even if
        its message has ended."""
        state = np.zeros(self.units, np.uint8)
        forwarded: list[I64] = []
        for rows in self.settle_blocks():
            self._absorb(state, rows, forwarded)
        for at in forwarded:
            state[at - self.content.first] = FORWARDED
        return state

    def _absorb(self, state: U8, rows: Settles, forwarded: list[I64]) -> None:
        at, what = rows["global_index"].astype(np.int64), rows["what"]
        gone = what == FORWARDED
        if gone.any():
            forwarded.append(at[gone])
        ends_ms = lease_ends_ms(rows["when"], rows["term"], self.selection.term)
        left = LEAVES[what]
        left[(what == LEASED) & (ends_ms <= self._now_ms)] = PENDING
        state[at - self.content.first] = left


def _table(values: Iterable[int]) -> Mask:
    table = np.zeros(256, np.bool_)
    table[list(values)] = True
    return table


def _end_leases(state: U8, states: States, first: int, now_ms: int, term: int) -> None:
    """Make units whose lease is over pending. `state` is a copy of the states in memory, a row for each unit."""
    leased = np.flatnonzero(state == LEASED)
    found = states.at(leased + first)
    ends_ms = lease_ends_ms(found.lease_end_ms, found.term, term)
    state[leased[ends_ms <= now_ms]] = PENDING
