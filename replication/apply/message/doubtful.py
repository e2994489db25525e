"""The one place that judges doubt: a hand-over that the log may not know, or that may not have been.

    fast      due when a leader died (storage/catalog/doubt.py): it may have handed the unit over, and not written so
    strict    a push of unknown outcome, whose lease ended or whose leader died: it may not have been sent
    restored  in a cluster made from a backup, all that was in it: the old cluster went on without us

A message that moves takes the doubt along in its record. So its present place answers for all places before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from replication.apply.message.unheard import nobody_heard
from storage.catalog.doubt import CLOCKS_MS, Doubt
from storage.format.array import U16, U64
from storage.format.level import has
from storage.format.rows import PLANNED, PLANNED_BEFORE
from storage.format.states import DEAD, LEASED, RELEASED
from storage.store import Store
from storage.tables.topic import Topic

Mask = npt.NDArray[np.bool_]

DOUBTFUL_FIELD = "doubtful"
"""In a record's extension: there was a doubt when the message came to this place."""

STRICT_SINCE = "strict_since_ms"
STRICT_DOUBT = "strict_doubt_ms"
"""Kept beside the settings of a strict topic: since when it is strict, and the end of doubt at that moment.

The second comes from level 3 on. It says up to which due time units were in doubt then. It is none if the topic was
strict from its first message. No later hand-over can be unknown to the log.
"""


def doubtful_at(store: Store, doubt: Doubt, places: U64, *, heard: bool = False) -> Mask:
    """True where there is a doubt about the unit at a place, [n]. Records are not asked. No lease of these units may
    run.

    `heard`: the outcome of the newest hand-over is known.
    """
    units = store.units(places)
    doubtful = doubt.of(places, units["due_ms"])
    for number in set(units["topic"].tolist()):
        topic = store.catalog.topic_by_number(number)
        if topic is not None and STRICT_SINCE in topic.settings:
            rows = np.flatnonzero(units["topic"] == number)
            doubtful[rows] &= units["due_ms"][rows] <= _strict_from_ms(topic)
    rows = np.flatnonzero(~doubtful)  # of any topic: it may have been strict when the push was planned
    doubtful[rows] = _untold(store, places[rows], heard=heard)
    restored = store.catalog.restored
    if restored is not None:
        doubtful |= restored.had(np.array([record.position for record in store.records(places)], np.uint64))
    return doubtful


def with_doubt(
    store: Store, places: U64, extensions: Sequence[dict[str, Any]], heard: Mask | None = None
) -> Sequence[dict[str, Any]]:
    """The extensions of messages that leave these places, with the doubt that they take along.

    `heard`: rows whose newest hand-over has a known outcome, in any term it was planned.
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
    """The bit of the code of a new lease at each of these places: PLANNED_BEFORE, or none. `again`: leased before."""
    code = np.zeros(len(places), np.uint16)
    rows = np.flatnonzero(again)
    if len(rows) and has(store.level, "doubt"):
        code[rows[_untold(store, places[rows])]] = PLANNED_BEFORE
    return code


def _strict_from_ms(topic: Topic) -> int:
    """The due time after which each unit was handed over strictly or not at all."""
    until_ms = topic.settings.get(STRICT_DOUBT)
    return int(topic.settings[STRICT_SINCE]) + CLOCKS_MS if until_ms is None else int(until_ms)


def _untold(store: Store, places: U64, *, heard: bool = False) -> Mask:
    """True where a push was planned and its outcome is unknown: the newest push, unless `heard`, or an earlier one."""
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
