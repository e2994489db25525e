"""A unit that is ready to be pushed, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass

from node.port.push_port import Origin, PushTarget
from node.push.target import BadTarget
from storage.record.record import Record
from storage.tables.topic import Subscription, Topic

NOWHERE = Origin("", "", 0)
"""The lane of units without a usable target: they fail without a connection."""


@dataclass(slots=True, eq=False)
class StagedUnit:
    """A ready unit with all that its attempt needs. `position` is its place, and `record.position` its home."""

    topic: Topic
    subscription: Subscription
    position: int
    record: Record
    target: PushTarget | BadTarget
    trial: bool = False  # True while its attempt is on the wire and its receiver was on trial

    @property
    def origin(self) -> Origin:
        """The receiver in whose lane the unit is, NOWHERE if it has no usable target."""
        return self.target.origin if isinstance(self.target, PushTarget) else NOWHERE

    @property
    def size(self) -> int:
        """The bytes that the unit holds in memory, about."""
        return len(self.record.body) + 1024
