"""The answer to new messages: their ids, out of what the group says of each."""

from __future__ import annotations

from struct import Struct
from typing import Final

import numpy as np

from api.port.port import ScheduledOne, ScheduleResult
from node.port.message_port import Scheduled
from storage.format.message_id import encode_id, encode_ids
from storage.format.schedule_status import FAILED

_IDS: Final = Struct("<QQ")


def one(scheduled: Scheduled, group: int) -> ScheduledOne:
    """Of a request with a single message. Raises its refusal."""
    status = scheduled.status[0]
    if status == FAILED:
        raise scheduled.refused[0].problem()
    (position, random), due_ms = _IDS.unpack(scheduled.position + scheduled.random), scheduled.due_ms
    return ScheduledOne(encode_id(group, position, random), int.from_bytes(due_ms, "little"), status)


def many(scheduled: Scheduled, group: int) -> ScheduleResult:
    """Of a batch."""
    position, random = (np.frombuffer(column, np.uint64) for column in (scheduled.position, scheduled.random))
    return ScheduleResult(
        encode_ids(group, position, random),
        np.frombuffer(scheduled.due_ms, np.int64),
        np.frombuffer(scheduled.status, np.uint8),
        {row: refusal.problem() for row, refusal in scheduled.refused.items()},
    )
