"""Makes the answer to new messages: their ids, from the positions and random bits that the group assigned."""

from __future__ import annotations

import numpy as np

from api.port.port import ScheduledOne, ScheduleResult
from node.port.message_port import Scheduled, ScheduledRow
from storage.format.message_id import encode_id, encode_ids


def one(scheduled: ScheduledRow, group: int) -> ScheduledOne:
    """Return the answer to a request with a single message."""
    id = encode_id(group, scheduled.position, scheduled.random)
    return ScheduledOne(id, scheduled.due_ms, scheduled.status)


def many(scheduled: Scheduled, group: int) -> ScheduleResult:
    """Return the answer to a batch."""
    position, random = (np.frombuffer(column, np.uint64) for column in (scheduled.position, scheduled.random))
    return ScheduleResult(
        encode_ids(group, position, random),
        np.frombuffer(scheduled.due_ms, np.int64),
        np.frombuffer(scheduled.status, np.uint8),
        {row: refusal.problem() for row, refusal in scheduled.refused.items()},
    )
