"""Strict hand-overs: leased first, made once the Lease is committed, released if they are not made after all.

    lease ahead -> book -> Lease committed -> begin ----> on its way to the consumer, never again under this lease
      |                                      |
      '-- withdraw (a command that ends or moves the unit, a consumer that went away, leadership that moves)
                '----> Release, in the entry of that command or an earlier one: pending as if nothing had been, and not
                       handed over again before the log says so

Units wait here until their Lease is committed. The first of `begin` and `withdraw` removes the unit. The other does
nothing. So the answer to a cancel is true. If the hand-over began before, the cancel is refused as leased. Else it
never begins.

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
"""Units that may wait for their Lease or their time. Their Leases take half a MiB of an entry."""


class Strict:
    """Units that are leased, or about to be, and whose hand-over has not begun."""

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
        """Note a topic's settings as the log has them."""
        strict = settings.get("handover") == "strict"
        (self.subscriptions.add if strict else self.subscriptions.discard)(subscription)
        pushed = strict and settings.get("mode") == "push"
        (self.pushed.add if pushed else self.pushed.discard)(subscription)

    def expect(self, subscription: Subscription) -> None:
        """Prepare for a topic that is about to become strict. From here on every hand-over waits for its Lease. So the
        Leases of all earlier ones are in the log with the entry of the change at the latest. `on_settings` says what
        became of it."""
        self.subscriptions.add(subscription)

    # -- hand-overs

    @property
    def full(self) -> bool:
        """True if too many units wait for more to be leased ahead."""
        return len(self._leased_ahead) >= LEASED_AHEAD_MAX

    @property
    def waiting(self) -> int:
        """Units that are leased ahead and whose hand-over has not begun."""
        return len(self._leased_ahead)

    def add_leased_ahead(self, hand_over: HandOver, *, planned: bool = False) -> HandOver:
        """Lease a hand-over ahead. It is to be made once its Lease is committed, and its units are claimed until then.
        Return it as it stands in the book, under a number. An older hand-over of a unit loses it to this one. That
        happens in a node that stood still until the older lease had ended."""
        self._number += 1
        leased_ahead = replace(hand_over, strict=self._number, planned=planned)
        self._book.add(leased_ahead)
        for position, attempt in zip(leased_ahead.position.tolist(), leased_ahead.attempt.tolist(), strict=True):
            self._leased_ahead[position] = self._number, attempt
        return leased_ahead

    def failed(self, hand_over: HandOver) -> None:
        """Forget what is left of a hand-over. Its Leases took no effect, or have ended, so it does not begin."""
        for position in self._still(hand_over):
            del self._leased_ahead[position]

    def begin(self, hand_over: HandOver, now_ms: int) -> HandOver:
        """Make what is left of a hand-over now, perhaps nothing. Its Lease is committed, and this node acts as leader
        at this moment. Units that are not due any more, by a clock that went back, are left."""
        named = zip(hand_over.position.tolist(), hand_over.due_ms.tolist(), strict=True)
        rows = [row for row, (at, due_ms) in enumerate(named) if due_ms <= now_ms and self._holds(hand_over, at)]
        for position in hand_over.position[rows].tolist():
            del self._leased_ahead[position]
        return replace(hand_over.select(np.array(rows, np.intp)), handed_over_ms=now_ms)

    def withdraw(self, hand_over: HandOver) -> None:
        """Release what is left of a hand-over. It will not be made."""
        self._release(self._still(hand_over))

    def withdraw_places(self, places: U64) -> None:
        """Release the units at these positions. Nothing that stands there is handed over any more."""
        if self._leased_ahead:
            self._release([place for place in places.tolist() if place in self._leased_ahead])

    def withdraw_all(self) -> None:
        """Release all units. Leadership is about to move."""
        self._release(list(self._leased_ahead))

    def taken_back(self, positions: U64) -> npt.NDArray[np.bool_]:
        """See LeaseBook.taken_back."""
        return self._book.taken_back(positions)

    def leased_ahead(self, position: int) -> tuple[int, int] | None:
        """(term, attempt) of the unit's hand-over. None unless it has one that has not begun."""
        kept = self._leased_ahead.get(position)
        return None if kept is None else (self.term, kept[1])

    def clear(self) -> None:
        """Forget all units. The term is over, and each unit waits for its lease to end."""
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
    """True, shape [n], where the records say leased, even if the lease has ended."""
    rows: npt.NDArray[np.bool_] = store.states(positions).state == LEASED
    return rows
