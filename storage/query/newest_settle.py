"""The newest settle record of each of some units, and the one before it."""

import numpy as np

from storage.checkpoint.hour_set import HourSet
from storage.format.array import U64
from storage.format.rows import SETTLE, Settles, put_rows


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
    result = np.zeros(len(positions), SETTLE)
    previous = newest(hours, positions)["previous"].astype(np.int64)
    for hour, rows, at in hours.existing(positions):
        some = previous[rows] > 0
        found = np.zeros(len(at), SETTLE)
        put_rows(found, some, hour.settle_rows(previous[rows][some] - 1))
        put_rows(result, rows, found)
    return result
