"""The replicated commands: what a leader proposes and every node applies, as columns.

Each command has `pack() -> (kind, rows, payload pieces)` and `unpack(section)`. A command carries every input of its
apply, random bits and absolute times included; nothing here or in the machine reads a clock or draws a number.
"""

from __future__ import annotations

from collections.abc import Callable

from replication.command.dispatch import DispatchState, Realign
from replication.command.entry import Kind, Section
from replication.command.genesis import Genesis
from replication.command.handover import Extend, Fail, Lease, Release, Settle
from replication.command.level import RaiseLevel
from replication.command.member import ChangeMember
from replication.command.message import Cancel, Redrive, Reschedule
from replication.command.overdue import OverdueCutoff
from replication.command.promotion import Promotion
from replication.command.schedule import Schedule
from replication.command.topic import DropTopic, PutTopic
from replication.command.unlink import Unlink

Command = (
    Genesis
    | ChangeMember
    | RaiseLevel
    | DispatchState
    | Realign
    | Promotion
    | Lease
    | Settle
    | Fail
    | Extend
    | Release
    | Cancel
    | Reschedule
    | Redrive
    | PutTopic
    | DropTopic
    | Schedule
    | Unlink
    | OverdueCutoff
)

UNPACK: dict[Kind, Callable[[Section], Command]] = {
    Kind.GENESIS: Genesis.unpack,
    Kind.CHANGE_MEMBER: ChangeMember.unpack,
    Kind.RAISE_LEVEL: RaiseLevel.unpack,
    Kind.REALIGN: Realign.unpack,
    Kind.DISPATCH_STATE: DispatchState.unpack,
    Kind.PROMOTION: Promotion.unpack,
    Kind.LEASE: Lease.unpack,
    Kind.SETTLE: Settle.unpack,
    Kind.FAIL: Fail.unpack,
    Kind.EXTEND: Extend.unpack,
    Kind.RELEASE: Release.unpack,
    Kind.CANCEL: Cancel.unpack,
    Kind.RESCHEDULE: Reschedule.unpack,
    Kind.REDRIVE: Redrive.unpack,
    Kind.PUT_TOPIC: PutTopic.unpack,
    Kind.DROP_TOPIC: DropTopic.unpack,
    Kind.SCHEDULE: Schedule.unpack,
    Kind.UNLINK: Unlink.unpack,
    Kind.OVERDUE_CUTOFF: OverdueCutoff.unpack,
}
