"""Subscriptions that pulls wait for, and which of them may have new units for these pulls."""

from __future__ import annotations

from collections.abc import Collection

from storage.tables.topic import Subscription


class WaitedSubscriptions:
    """The subscriptions of one leader. A step looks at those that have changed, however many are waited for."""

    def __init__(self) -> None:
        self._waited: set[Subscription] = set()
        self._changed: set[Subscription] = set()  # a part of _waited

    def wait(self, subscription: Subscription) -> None:
        """Note that a pull waits for the subscription."""
        self._waited.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Note that no pull waits for it any more."""
        self._waited.discard(subscription)
        self._changed.discard(subscription)

    def note(self, subscription: Subscription) -> None:
        """Note that it has new units, or that its units may go again."""
        if subscription in self._waited:
            self._changed.add(subscription)

    def note_all(self, subscriptions: Collection[Subscription]) -> None:
        """Note the same of each of these."""
        waited = self._waited
        fewer, more = (subscriptions, waited) if len(subscriptions) < len(waited) else (waited, subscriptions)
        self._changed.update(subscription for subscription in fewer if subscription in more)

    def take(self) -> set[Subscription]:
        """The subscriptions that have changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed
