"""Receivers on trial are those without a success in the last minute. This file chooses which of them is tried next.

A client that names receivers may name many of them, so attempts to receivers on trial are bounded in three ways:

- A tenth of all attempts that may be on the wire at a time is never used for them.
- One topic may have at most TRIALS such attempts for each attempt that there is room for.
- Only a few begin together, because each may need a new connection, which holds the loop for 0.5 ms. The 2,300
  receivers of one batch once held back all pulls and pushes for 0.1 s.

Lanes on trial wait under each topic that has units for them, and topics are asked in turn. So many new receivers delay
only the topics that name them.

Pure: no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

from storage.tables.topic import Subscription

L = TypeVar("L")

TRIALS: Final = 3
"""A topic may have so many attempts to receivers on trial for each attempt that there is room for."""

MOMENT_MS: Final = 16
"""A moment: the time from one group of attempts that begin together to the next."""

TOGETHER: Final = 16
"""At most so many attempts begin in one moment."""

TOPIC_TOGETHER: Final = 12
"""At most so many of these are of one topic, so that other topics have some in the same moment."""

LOOK_TOPICS: Final = 128
"""At most so many topics are asked at a time if they have a lane to try."""


class Trials(Generic[L]):
    """The attempts of one node to receivers on trial, and the lanes that wait for one. `total` is how many attempts of
    any kind may be on the wire at a time. L is the caller's type of a lane."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._on_wire: dict[Subscription, int] = {}  # attempts; no zeros
        self._begun: dict[Subscription, int] = {}  # attempts that began in this moment
        self._moment_ms = 0  # the end of this moment
        self._waiting: dict[Subscription, OrderedDict[L, None]] = {}  # lanes, never empty; the first is next

    def begin_moment(self, now_ms: int) -> None:
        """Begin a new moment if the last one is over. Between two terms the clock may go back by hours."""
        if not 0 < self._moment_ms - now_ms <= MOMENT_MS:
            self._begun.clear()

    def has_slot(self, subscription: Subscription, free: int) -> bool:
        """True if this subscription may have one more attempt to a receiver on trial, while there is room for `free`
        attempts of any kind."""
        return free > self._total // 10 and self._on_wire.get(subscription, 0) < TRIALS * free

    def may_begin(self, subscription: Subscription, free: int) -> bool:
        """True if `has_slot` returns True and one more attempt may begin in this moment."""
        return (
            self.has_slot(subscription, free)
            and self._begun.get(subscription, 0) < TOPIC_TOGETHER
            and sum(self._begun.values()) < TOGETHER
        )

    def begin(self, subscription: Subscription, now_ms: int, *, counts: bool) -> None:
        """Begin an attempt. `counts` is False for attempts to ill receivers, which are not counted among those of this
        moment."""
        self._on_wire[subscription] = self._on_wire.get(subscription, 0) + 1
        if counts:
            self._begun[subscription] = self._begun.get(subscription, 0) + 1
            self._moment_ms = now_ms + MOMENT_MS

    def end(self, subscription: Subscription) -> None:
        """Note that an attempt of the subscription has ended."""
        left = self._on_wire.pop(subscription) - 1
        if left:
            self._on_wire[subscription] = left

    def wait_ms(self, now_ms: int, free: int) -> int | None:
        """How many ms until topics with waiting lanes are asked again. None if that happens only after an attempt has
        ended."""
        if not self._waiting or free <= self._total // 10:
            return None
        if self._begun:
            return max(1, min(self._moment_ms - now_ms, MOMENT_MS))
        return MOMENT_MS if len(self._waiting) > LOOK_TOPICS else None  # there are topics that were not asked yet

    # -- lanes that wait

    def wait(self, lane: L, subscriptions: Iterable[Subscription]) -> None:
        """Let the lane wait under these subscriptions, of which it has units. Where it waits already it keeps its
        turn."""
        for subscription in subscriptions:
            self._waiting.setdefault(subscription, OrderedDict()).setdefault(lane)

    def leave(self, lane: L, subscriptions: Iterable[Subscription]) -> None:
        """Let the lane wait under these subscriptions no more."""
        for subscription in subscriptions:
            lanes = self._waiting.get(subscription)
            if lanes is not None:
                lanes.pop(lane, None)
                if not lanes:
                    del self._waiting[subscription]

    def first(self, subscription: Subscription) -> L | None:
        """The lane that has waited longest under the subscription."""
        return next(iter(self._waiting.get(subscription, ())), None)

    def subscriptions(self) -> list[Subscription]:
        """The next subscriptions with waiting lanes, at most LOOK_TOPICS. These go to the end of the line."""
        subscriptions = list(islice(self._waiting, LOOK_TOPICS))
        for subscription in subscriptions:
            self._waiting[subscription] = self._waiting.pop(subscription)
        return subscriptions

    def drop(self, subscription: Subscription) -> None:
        """Let no lane wait under the subscription any more."""
        self._waiting.pop(subscription, None)

    def clear(self) -> None:
        """Let no lane wait any more."""
        self._waiting.clear()
