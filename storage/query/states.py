"""The states of units by position, over the hours that they are in."""

import numpy as np

from storage.checkpoint.hour_set import HourSet
from storage.format.array import U8, U64
from storage.format.batches import StateColumns
from storage.format.position import by_hour, hours_of, indexes_of
from storage.format.rows import UNKNOWN


def states(hours: HourSet, positions: U64) -> StateColumns:
    """See Store.states."""
    result = StateColumns.unknown(len(positions))
    indexes = indexes_of(positions)
    for number, rows in by_hour(hours_of(positions)):
        hour = hours.use(number)
        if hour is None:
            continue
        at = indexes[rows]
        found = hour.states().at(at)
        found.state[(at >= hour.next) | (at < hour.first)] = UNKNOWN
        result.state[rows] = found.state
        result.attempt[rows] = found.attempt
        result.term[rows] = found.term
        result.lease_end_ms[rows] = found.lease_end_ms
    return result


def state_only(hours: HourSet, positions: U64) -> U8:
    """See Store.state_only."""
    result = np.full(len(positions), UNKNOWN, np.uint8)
    indexes = indexes_of(positions)
    for number, rows in by_hour(hours_of(positions)):
        hour = hours.use(number)
        if hour is not None:
            at = indexes[rows]
            found = hour.states().state_at(at)
            found[(at >= hour.next) | (at < hour.first)] = UNKNOWN
            result[rows] = found
    return result


def are_known(hours: HourSet, positions: U64) -> bool:
    """See Store.are_known."""
    found = (hours.use(number) for number, _ in by_hour(hours_of(positions)))
    return all(hour is None or not hour.states().lacks_states for hour in found)
