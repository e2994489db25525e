"""Makes the answer to new messages: their ids, from the positions and random bits that the group assigned."""

from __future__ import annotations

from typing import Final

import numpy as np

from api.port.port import ScheduledOne, ScheduleResult, Superseded
from node.port.message_port import Scheduled, ScheduledRow
from node.port.message_port import Superseded as Row
from storage.format.message_id import encode_id, encode_ids

_PRIORS: Final = ("none", "known", "unknown")


def one(scheduled: ScheduledRow, group: int) -> ScheduledOne:
    """Return the answer to a request with a single message."""
    id = encode_id(group, scheduled.position, scheduled.random)
    if scheduled.before is None:
        return ScheduledOne(id, scheduled.due_ms, scheduled.status)
    return ScheduledOne(id, scheduled.due_ms, scheduled.status, _superseded(scheduled.before, group))


def many(scheduled: Scheduled, group: int) -> ScheduleResult:
    """Return the answer to a batch."""
    position, random = (np.frombuffer(column, np.uint64) for column in (scheduled.position, scheduled.random))
    return ScheduleResult(
        encode_ids(group, position, random),
        np.frombuffer(scheduled.due_ms, np.int64),
        np.frombuffer(scheduled.status, np.uint8),
        {row: refusal.problem() for row, refusal in scheduled.refused.items()},
        {row: _superseded(before, group) for row, before in scheduled.before.items()},
    )


def _superseded(before: Row, group: int) -> Superseded:
    id = encode_id(group, before.position, before.random)
    return Superseded(id, before.attempts, _PRIORS[before.prior], before.revision)
