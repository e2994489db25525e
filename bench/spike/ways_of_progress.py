"""A leader that hands messages out without stubs: each subscription has its own states, claims and windows."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from bench.spike.command import ACKS, FAN_OUT, LEASES, Acks, FanOut, Leases
from bench.spike.progress import Progress, SubscriptionView
from bench.spike.ways import COMMITTED, LEASE_APPLY, LEASE_ENTRY, STATE_BYTES, TO_WINDOWS, FannedOut
from bench.stages import LEASE_MS, MESSAGES_MAX, NOW_MS, TERM, Times
from node.handover.handing_over import HandingOver
from node.handover.lease_book import HandOver, LeaseBook
from node.leader.dispatcher import DispatchOptions
from node.ready.claimed_units import ClaimedUnits
from node.ready.topic_window import LaneKind
from node.ready.windows import Ready
from replication.apply.registry import COMMANDS, CommandRow
from storage.format.states import LEASED
from storage.store import Store

MASK_BYTES = 8


class _Subscription:
    """Claims, windows and hand-over of one subscription."""

    def __init__(self, view: SubscriptionView, book: LeaseBook) -> None:
        options = DispatchOptions()
        self.view, self.claims = view, ClaimedUnits()
        self.ready = Ready(self.claims, per_topic=options.window_per_topic, total=options.window_total)
        self.handing_over = HandingOver(
            cast(Store, view), book, self.claims, self.ready, term=TERM, attempts=None, pace_per_step=MESSAGES_MAX
        )
        self.handing_over.open(NOW_MS)


class ByProgress(FannedOut):
    """Fan-out without stubs. Due messages go into a window of each subscription."""

    def __init__(self, directory: Path, times: Times, subscriptions: int, lag: int) -> None:
        super().__init__(directory, times, subscriptions, lag)
        options = DispatchOptions()
        self._book = LeaseBook(stop_ms=options.stop_ms, beat_ms=options.beat_ms)
        self._progress = progress = Progress(subscriptions)
        views = [SubscriptionView(self.store, states) for states in progress.states]
        self._each = [_Subscription(view, self._book) for view in views]
        COMMANDS[FAN_OUT] = CommandRow(FAN_OUT, FanOut.unpack, progress.fan_out)
        COMMANDS[LEASES] = CommandRow(LEASES, Leases.unpack, progress.leases)
        COMMANDS[ACKS] = CommandRow(ACKS, Acks.unpack, progress.acks)

    def bring(self, now_ms: int) -> None:
        """Fan out what is due, and bring it into the windows of all subscriptions."""
        units, _ = self.fan_out(now_ms)
        with self.times.stage(TO_WINDOWS):
            self.leader.dispatcher._claims.free(units.position)
            topics = np.full(len(units), self.parents, np.uint32)
            for each in self._each:
                each.ready.push(LaneKind.CURRENT, topics, units)
                each.handing_over.turn(now_ms)

    def take(self, now_ms: int) -> list[HandOver]:
        """Hand over what is due, to each subscription."""
        rows = self.times.rows
        return [each.handing_over.hand_over(self.parents, rows, LEASE_MS, now_ms, trusted=True) for each in self._each]

    def lease(self, now_ms: int, taken: list[HandOver]) -> None:
        """Write the leases with their subscriptions, and the dispatch state with them."""
        made = self._book.collect().lease
        assert made is not None
        numbers = np.arange(len(taken), dtype=np.uint16).repeat([len(each) for each in taken])
        leases = Leases(made.position, numbers, made.attempt, made.lease_end_ms, made.handed_over_ms)
        others = self.leader.dispatcher.collect(now_ms).commands()
        self.propose(now_ms, LEASE_ENTRY, LEASE_APPLY, leases, *others)
        with self.times.stage(COMMITTED):
            for each, hand_over in zip(self._each, self._book.committed(), strict=True):
                each.claims.free(hand_over.position)
                states = each.view.states(hand_over.position)
                runs = (states.state == LEASED) & (states.term == TERM) & (states.attempt == hand_over.attempt)
                assert (runs & (states.lease_end_ms > now_ms)).all(), "a Lease had no effect"

    def state_bytes(self) -> int:
        """Memory of the states, of each subscription and of the messages, and of the masks."""
        states = self._progress.states
        masks = len(self._progress.left) * MASK_BYTES
        return super().state_bytes() + masks + sum(each.held for each in states) * STATE_BYTES
