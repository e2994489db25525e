"""Finds the place of a moved message from its home, the home from a place, and the message's history.

The home names the newest place, each place names the home, and no other link is followed. So a message is always one
hop away. A place may be unlinked before the home is, and a new hour may take its number. So if a message has ended, the
link from its home counts only if the unit at the place names the same home.

Some changes of a moved message stand only at its newest place: revision, due time, doubt. That place's hour is unlinked
only when the message has ended there, and its retention is over. So these changes are lost with the hour, though the
home may stay for other messages.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from storage.checkpoint.hour_set import HourSet
from storage.format.array import I64, U64
from storage.format.pieces import Pieces
from storage.format.position import GONE, INDEX_BITS, INDEX_MAX, by_hour, hours_of, indexes_of
from storage.format.rows import SETTLE, Corrupt, Settles, join_rows
from storage.format.states import FORWARDED, LIVES_HERE
from storage.hour.hour import Hour

PIECE_RECORDS: Final = 32
HISTORY_MAX: Final = 500
"""The most events of a message that are shown. Each costs a read, and a lease may be extended every second for days."""


def locate(hours: HourSet, homes: U64) -> U64:
    """The positions where the messages born at `homes` live. A message that is unknown, or was never moved, gives its
    home."""
    if not hours.moved:
        return homes
    result = homes.copy()
    indexes = indexes_of(homes)
    for number, rows in by_hour(hours_of(homes)):
        hour = hours.use(number)
        if hour is not None:
            result[rows] = hour.states().places(indexes[rows], homes[rows])
    return result


def homes(hours: HourSet, places: U64) -> U64:
    """The homes of the messages that stand at these positions, in order. A unit that does not exist gives its
    position."""
    if not hours.moved:
        return places
    result = places.copy()
    indexes = indexes_of(places)
    for number, rows in by_hour(hours_of(places)):
        hour = hours.find(number)
        if hour is not None and hour.moved:
            hours.use(number)
            result[rows] = hour.homes(indexes[rows], places[rows])
    return result


def last_places(hours: HourSet, born: U64) -> U64:
    """The newest places of messages that were born at `born`, in order, ended or not. A message that was never moved
    gives its home. GONE stands for a place whose hour is unlinked."""
    places = born.copy()
    indexes = indexes_of(born)
    for number, rows in by_hour(hours_of(born)):
        hour = hours.use(number)
        if hour is not None and hour.states().forwards:
            places[rows] = _last_forwards(hour, indexes[rows], born[rows])
    return np.where(homes(hours, places) == born, places, np.uint64(GONE))


def _last_forwards(hour: Hour, indexes: I64, born: U64) -> U64:
    """The place that each unit's newest forwarded record names. A unit without such a record gives its own position.

    That record is the newest one at home, or the one before it if the message has ended. Each of the two steps reads
    the settle file once for all units.
    """
    places = born.copy()
    following = hour.states().newest_at(indexes).astype(np.int64)
    left = np.flatnonzero(following)
    for _ in range(2):
        records = hour.settle_rows(following[left] - 1)
        found = records["what"] == FORWARDED
        places[left[found]] = records["when"][found].view(np.uint64)
        following[left] = records["previous"] * ~found
        left = left[following[left] > 0]
    return places


def history(hours: HourSet, home: int) -> Pieces[Settles]:
    """The newest HISTORY_MAX settle records of a message, oldest first, over all its places.

    A change that is made between two pieces may be missing. It is shown only if it stands at home, or at a place that
    the home named when it was read.
    """
    at_home = join_rows((yield from _at(hours, home, HISTORY_MAX)), SETTLE)
    forwards = np.flatnonzero(at_home["what"] == FORWARDED).tolist()
    last = {int(at_home["when"].view(np.uint64)[row]): row for row in forwards}  # an hour's number may come twice
    story = [at_home[row : row + 1] for row in range(len(at_home))]
    left = HISTORY_MAX
    for place, row in reversed(last.items()):
        if left > 0 and _belongs(hours, place, home):
            at_place = yield from _at(hours, place, left)
            left -= len(at_place)
            yield
            there = [record for record in at_place if LIVES_HERE[record["what"][0]]]  # other records stand at home too
            story[row] = join_rows([story[row], *there], SETTLE)
    return join_rows(story, SETTLE)[-HISTORY_MAX:]


def born_in_state(hours: HourSet, first: int, end: int, state: int) -> U64:
    """Positions first <= p < end of one hour whose units were born there and are in this state there."""
    hour, base = hours.use(first >> INDEX_BITS), first & INDEX_MAX
    if hour is None:
        return np.empty(0, np.uint64)
    at = hour.states().in_state(state, base, min(base + end - first, hour.next))
    places = at.astype(np.uint64) | np.uint64(hour.number << INDEX_BITS)
    born: U64 = places[hour.homes(at, places) == places]
    return born


def _belongs(hours: HourSet, place: int, home: int) -> bool:
    """True if the place is not `home` itself, and the unit there belongs to the message born at `home`."""
    return place != home and homes(hours, np.array([place], np.uint64)).tolist() == [home]


def _at(hours: HourSet, position: int, most: int) -> Pieces[list[Settles]]:
    """The newest settle records of one unit, which must exist, oldest first, each an array of one row.

    It stops, with the records found so far, if the unit's hour is unlinked between two pieces.
    """
    found: list[Settles] = []
    for hour, _, at in hours.existing(np.array([position], np.uint64)):
        for record in islice(_newest_first(hour, int(at[0])), most):
            found.append(record)
            if len(found) % PIECE_RECORDS == 0:
                yield
                if hours.use(hour.number) is not hour:
                    break
        return found[::-1]
    raise AssertionError(f"no unit at {position}")


def _newest_first(hour: Hour, index: int) -> Iterator[Settles]:
    """Yield the settle records of one unit by following `previous`. Raises Corrupt if that does not lead backwards."""
    following = int(hour.states().newest_at(np.array([index]))[0])
    while following:
        record = hour.settle_rows(np.array([following - 1]))
        yield record
        previous = int(record["previous"][0])
        if previous >= following:
            offset = hour.files.settle.offset(following - 1)
            raise Corrupt(hour.files.settle.name, offset, "previous", previous, f"at most {following - 1}")
        following = previous
