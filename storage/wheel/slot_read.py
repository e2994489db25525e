"""The pending units of an hour, in dispatch order. They fill the wheel and the ready windows.

A SlotRead reads one second. It captures the hour's content at one moment, on the loop's thread, and may then run in
another thread. A slot of a million units takes a quarter of a second, and heartbeats must not wait for that.

`hour_pending` reads a whole hour, in one pass over the index with the states beside it, and fills no cache. With a
limit the pass holds at most twice that many rows, so that a backlog of any size can be read in pieces.
"""

import numpy as np
import numpy.typing as npt

from storage.format.chain import seconds_of, walk
from storage.format.position import INDEX_BITS
from storage.format.rows import UNIT, Units, join_rows, take_rows
from storage.hour.hour import Hour, linked_units
from storage.wheel.slot import DueUnits


class SlotRead:
    """Reads the pending units of one second. Make it on the loop's thread, and call `run` once, in any thread.

    It reads rows that were in the index or staged when it was made, over descriptors of its own. It may or may not show
    state changes made after that moment. So the caller looks at the states of the units again before a hand-over.
    """

    def __init__(self, hour: Hour, second: int) -> None:
        self._number = hour.number
        self._second = second
        self._files = hour.files.again()
        self._states = hour.states().seen()
        self._near = hour.near
        self._first = hour.first
        if hour.near:
            self._last, self._count = hour.heads().second(second)
        else:
            self._saved_units, self._staged = hour.saved_units, hour.staged

    def quick(self, rows: int) -> bool:
        """True if `run` reads at most `rows` rows of the index."""
        return self._near and self._count <= rows

    def run(self) -> DueUnits:
        """Return the units in order of (due_ms, local_index). Raises Corrupt or DiskFailed; another try does not
        help."""
        try:
            units = self._walk() if self._near else self._scan()
            keep = self._states.pending(units["global_index"].astype(np.int64))
        finally:
            self._files.close()
            self._states.close()
        return _ordered(_columns(self._number, units, keep))

    def _walk(self) -> Units:
        index = self._files.index
        return walk(self._second, self._last, self._count, index, least=self._first)

    def _scan(self) -> Units:
        blocks = linked_units(self._files, self._saved_units, self._staged)
        mine = (take_rows(rows, np.flatnonzero(seconds_of(rows["due_ms"]) == self._second)) for rows in blocks)
        return join_rows(list(mine), UNIT)


def hour_pending(hour: Hour, before_ms: int | None, topic: int | None, limit: int | None) -> DueUnits:
    """The pending units of an hour, in order of (due_ms, local_index), that are due before `before_ms` and of `topic`.

    Of these it returns the first `limit`. A parameter that is None does not restrict.
    """
    assert limit is None or limit > 0, f"limit {limit}"
    states = hour.states().seen()
    held: list[DueUnits] = []
    count = 0
    for units in hour.all_units():
        keep = states.pending(units["global_index"].astype(np.int64))
        if before_ms is not None:
            keep &= units["due_ms"] < before_ms
        if topic is not None:
            keep &= units["topic"] == topic
        rows = _columns(hour.number, units, keep)
        held.append(rows)
        count += len(rows)
        if limit is not None and count >= 2 * limit:
            first = _ordered(DueUnits.joined(held)).select(slice(limit))
            held, count = [first], limit
            # a unit due at the same millisecond but read later comes after all of these
            before_ms = int(first.due_ms[-1])
    states.close()
    return _ordered(DueUnits.joined(held)).select(slice(limit))


def _columns(number: int, units: Units, keep: npt.NDArray[np.bool_]) -> DueUnits:
    """The columns of the units where `keep` is True. They are copies, so that the memory of the block that was read can
    be freed."""
    rows = slice(None) if bool(keep.all()) else np.flatnonzero(keep)
    return DueUnits(
        units["due_ms"][rows].copy(),
        units["global_index"][rows] | np.uint64(number << INDEX_BITS),
        units["topic"][rows].copy(),
        units["tags"][rows].copy(),
        units["priority"][rows].copy(),
    )


def _ordered(rows: DueUnits) -> DueUnits:
    """Sort units by due_ms. Units with equal due_ms are in order of arrival already, which is the order of local_index
    within their second."""
    if len(rows) < 2 or bool((rows.due_ms[1:] >= rows.due_ms[:-1]).all()):
        return rows
    return rows.select(np.argsort(rows.due_ms, kind="stable"))
