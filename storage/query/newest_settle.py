"""The newest settle record of each of some units, the one before it, and the ack among all before it."""

from typing import Final

import numpy as np

from storage.checkpoint.hour_set import HourSet
from storage.format.array import U16, U32, U64, Mask
from storage.format.rows import SETTLE, Settles, put_rows
from storage.format.states import DELIVERED

CHAIN_MAX: Final = 64
"""So many records of a unit are searched for an ack."""


def newest(hours: HourSet, positions: U64) -> Settles:
    """The newest settle record of each unit, in order, dtype SETTLE. `what` is 0 if there is none."""
    result = np.zeros(len(positions), SETTLE)
    for hour, rows, at in hours.existing(positions):
        ordinals = hour.states().newest_at(at).astype(np.int64)
        some = ordinals > 0
        found = np.zeros(len(at), SETTLE)
        put_rows(found, some, hour.settle_rows(ordinals[some] - 1))
        put_rows(result, rows, found)
    return result


def before_newest(hours: HourSet, positions: U64) -> Settles:
    """The settle record before the newest one of each unit, in order, dtype SETTLE. `what` is 0 if there is none."""
    return _before(hours, positions, newest(hours, positions))


def acked_before(hours: HourSet, positions: U64, term: U32, attempt: U16) -> Mask:
    """True, shape [n], for units with a record which says that an ack of this hand-over ended them, newest or not."""
    found = np.zeros(len(positions), np.bool_)
    rows, record = np.arange(len(positions)), newest(hours, positions)
    for _ in range(CHAIN_MAX):
        same = (record["term"] == term[rows]) & (record["attempt"] == attempt[rows])
        same &= record["what"] == DELIVERED
        found[rows[same]] = True
        more = ~same & (record["previous"] > 0)
        if not more.any():
            break
        rows, record = rows[more], _before(hours, positions[rows[more]], record[more])
    return found


def _before(hours: HourSet, positions: U64, records: Settles) -> Settles:
    """The settle record of each unit before this one of it."""
    result = np.zeros(len(positions), SETTLE)
    previous = records["previous"].astype(np.int64)
    for hour, rows, at in hours.existing(positions):
        some = previous[rows] > 0
        found = np.zeros(len(at), SETTLE)
        put_rows(found, some, hour.settle_rows(previous[rows][some] - 1))
        put_rows(result, rows, found)
    return result
