"""Messages that do not stand where they were born: from home to place, from place to home, and their history.

The home knows the newest place, a place knows its home, and no other link is followed. So a message is always one hop
away. A place may be unlinked before the home is, and a new hour may take its number. So a home's link to a place where
the message no longer lives counts only if the unit there agrees.

Changes of a message on its way stand at its newest place alone: revision, due time, doubt. When that hour goes, the
message ended there longer ago than its retention. So these changes go with the hour, though the home may stay for other
messages.
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
"""Events of a message that are shown. Each costs a read, and a lease may be extended every second for days."""


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
    """The homes of the messages that stand at these positions. An unknown unit gives its place."""
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
    """The newest places of messages, ended or not. GONE if the place is unlinked. A message that was never moved gives
    its home."""
    places = born.copy()
    indexes = indexes_of(born)
    for number, rows in by_hour(hours_of(born)):
        hour = hours.use(number)
        if hour is not None and hour.states().forwards:
            places[rows] = _last_forwards(hour, indexes[rows], born[rows])
    return np.where(homes(hours, places) == born, places, np.uint64(GONE))


def _last_forwards(hour: Hour, indexes: I64, born: U64) -> U64:
    """The target of each unit's newest forward. A unit without a forward gives its own position.

    A forward is the newest record at home, or the one before if the message has ended. Each step reads the settle file
    once for all units.
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

    Changes between two pieces are shown, if at all, of the place where it stood when the first piece was read.
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
    """True if the unit at this place still is one of the message born at `home`."""
    return place != home and homes(hours, np.array([place], np.uint64)).tolist() == [home]


def _at(hours: HourSet, position: int, most: int) -> Pieces[list[Settles]]:
    """The newest settle records of one unit, which must exist, oldest first, each an array of one row.

    It stops if the unit's hour goes between two pieces.
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
    """Yield the settle records of one unit by following `previous`. Raises Corrupt if that leads forward."""
    following = int(hour.states().newest_at(np.array([index]))[0])
    while following:
        record = hour.settle_rows(np.array([following - 1]))
        yield record
        previous = int(record["previous"][0])
        if previous >= following:
            offset = hour.files.settle.offset(following - 1)
            raise Corrupt(hour.files.settle.name, offset, "previous", previous, f"at most {following - 1}")
        following = previous
