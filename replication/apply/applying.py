"""An entry on its way into the store, with all that its commands change and the parts that they notify."""

from __future__ import annotations

from dataclasses import dataclass

from replication.apply.apply_notifier import ApplyNotifier
from replication.command.entry import Envelope
from storage.format.position import MS_PER_TICK
from storage.store import Store


@dataclass(slots=True)
class Dispatched:
    """The replicated dispatch state: all before (tick, local_index) is dispatched. Only Realign moves it back.

    `applied_index`: what its leader had applied. `now_ms`: the newest stamp.
    """

    tick: int
    local_index: int
    applied_index: int
    now_ms: int

    @property
    def floor_ms(self) -> int:
        """The begin of its slot: no unit goes before it."""
        return self.tick * MS_PER_TICK


@dataclass(frozen=True, slots=True)
class Applying:
    """The entry at `index`, of the Raft term `term`, on its way into the store."""

    store: Store
    dispatched: Dispatched
    told: ApplyNotifier
    envelope: Envelope
    index: int
    term: int
