"""Applies Release, which takes back a lease whose hand-over never began.

In strict mode a Lease is committed before the hand-over. So the hand-over may never come. Then the message was
cancelled or moved meanwhile, or leadership was given away, or the consumer has closed its connection. The leader that
leased the unit knows that no consumer got it. A new leader knows the same of pushes that were planned for a time still
ahead.

After a Release the unit is pending again. A lease that was taken back counts as no attempt, so the next hand-over gets
the same number. No receipt with that number exists, because none was sent to a consumer or receiver.
"""

from __future__ import annotations

import numpy as np

from replication.apply.applying import Applying
from replication.apply.message.attempt_order import fence, first_of_each
from replication.command.handover import Release
from storage.format.array import U8
from storage.format.batches import SettleBatch
from storage.format.rows import PLANNED_BEFORE
from storage.format.states import LEASED, RELEASED


def apply_release(applying: Applying, command: Release) -> U8:
    """Take leases back. The result of a row is 1 where it took a lease back, else 0.

    A row takes effect only on a leased unit whose newest lease has the (term, attempt) of the row.
    """
    store, envelope = applying.store, applying.envelope
    states = store.states(command.position)
    named = fence(command.term, command.attempt) == fence(states.term, states.attempt)
    rows = ((states.state == LEASED) & named).nonzero()[0]
    rows = rows[first_of_each(command.position[rows])]
    result = np.zeros(len(command.position), np.uint8)
    result[rows] = 1
    if len(rows):
        position = command.position[rows]
        before = store.before_newest(position)
        store.settle(
            SettleBatch.of(
                position,
                what=RELEASED,
                at_ms=envelope.now_ms,
                term=before["term"],
                attempt=before["attempt"],
                node=envelope.node,
                code=store.newest(position)["code"] & np.uint16(PLANNED_BEFORE),
                subscription=command.subscription,
            )
        )
    if applying.told.listener is not None:
        applying.told.released(command.position[result.view(np.bool_)])
    return result
