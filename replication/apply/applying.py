"""The data that a command gets when it is applied: its entry, the store that it changes, and the notifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from replication.apply.apply_notifier import ApplyNotifier
from replication.command.entry import Envelope
from storage.format.array import U64
from storage.format.position import MS_PER_TICK
from storage.store import Store


@dataclass(slots=True)
class Dispatched:
    """The replicated dispatch state: all units before (tick, local_index) are dispatched. Only Realign moves it back.

    `applied_index` is the newest entry that the leader had applied when it sent this state. `now_ms` is the latest time
    in any entry so far.
    """

    tick: int
    local_index: int
    applied_index: int
    now_ms: int

    @property
    def floor_ms(self) -> int:
        """The first millisecond of the second `tick`. Apply gives no unit an earlier due time."""
        return self.tick * MS_PER_TICK


@dataclass(frozen=True, slots=True)
class Applying:
    """The entry at `index` of the log, of the Raft term `term`, while its commands are applied to `store`.

    `envelope` has the fields that its commands share. `told` passes the changes on. `changed_keys` has the homes of the
    messages to which Supersedes of this entry have given a key, or whose due time they have changed.
    """

    store: Store
    dispatched: Dispatched
    told: ApplyNotifier
    envelope: Envelope
    index: int
    term: int
    changed_keys: list[U64] = field(default_factory=list)
