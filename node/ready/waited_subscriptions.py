"""Subscriptions that pulls wait for, and which of them may have new units for these pulls."""

from __future__ import annotations

from collections.abc import Collection

from storage.tables.topic import Subscription


class WaitedSubscriptions:
    """The subscriptions that pulls wait for, and which of these changed since `take` was last called. A step of the
    leader looks only at the changed ones."""

    def __init__(self) -> None:
        self._waited: set[Subscription] = set()
        self._changed: set[Subscription] = set()  # a part of _waited

    def wait(self, subscription: Subscription) -> None:
        """Note that a pull waits for the subscription."""
        self._waited.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Note that no pull waits for the subscription any more."""
        self._waited.discard(subscription)
        self._changed.discard(subscription)

    def note(self, subscription: Subscription) -> None:
        """Note that the subscription has new units, or that its units may be handed over again after a pause."""
        if subscription in self._waited:
            self._changed.add(subscription)

    def note_all(self, subscriptions: Collection[Subscription]) -> None:
        """Call `note` for each of these."""
        waited = self._waited
        fewer, more = (subscriptions, waited) if len(subscriptions) < len(waited) else (waited, subscriptions)
        self._changed.update(subscription for subscription in fewer if subscription in more)

    def take(self) -> set[Subscription]:
        """Return the subscriptions that pulls wait for and that `note` or `note_all` named since the last call."""
        changed, self._changed = self._changed, set()
        return changed
