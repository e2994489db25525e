"""Policies of attempts: decides which messages may be handed over again, and makes the Fail that ends the others.

If a lease ends without an ack or nack, nothing is done until the message is about to be handed over again. So the
dispatcher asks this file before each repeat. A message that its policy does not allow any more is given up.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from node.handover.attempt_limit import Exhausted
from node.port.failure_code import LEASE_ENDED, MAX_AGE
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.settle.retry import effective, too_old
from replication.command.handover import DEAD, Fail
from storage.format.array import U16, U64
from storage.record.record import Record
from storage.store import Store
from storage.tables.topic import Subscription, topic_of

HAND_OVERS_MAX: Final = 60_000
"""How often one message may be handed over, whatever its policy, also counting hand-overs that are no attempts. The
number of a hand-over has 16 bits, and a receiver refuses a number that it has had in the same term."""


class Attempts:
    """Applies the retry policies of all topics and messages for the dispatcher
    (node.handover.attempt_limit.AttemptLimit)."""

    def __init__(self, store: Store, clock: NodeClock, entropy: Entropy) -> None:
        self._store, self._clock, self._entropy = store, clock, entropy

    def over(self, subscription: Subscription, positions: U64, attempts: U16) -> npt.NDArray[np.bool_]:
        """True, shape [n], for units of the subscription whose policy forbids their next hand-over. `attempts` are the
        numbers of these hand-overs."""
        settings = settings_of(self._store, subscription)
        now_ms = self._clock.now_ms()
        records = self._store.records(positions)
        rows = zip(records, attempts.tolist(), strict=True)
        return np.fromiter(
            (_exhausted_by(settings, record, made - 1, now_ms) != 0 for record, made in rows), np.bool_, len(records)
        )

    def give_up(self, exhausted: Exhausted) -> Fail:
        """Make the Fail of units for which `over` was True. It reads the same clock as `over`. By an earlier time, a
        message that has just become too old would not be too old. The reason given for its end would then be the end of
        a lease, which it may never have had."""
        now_ms = self._clock.now_ms()
        count = len(exhausted.position)
        settings = settings_of(self._store, exhausted.subscription)
        records = self._store.records(exhausted.position)
        rows = zip(records, exhausted.attempt.tolist(), strict=True)
        return Fail(
            position=exhausted.position,
            term=exhausted.term,
            attempt=exhausted.attempt,
            code=np.fromiter(
                (_exhausted_by(settings, record, made, now_ms) or LEASE_ENDED for record, made in rows),
                np.uint16,
                count,
            ),
            fate=np.full(count, DEAD, np.uint8),
            due_ms=np.zeros(count, np.int64),
            random=self._entropy.id_bits(count),
        )


def settings_of(store: Store, subscription: Subscription) -> dict[str, Any]:
    """A subscription's present settings, which are those of its topic. Empty if the topic was deleted."""
    found = store.catalog.topic_by_number(topic_of(subscription))
    return found.settings if found is not None else {}


def _exhausted_by(settings: dict[str, Any], record: Record, made: int, now_ms: int) -> int:
    """The code that says why a message is not handed over again after `made` hand-overs. 0 if it may be."""
    policy = effective(settings, record.extension)
    if made - record.attempt >= policy.max_attempts or made >= HAND_OVERS_MAX:
        return LEASE_ENDED
    return MAX_AGE if too_old(policy, record.asked_due_ms, now_ms) else 0
