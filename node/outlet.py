"""Where units leave: from the ready windows to consumers, under a lease.

Every unit is checked against the records at the moment it is handed over, so what was settled meanwhile never goes out,
and what a command in flight is about to end waits for that command's result.

    window -- take --> checked -- ready -------------------> handed over; claimed until its Lease is applied
                          | held ----------------> aside --> first in line again when released
                          | not due again yet ---> window
                          '-- ended -------------> forgotten, its claim freed
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from node.claim import Claims
from node.hold import Holds
from node.lease_book import HandOver, LeaseBook
from node.look import look
from node.ready import Ready
from node.taking import Taking
from node.window import LaneKind, Queued
from storage.store import Store

PACE_MS = 10
"""Overdue units are released to consumers `pace_per_step` at a time, this far apart."""

LOOK_ROWS = 16_384
"""At most so many units of a window are looked at together to find the few asked for."""

ATTEMPT_MAX = 0xFFFF


class Outlet:
    """One term's hand-overs. Opened when the dispatcher begins, closed for good when the term is over."""

    def __init__(self, store: Store, book: LeaseBook, claims: Claims, ready: Ready, *, pace_per_step: int) -> None:
        self._store = store
        self._book = book
        self._claims = claims
        self._ready = ready
        self._holds = Holds()
        self._paused: set[int] = set()
        self._open = False
        self._latest_ms = 0  # all that is due by then was dispatched
        self._pace_per_step = pace_per_step
        self._pace_ms, self._pace_left = 0, 0

    def open(self, now_ms: int) -> None:
        """The wheel begins: there may be hand-overs."""
        self._open = True
        self._latest_ms = self._pace_ms = now_ms

    def close(self) -> None:
        """Step down: nothing is handed over any more, and what was taken out of the windows is forgotten."""
        self._open = False
        self._holds.forget_aside()

    def turn(self, now_ms: int) -> None:
        """All that is due by `now_ms` was dispatched; what is overdue goes on at its pace."""
        self._latest_ms = max(self._latest_ms, now_ms)
        if not self._pace_ms - PACE_MS <= now_ms < self._pace_ms:
            self._pace_ms, self._pace_left = now_ms + PACE_MS, self._pace_per_step

    def wake_ms(self) -> int | None:
        """When overdue units that wait may go on; None if none wait for their pace."""
        return self._pace_ms if self._ready.lanes[LaneKind.OVERDUE].windows and not self._pace_left else None

    @property
    def ready_count(self) -> int:
        """Units in all windows; none once closed."""
        return self._ready.count if self._open else 0

    def pause(self, topic: int, paused: bool) -> None:
        """Whether nothing of the topic goes out."""
        (self._paused.add if paused else self._paused.discard)(topic)

    def waiting(self, topic: int) -> bool:
        """Whether a hand-over of the topic is worth a try."""
        if not self._open or topic in self._paused:
            return False
        overdue = self._ready.waiting(LaneKind.OVERDUE, topic) > 0 and self._pace_left > 0
        return overdue or self._ready.waiting(LaneKind.CURRENT, topic) > 0

    def hand_over(
        self, topic: int, max_units: int, lease_ms: int, now_ms: int, *, trusted: bool, max_bytes: int
    ) -> HandOver:
        """See Dispatcher.hand_over."""
        allowed = trusted and self._open and topic not in self._paused and self._book.allows(now_ms)
        taking = Taking(max_units if allowed else 0, max_bytes)
        for kind in LaneKind:
            self._take(kind, topic, now_ms, taking)
        hand_over = taking.hand_over(topic, now_ms + lease_ms, now_ms)
        if len(hand_over):
            self._book.add(hand_over)
        return hand_over

    def _take(self, kind: LaneKind, topic: int, now_ms: int, taking: Taking) -> None:
        """Take what has room of one lane's units that the records say are ready."""
        paced = kind is LaneKind.OVERDUE
        most = min(taking.units, self._pace_left) if paced else taking.units
        count, bite = 0, most
        while count < most and not taking.full:
            if now_ms < self._latest_ms:
                bite = self._ready.waiting(kind, topic)  # what is due again may stand behind what is not
            units = self._ready.take(kind, topic, bite)
            if not len(units):
                break
            took = self._give(kind, topic, units, most - count, now_ms, taking)
            count += took
            if not took and now_ms < self._latest_ms:
                break
            bite = min(4 * bite, LOOK_ROWS)  # a window may be full of cancelled units
        if paced:
            self._pace_left -= count

    def _give(self, kind: LaneKind, topic: int, units: Queued, most: int, now_ms: int, taking: Taking) -> int:
        """Of `units`, taken from a window, take the first `most` that are to be handed over now, as far as their
        bytes have room; returns how many.

        Those held by a command in flight step aside; the other ready ones, and those not due by a clock that went back,
        return to the window; those that ended meanwhile are forgotten.
        """
        held = self._holds.mask(units.position)
        if held.any():
            self._holds.put_aside(kind, topic, units.select(held))
            units = units.select(~held)
        seen = look(self._store, units.position, now_ms, self._latest_ms)
        chosen = np.flatnonzero(seen.ready)[:most]
        attempts = np.minimum(seen.attempt[chosen], ATTEMPT_MAX - 1) + np.uint16(1)
        rows = self._store.units(units.position[chosen])
        took = taking.add(units.position[chosen], attempts.astype(np.uint16), rows)
        stays = seen.open.copy()
        if not stays.all():
            self._claims.free(units.position[~stays])
        stays[chosen[:took]] = False
        self._ready.put_back(kind, topic, units.select(stays))
        return took

    def hold(self, positions: Iterable[int]) -> None:
        """See Dispatcher.hold."""
        self._holds.add(positions)

    def release(self, positions: Iterable[int]) -> None:
        """See Dispatcher.release."""
        for kind, topic, units in self._holds.drop(positions):
            self._ready.put_back(kind, topic, units)
