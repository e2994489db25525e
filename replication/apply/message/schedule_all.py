"""Applies ScheduleAll, which writes all of its messages or none.

    judge    does a row conflict with the holder of its key, or may it not change that holder?
    write    if no row is at fault: what Schedule and Supersede do, of the rows of each kind

All rows have different keys. So what one row does is nothing that another is judged by.
"""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.apply.message.message_location import FREE
from replication.apply.message.schedule import Scheduled, apply_schedule, conflicts, name_holders
from replication.apply.message.supersede import Superseded, apply_supersede, judge, unanswered
from replication.command.column import Rows
from replication.command.supersede import ScheduleAll
from storage.format.schedule_status import CONFLICT


def apply_schedule_all(applying: Applying, command: ScheduleAll) -> Superseded:
    """Write all rows, or none if one of them is at fault.

    In an answer of none, `status` is CONFLICT or FAILED for each row. A row that is not at fault is FAILED, with FREE
    in `why`.
    """
    plain_rows, plain = command.plain()
    changing = command.changing()
    answer = unanswered(len(command.messages.topic), FREE)
    conflicting = conflicts(applying, plain)
    faults = None if changing is None else judge(applying, changing[1])
    if changing is not None and faults is not None:
        _put(answer, changing[0], faults)
    if conflicting or (answer.why != FREE).any():
        if conflicting:
            named = {int(plain_rows[row]): holder for row, holder in conflicting.items()}
            answer.status[[*named]] = CONFLICT
            name_holders(applying.store, named, answer.status, answer.position, answer.random, answer.due_ms)
        return answer
    if len(plain_rows):
        _put(answer, plain_rows, apply_schedule(applying, plain))
    if changing is not None:
        _put(answer, changing[0], apply_supersede(applying, changing[1]))
    return answer


def _put(answer: Superseded, rows: Rows, part: Superseded | Scheduled) -> None:
    for name, values in part._asdict().items():
        getattr(answer, name)[rows] = values
