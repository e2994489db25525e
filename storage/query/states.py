"""The states of units by position, over all their hours."""

import numpy as np
import numpy.typing as npt

from storage.checkpoint.hour_set import HourSet
from storage.format.array import I64, U8, U64
from storage.format.batches import StateColumns
from storage.format.position import in_hours
from storage.format.states import UNKNOWN
from storage.hour.hour import Hour


def states(hours: HourSet, positions: U64) -> StateColumns:
    """The state of each unit with its attempt, term and end of the lease, in order. UNKNOWN for a missing unit."""
    parts: list[tuple[npt.NDArray[np.intp] | slice, StateColumns]] = []
    for number, rows, at in in_hours(positions):
        hour = hours.use(number)
        if hour is not None:
            found = hour.states().at(at)
            _tell_unknown(hour, at, found.state)
            parts.append((rows, found))
    if len(parts) == 1 and len(parts[0][1]) == len(positions):
        return parts[0][1]
    result = StateColumns.unknown(len(positions))
    for rows, found in parts:
        result.state[rows] = found.state
        result.attempt[rows] = found.attempt
        result.term[rows] = found.term
        result.lease_end_ms[rows] = found.lease_end_ms
    return result


def state_only(hours: HourSet, positions: U64) -> U8:
    """The state alone of each unit, in order. For units that ended long ago no file is read."""
    result = np.full(len(positions), UNKNOWN, np.uint8)
    for number, rows, at in in_hours(positions):
        hour = hours.use(number)
        if hour is not None:
            found = hour.states().state_at(at)
            _tell_unknown(hour, at, found)
            result[rows] = found
    return result


def _tell_unknown(hour: Hour, at: I64, state: U8) -> None:
    """Set `state` to UNKNOWN for the units with the global indexes `at` that the hour does not have."""
    if int(at[at.argmax()]) >= hour.next or int(at[at.argmin()]) < hour.first:
        state[(at >= hour.next) | (at < hour.first)] = UNKNOWN


def are_known(hours: HourSet, positions: U64) -> bool:
    """True if `state_only` reads no file for these positions, because the states of their whole hours are in memory."""
    found = (hours.use(number) for number, _, _ in in_hours(positions))
    return all(hour is None or not hour.states().lacks_states for hour in found)
