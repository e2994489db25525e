"""The one place that judges doubt: a hand-over of the unit may have been made without a record, or recorded and not
made.

    fast      the unit was due when a leader died (storage/catalog/doubt.py): that leader may have handed it over
              without a record
    strict    a push of the unit has an unknown outcome, since its lease ended or its leader died: it may not have
              been sent
    restored  in a cluster made from a backup, each unit of the backup: the old cluster may have delivered it later

A message that moves takes its doubt along in its record. So the record at its present place answers for all earlier
places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from replication.apply.message.unheard import nobody_heard
from storage.catalog.doubt import CLOCKS_MS, Doubt
from storage.format.array import U16, U64, Mask
from storage.format.level import has
from storage.format.rows import PLANNED, PLANNED_BEFORE, Units
from storage.format.states import DEAD, LEASED, RELEASED
from storage.store import Store
from storage.tables.topic import Topic

DOUBTFUL_FIELD = "doubtful"
"""The field of a record's extension that says: the message was in doubt when it moved to this place."""

STRICT_SINCE = "strict_since_ms"
STRICT_DOUBT = "strict_doubt_ms"
"""Kept beside the settings of a strict topic: the time at which it became strict, and the doubt at that time.

STRICT_DOUBT is written from level 3 on. Units due up to this time (ms) were in doubt when the topic became strict. It
is -1 if the topic was strict from its first message. The log knows all later hand-overs of the topic.
"""


def doubtful_at(store: Store, doubt: Doubt, places: U64, *, heard: bool = False, units: Units | None = None) -> Mask:
    """A boolean array, [n]: True where the unit at a place is in doubt. No lease of these units may run.

    The caller has to look itself for DOUBTFUL_FIELD in the records. If `heard`, the outcome of the newest hand-over of
    each unit is known. `units` are their rows of the index, if the caller has them.
    """
    if units is None:
        units = store.units(places)
    doubtful = doubt.of(places, units["due_ms"])
    for number in set(units["topic"].tolist()):
        topic = store.catalog.topic_by_number(number)
        if topic is not None and STRICT_SINCE in topic.settings:
            rows = np.flatnonzero(units["topic"] == number)
            doubtful[rows] &= units["due_ms"][rows] <= _strict_from_ms(topic)
    rows = np.flatnonzero(~doubtful)  # of fast topics too: a topic may have been strict when the push was planned
    doubtful[rows] = _untold(store, places[rows], heard=heard)
    restored = store.catalog.restored
    if restored is not None:
        doubtful |= restored.had(np.array([record.position for record in store.records(places)], np.uint64))
    return doubtful


def with_doubt(
    store: Store, places: U64, extensions: Sequence[dict[str, Any]], heard: Mask | None = None
) -> Sequence[dict[str, Any]]:
    """The record extensions of messages that leave these places. Those of messages in doubt get DOUBTFUL_FIELD.

    `heard` is a boolean array: True where the newest hand-over has a known outcome, even if a former leader planned it.
    """
    if not has(store.level, "doubt"):
        return extensions
    doubtful = doubtful_at(store, store.doubt, places)
    if heard is not None and (doubtful & heard).any():
        doubtful[heard] = doubtful_at(store, store.doubt, places[heard], heard=True)
    return [
        extension | {DOUBTFUL_FIELD: True} if doubt else extension
        for extension, doubt in zip(extensions, doubtful.tolist(), strict=True)
    ]


def planned_before(store: Store, places: U64, again: Mask) -> U16:
    """The code of a new lease at each of these places, [n]. It is PLANNED_BEFORE if an earlier push has an unknown
    outcome, else 0.

    `again` is True for units that were leased before.
    """
    code = np.zeros(len(places), np.uint16)
    rows = np.flatnonzero(again)
    if len(rows) and has(store.level, "doubt"):
        code[rows[_untold(store, places[rows])]] = PLANNED_BEFORE
    return code


def _strict_from_ms(topic: Topic) -> int:
    """A due time in ms. The log knows every hand-over of the topic's units that are due later, because the topic is
    strict since then.
    """
    until_ms = topic.settings.get(STRICT_DOUBT)
    return int(topic.settings[STRICT_SINCE]) + CLOCKS_MS if until_ms is None else int(until_ms)


def _untold(store: Store, places: U64, *, heard: bool = False) -> Mask:
    """A boolean array, [n]: True where a push was planned and its outcome is unknown. The push is the unit's newest one
    or an earlier one.

    If `heard`, the outcome of the newest push is known, and only earlier ones count.
    """
    newest = store.newest(places)
    code, what = newest["code"], newest["what"]
    planned = (what == LEASED) & (code & (PLANNED_BEFORE if heard else PLANNED | PLANNED_BEFORE) > 0)
    untold: Mask = planned | ((what == RELEASED) & (code & PLANNED_BEFORE > 0))
    dead = np.flatnonzero(what == DEAD)
    if len(dead):
        end, lease = newest[dead], store.before_newest(places[dead])
        unheard = nobody_heard(end["code"], end["at_ms"], lease["when"])
        bits = np.where(unheard, PLANNED | PLANNED_BEFORE, PLANNED_BEFORE)
        untold[dead] = (lease["what"] == LEASED) & (lease["code"] & bits > 0)
    return untold
