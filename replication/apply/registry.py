"""The table of all commands of the log. A row says how a command is read and applied, and since which level. It also
says if a command that was decided in another term still has an effect.

An entry applies its commands in the order of their numbers:

- The dispatch state takes effect before new and moved units, whose due times it bounds.
- Leases of earlier hand-overs come before a Cancel, which has to see them.
- Reports of receivers come before requests of clients.

A command carries every input of its apply function, including random bits and absolute times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from replication.apply.applying import Applying
from replication.apply.dispatch import apply_dispatch_state, apply_realign
from replication.apply.genesis import apply_genesis
from replication.apply.level import apply_raise_level
from replication.apply.member import apply_change_member
from replication.apply.message.cancel import apply_cancel
from replication.apply.message.fail import apply_fail
from replication.apply.message.move import apply_redrive, apply_reschedule
from replication.apply.message.release import apply_release
from replication.apply.message.schedule import apply_schedule
from replication.apply.message.schedule_all import apply_schedule_all
from replication.apply.message.settle import apply_extend, apply_lease, apply_settle
from replication.apply.message.supersede import apply_supersede
from replication.apply.once import apply_once
from replication.apply.operation import apply_begin_operation, apply_change_operation
from replication.apply.operation_chunk import apply_operation_chunk
from replication.apply.overdue import apply_overdue_cutoff
from replication.apply.promotion import apply_promotion
from replication.apply.topic import apply_drop_topic, apply_put_topic
from replication.apply.unlink import apply_unlink
from replication.command.dispatch import DispatchState, Promotion, Realign
from replication.command.entry import Kind, Section
from replication.command.genesis import Genesis
from replication.command.handover import Extend, Fail, Lease, Release, Settle
from replication.command.level import RaiseLevel
from replication.command.member import ChangeMember
from replication.command.message import Cancel, Redrive, Reschedule
from replication.command.once import Once
from replication.command.operation import BeginOperation, ChangeOperation, OperationChunk
from replication.command.overdue import OverdueCutoff
from replication.command.schedule import Schedule
from replication.command.supersede import ScheduleAll, Supersede
from replication.command.topic import DropTopic, PutTopic
from replication.command.unlink import Unlink
from storage.format.level import FOUNDED, NEEDS
from storage.format.registry import BadRow, by_number_with_level

KIND_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A kind of command.

    - `number`: the kind of its section, never used again for another command.
    - `unpack`: makes the command of a section.
    - `apply`: applies the command and returns the answer for its proposer.
    - `since`: the level of the cluster from which on the command may stand in an entry.
    - `term_bound`: the command says what a dispatcher means to do. So it has no effect in an entry that a later leader
      committed for a former one.
    """

    number: int
    unpack: Callable[[Section], Any]
    apply: Callable[[Applying, Any], Any]
    since: int = FOUNDED
    term_bound: bool = False

    @property
    def name(self) -> str:
        """The name of its `apply` function, without `apply_`."""
        return str(getattr(self.apply, "__name__", self.apply)).removeprefix("apply_")


def registered(rows: Iterable[CommandRow]) -> dict[int, CommandRow]:
    """The rows by number. Raises BadRow for a row without functions, or with the `unpack` of another row."""
    found = by_number_with_level("command", rows, range(1, KIND_MAX + 1))
    readers: set[Callable[[Section], Any]] = set()
    for row in found.values():
        for what, function in (("reader", row.unpack), ("apply", row.apply)):
            if not callable(function):
                raise BadRow(f"command {row.name} has no {what}")
        if row.unpack in readers:
            raise BadRow(f"command {row.name} stands here twice: its reader is that of another")
        readers.add(row.unpack)
    return found


COMMANDS: Final = registered(
    [
        CommandRow(Kind.GENESIS, Genesis.unpack, apply_genesis),
        CommandRow(Kind.CHANGE_MEMBER, ChangeMember.unpack, apply_change_member),
        CommandRow(Kind.RAISE_LEVEL, RaiseLevel.unpack, apply_raise_level),
        CommandRow(Kind.ONCE, Once.unpack, apply_once, since=NEEDS["idempotency-key"]),
        CommandRow(Kind.REALIGN, Realign.unpack, apply_realign, term_bound=True),
        CommandRow(Kind.DISPATCH_STATE, DispatchState.unpack, apply_dispatch_state, term_bound=True),
        CommandRow(Kind.PROMOTION, Promotion.unpack, apply_promotion, term_bound=True),
        CommandRow(Kind.LEASE, Lease.unpack, apply_lease, term_bound=True),
        CommandRow(Kind.SETTLE, Settle.unpack, apply_settle),
        CommandRow(Kind.FAIL, Fail.unpack, apply_fail),
        CommandRow(Kind.EXTEND, Extend.unpack, apply_extend),
        CommandRow(Kind.RELEASE, Release.unpack, apply_release, term_bound=True),
        CommandRow(Kind.CANCEL, Cancel.unpack, apply_cancel),
        CommandRow(Kind.RESCHEDULE, Reschedule.unpack, apply_reschedule),
        CommandRow(Kind.REDRIVE, Redrive.unpack, apply_redrive),
        CommandRow(Kind.PUT_TOPIC, PutTopic.unpack, apply_put_topic),
        CommandRow(Kind.DROP_TOPIC, DropTopic.unpack, apply_drop_topic),
        CommandRow(Kind.SCHEDULE, Schedule.unpack, apply_schedule),
        CommandRow(Kind.SUPERSEDE, Supersede.unpack, apply_supersede, since=NEEDS["supersede"]),
        CommandRow(Kind.SCHEDULE_ALL, ScheduleAll.unpack, apply_schedule_all, since=NEEDS["atomic-batch"]),
        CommandRow(Kind.UNLINK, Unlink.unpack, apply_unlink),
        CommandRow(Kind.OVERDUE_CUTOFF, OverdueCutoff.unpack, apply_overdue_cutoff),
        CommandRow(Kind.BEGIN_OPERATION, BeginOperation.unpack, apply_begin_operation, since=NEEDS["operations"]),
        CommandRow(Kind.OPERATION_CHUNK, OperationChunk.unpack, apply_operation_chunk, since=NEEDS["operations"]),
        CommandRow(Kind.CHANGE_OPERATION, ChangeOperation.unpack, apply_change_operation, since=NEEDS["operations"]),
    ]
)
