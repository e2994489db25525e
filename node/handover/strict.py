"""Strict hand-overs: leased ahead, made once the Lease is committed, or taken back by a Release.

    lease ahead -> book -> Lease committed -> begin ----> on its way to the consumer, never again under this lease
      |                                      |
      '-- withdraw (a command that ends or moves the unit, a consumer that went away, leadership that moves)
                '----> Release, in the entry of that command or an earlier one: the unit is open as before its lease,
                       and is not handed over again until the Release is applied

Units wait here until their Lease is committed. If `begin` is called first, the hand-over is made and a later `withdraw`
does nothing. If `withdraw` is called first, a later `begin` does nothing. So the answer to a cancel is true. It is
refused as leased if the hand-over began before it. Otherwise the hand-over never begins.

Pure: it is given the time. There is one per term.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from node.handover.lease_book import HandOver, LeaseBook, Released
from storage.format.array import U32, U64
from storage.format.states import LEASED
from storage.store import Store
from storage.tables.topic import Subscription

LEASED_AHEAD_MAX: Final = 20_000
"""How many units may be leased ahead at a time and wait for the commit of their Lease or for their time. The Leases of
so many take half a MiB of an entry."""


class Strict:
    """The units of one term that are leased ahead, or are about to be, and whose hand-over has not begun. It also knows
    which subscriptions are strict (`subscriptions`), and which of those are pushed (`pushed`). `released` counts leases
    that were taken back."""

    def __init__(self, book: LeaseBook, *, term: int) -> None:
        self._book = book
        self.term = term
        self._number = 0
        self._leased_ahead: dict[int, tuple[int, int]] = {}  # position -> number of its hand-over, attempt
        self.subscriptions: set[Subscription] = set()
        self.pushed: set[Subscription] = set()  # the pushed ones of these
        self.released = 0

    # -- topics

    def on_settings(self, subscription: Subscription, settings: dict[str, Any]) -> None:
        """Note from a topic's settings, which have just been applied, if the topic is strict and if it is pushed."""
        strict = settings.get("handover") == "strict"
        (self.subscriptions.add if strict else self.subscriptions.discard)(subscription)
        pushed = strict and settings.get("mode") == "push"
        (self.pushed.add if pushed else self.pushed.discard)(subscription)

    def expect(self, subscription: Subscription) -> None:
        """Treat a topic as strict from now on, before the command that makes it strict is proposed. So every later
        hand-over is leased ahead, and the Leases of all earlier ones are committed with that command at the latest.
        `on_settings` corrects this if the change fails."""
        self.subscriptions.add(subscription)

    # -- hand-overs

    @property
    def full(self) -> bool:
        """True if LEASED_AHEAD_MAX units are leased ahead, so that no more may be."""
        return len(self._leased_ahead) >= LEASED_AHEAD_MAX

    @property
    def waiting(self) -> int:
        """Units that are leased ahead and whose hand-over has not begun."""
        return len(self._leased_ahead)

    def add_leased_ahead(self, hand_over: HandOver, *, planned: bool = False) -> HandOver:
        """Lease a hand-over ahead. It will be made once its Lease is committed, or at its time if it is `planned`. Its
        units stay claimed until then. Return the hand-over with its number among the strict ones in the field `strict`.

        If a unit is already part of an older hand-over, it leaves that one. This happens in a node that stood still
        until the older lease had ended.
        """
        self._number += 1
        leased_ahead = replace(hand_over, strict=self._number, planned=planned)
        self._book.add(leased_ahead)
        for position, attempt in zip(leased_ahead.position.tolist(), leased_ahead.attempt.tolist(), strict=True):
            self._leased_ahead[position] = self._number, attempt
        return leased_ahead

    def failed(self, hand_over: HandOver) -> None:
        """Forget those units of the hand-over that still wait to be handed over. Called if its Leases had no effect or
        have ended, so that it must not begin."""
        for position in self._still(hand_over):
            del self._leased_ahead[position]

    def begin(self, hand_over: HandOver, now_ms: int) -> HandOver:
        """Begin the hand-over, and return it with only those units that still waited for it, perhaps none. Call this
        when its Lease is committed and this node may act as leader. Units that are not due, because the clock went
        back, go on waiting."""
        named = zip(hand_over.position.tolist(), hand_over.due_ms.tolist(), strict=True)
        rows = [row for row, (at, due_ms) in enumerate(named) if due_ms <= now_ms and self._holds(hand_over, at)]
        for position in hand_over.position[rows].tolist():
            del self._leased_ahead[position]
        return replace(hand_over.select(np.array(rows, np.intp)), handed_over_ms=now_ms)

    def withdraw(self, hand_over: HandOver) -> None:
        """Take back the leases of those units of the hand-over that still wait. They are not handed over under these
        leases."""
        self._release(self._still(hand_over))

    def withdraw_places(self, places: U64) -> None:
        """Take back the leases ahead of the units at these positions, so that no hand-over of them begins."""
        if self._leased_ahead:
            self._release([place for place in places.tolist() if place in self._leased_ahead])

    def places(self) -> U64:
        """The positions of all units that are leased ahead and whose hand-over has not begun."""
        return np.fromiter(self._leased_ahead, np.uint64, len(self._leased_ahead))

    def withdraw_all(self) -> None:
        """Take back all leases ahead, because leadership is about to be given away."""
        self._release(list(self._leased_ahead))

    def taken_back(self, positions: U64) -> npt.NDArray[np.bool_]:
        """See LeaseBook.taken_back."""
        return self._book.taken_back(positions)

    def leased_ahead(self, position: int) -> tuple[int, int] | None:
        """The (term, attempt) of the hand-over for which the unit at this position is leased ahead. None if it is
        not."""
        kept = self._leased_ahead.get(position)
        return None if kept is None else (self.term, kept[1])

    def clear(self) -> None:
        """Forget all units. The term is over. The next leader hands each unit over again when its lease has ended."""
        self._leased_ahead.clear()

    def _holds(self, hand_over: HandOver, position: int) -> bool:
        kept = self._leased_ahead.get(position)
        return kept is not None and kept[0] == hand_over.strict

    def _still(self, hand_over: HandOver) -> list[int]:
        return [position for position in hand_over.position.tolist() if self._holds(hand_over, position)]

    def _release(self, positions: Iterable[int]) -> None:
        taken = [(position, self._leased_ahead.pop(position)[1]) for position in positions]
        if taken:
            self.released += len(taken)
            term: U32 = np.full(len(taken), self.term, np.uint32)
            self._book.release(
                Released(
                    np.array([position for position, _ in taken], np.uint64),
                    term,
                    np.array([attempt for _, attempt in taken], np.uint16),
                )
            )


def leased_rows(store: Store, positions: U64) -> npt.NDArray[np.bool_]:
    """True, shape [n], where the settle records say leased, even if the lease has ended by now."""
    rows: npt.NDArray[np.bool_] = store.states(positions).state == LEASED
    return rows
