"""The replicated machine: applies entries to the store, the same on every node.

`apply` is a function of (what was applied before, index, term, entry) alone: it reads no clock and draws nothing, so
all nodes build identical files. What it returns goes to whoever proposed the entry; what it tells the listener lets the
leader's dispatcher follow along.

Order within an entry: Genesis, ChangeMember, RaiseLevel, Realign, DispatchState, Promotion, Lease, Settle, Fail,
Extend, Release, Cancel, Reschedule, Redrive, PutTopic, DropTopic, Schedule, Unlink, OverdueCutoff. The state takes
effect before the units it clamps, moved ones too; Leases of earlier hand-overs before a Cancel that must see them;
what receivers said before what clients wish.

Invariants: `tick` never goes back but by Realign; `applied_index` grows by what Raft says; an entry is read whole
before anything of it is applied, so a broken one changes nothing and gives the same refusal on every node.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from replication.apply.member import MemberChanged, apply_change, found_members
from replication.apply.message.fail import apply_fail
from replication.apply.message.move import Moves, Rescheduled, apply_redrive, apply_reschedule
from replication.apply.message.release import apply_release
from replication.apply.message.schedule import Fresh, Scheduled, apply_schedule
from replication.apply.message.settle import Cancelled, apply_cancel, apply_extend, apply_lease, apply_settle
from replication.apply.overdue import apply_overdue_cutoff
from replication.apply.topic import DROPPED, TopicPut, apply_drop_topic, apply_put_topic
from replication.command.column import DUE_MS_MAX
from replication.command.dispatch import DispatchState, Realign
from replication.command.entry import EntryRefused, Envelope, decode_entry
from replication.command.genesis import Genesis
from replication.command.handover import Extend, Fail, Lease, Release, Settle
from replication.command.level import RaiseLevel, apply_raise_level
from replication.command.member import ChangeMember
from replication.command.message import Cancel, Redrive, Reschedule
from replication.command.overdue import OverdueCutoff
from replication.command.promotion import Promotion, apply_promotion
from replication.command.registry import UNPACK, Command
from replication.command.schedule import Schedule
from replication.command.topic import DropTopic, PutTopic
from replication.command.unlink import Unlink
from replication.raft.state_hashes import StateHashes
from storage.catalog.checkpoint_record import NOTHING, CheckpointRecord
from storage.catalog.genesis import Genesis as GenesisRow
from storage.catalog.level import FOUNDED, has, hash_version
from storage.format.array import I64, U8, U16, U32, U64
from storage.format.position import INDEX_MAX, MS_PER_TICK
from storage.store import Store

__all__ = ["Applied", "Cancelled", "Listener", "Machine", "Rescheduled", "Scheduled", "TopicPut"]


class Listener(Protocol):
    """The leader's dispatcher, told of what was applied, in order."""

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """New units, clamped as stored."""

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Hand-overs whose Lease took effect."""

    def on_released(self, position: U64) -> None:
        """Units whose lease was taken back: pending again."""

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Messages went from the places `old` to `position`. Before `on_settled` of the old places (those that were
        open there) and before `on_units`, which tells of the new ones as of all units."""

    def on_settled(self, position: U64) -> None:
        """Units that ended, by place: delivered, cancelled, dead or moved away."""

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """A topic was created or its settings changed; one that was dropped has none left."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What an entry did: one result per section, in the entry's order; or why it was refused as a whole."""

    index: int
    term: int
    results: tuple[Any, ...]
    refused: str | None = None


class Machine:
    """Applies entries to `store`. One per group; driven by the Raft group alone."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.listener: Listener | None = None
        self.on_founded: Callable[[bytes], None] | None = None
        self.on_members: Callable[[], None] | None = None
        self.on_level: Callable[[], None] | None = None
        record = store.catalog.record or NOTHING
        self.applied_index = record.applied_index
        self.applied_term = record.applied_term
        self.tick = record.tick
        self.local_index = record.local_index
        self.state_applied_index = record.state_applied_index
        self.now_ms = record.max_now_ms
        self.rolling_hash = record.rolling_hash
        self.sums = StateHashes()
        if store.catalog.record:
            self.sums.note(self.applied_index, self.rolling_hash, record.hash_version)

    @property
    def level(self) -> int:
        """The newest version of entries that every member reads: by it apply decides what it writes."""
        return self.store.level

    def apply(self, index: int, term: int, entry: bytes) -> Applied:
        """Apply the entry at `index`. Raises `UnknownCommand` (this node must stop) for a command it cannot read, and
        whatever the disk raises; a malformed entry is refused in the result, on every node alike."""
        assert index > self.applied_index, (index, self.applied_index)
        self.store.catalog.written.take()  # what was written before is not of this entry
        try:
            envelope = decode_entry(entry)
            if envelope.group != self.store.group:
                raise EntryRefused(f"an entry of group {envelope.group} in the log of group {self.store.group}")
            if envelope.now_ms > DUE_MS_MAX:
                raise EntryRefused(f"stamp of {envelope.now_ms} ms; at most {DUE_MS_MAX}")
            commands = [UNPACK[section.kind](section) for section in envelope.sections]
            self._check_version(envelope, commands)
        except EntryRefused as refused:
            self._advance(index, term, entry)
            return Applied(index, term, (), str(refused))
        self.now_ms = max(self.now_ms, envelope.now_ms)
        if has(self.level, "lazy-keys"):
            self.store.catalog.drop_dead_keys()
        results = tuple(self._apply_one(command, envelope, index, term) for command in commands)
        self._advance(index, term, entry)
        return Applied(index, term, results)

    def _check_version(self, envelope: Envelope, commands: Sequence[Command]) -> None:
        """No entry is of a version above the level, but the one that raises it."""
        raised = [command.level for command in commands if isinstance(command, RaiseLevel)]
        if envelope.version > max(self.level, *raised, FOUNDED):
            raise EntryRefused(f"an entry of version {envelope.version} at level {self.level}")
        if raised and raised != [envelope.version]:
            raise EntryRefused(f"an entry of version {envelope.version} that raises the level to {raised}")

    def _advance(self, index: int, term: int, entry: bytes) -> None:
        """Extend the rolling hash over what was applied, what that wrote and where it left the dispatch state."""
        state = f"{self.tick} {self.local_index} {self.state_applied_index} {self.now_ms} {self.store.unit_count}"
        if has(self.level, "hash-version"):
            state += f" {self.level}"
        if has(self.level, "doubt"):
            state += f" {self.store.doubt.mark()}"
        mark = f"{index} {term} {zlib.crc32(entry)} {self.store.catalog.written.take()} {state}"
        self.rolling_hash = hashlib.blake2b(self.rolling_hash + mark.encode(), digest_size=16).digest()
        self.sums.note(index, self.rolling_hash, hash_version(self.level))
        self.applied_index, self.applied_term = index, term
        self.store.applied_index, self.store.applied_term = index, term

    def _apply_one(self, command: Command, envelope: Envelope, index: int, term: int) -> Any:
        match command:
            case Schedule():
                return self._schedule(command, envelope, index)
            case Settle():
                result, settled = apply_settle(self.store, command, envelope)
                self._tell_settled(settled)
                return result
            case Fail():
                return self._fail(command, envelope, index)
            case Extend():
                extended = apply_extend(self.store, command, envelope)
                if self.listener is not None:
                    self.listener.on_leased(extended.position, extended.attempt, extended.lease_end_ms)
                return extended.result
            case Cancel():
                cancelled, settled = apply_cancel(self.store, command, envelope)
                self._tell_settled(settled)
                return cancelled
            case Reschedule():
                rescheduled, moves = apply_reschedule(self.store, command, envelope, floor_ms=self._floor_ms)
                self._tell_moves(moves, index)
                return rescheduled
            case Redrive():
                redriven, moves = apply_redrive(self.store, command, envelope, floor_ms=self._floor_ms)
                self._tell_moves(moves, index)
                return redriven
            case PutTopic():
                return self._put_topic(command, envelope)
            case DropTopic():
                return self._drop_topic(command, index)
            case Genesis():
                return self._genesis(command, envelope, index)
            case ChangeMember():
                return self._change_member(command, index)
            case RaiseLevel():
                return self._raise_level(command)
            case Unlink():
                return self._unlink(command, envelope)
            case OverdueCutoff():
                return apply_overdue_cutoff(self.store.catalog, command)
        # What is left the dispatcher decided: void when the entry belongs to another term than the decision.
        if envelope.term != term:
            return None
        if isinstance(command, Release):
            return self._release(command, envelope)
        if isinstance(command, Promotion):
            return apply_promotion(self.store, command, term)
        return self._lease(command, envelope) if isinstance(command, Lease) else self._dispatch(command)

    @property
    def _floor_ms(self) -> int:
        """Where the dispatch state's slot begins: no unit goes before it."""
        return self.tick * MS_PER_TICK

    def _change_member(self, command: ChangeMember, index: int) -> MemberChanged:
        changed = apply_change(self.store.catalog.members, command, index)
        if changed.member is not None and self.on_members is not None:
            self.on_members()
        return changed

    def _raise_level(self, command: RaiseLevel) -> bool:
        raised = apply_raise_level(self.store, command)
        if raised and self.on_level is not None:
            self.on_level()
        return raised

    def _genesis(self, command: Genesis, envelope: Envelope, index: int) -> None:
        if self.store.cluster_id is not None:
            return
        self.store.found(command.cluster_id)
        self.store.catalog.found(
            GenesisRow(
                cluster_id=command.cluster_id,
                secret=command.secret,
                nodes=command.nodes,
                formats={"entry": FOUNDED},
                created_ms=envelope.now_ms,
                retention_ms=command.retention_ms,
                key_retention_ms=command.key_retention_ms,
            )
        )
        found_members(self.store.catalog.members, command, index)
        if self.on_founded is not None:
            self.on_founded(command.cluster_id)
        if self.on_members is not None:
            self.on_members()

    def _dispatch(self, command: DispatchState | Realign) -> None:
        if isinstance(command, Realign):
            self.tick, self.local_index, self.state_applied_index = command.tick, 0, command.applied_index
            self.now_ms = command.now_ms
        elif (command.tick, command.local_index) >= (self.tick, self.local_index):
            self.tick, self.local_index = command.tick, command.local_index
            self.state_applied_index = command.applied_index

    def _schedule(self, command: Schedule, envelope: Envelope, index: int) -> Scheduled:
        scheduled = apply_schedule(self.store, command, envelope, floor_ms=self._floor_ms)
        self._tell_topics(scheduled.created_topics)
        self._tell_units(scheduled.fresh, index)
        return scheduled

    def _fail(self, command: Fail, envelope: Envelope, index: int) -> U8:
        failed = apply_fail(self.store, command, envelope, floor_ms=self._floor_ms)
        for place in failed.dead:
            self._tell_settled(place)
        self._tell_moves(failed.moves, index)
        for copies in failed.copies:
            self._tell_topics(copies.created_topics)
            self._tell_units(copies.fresh, index)
        return failed.result

    def _lease(self, command: Lease, envelope: Envelope) -> U8:
        took_effect = apply_lease(self.store, command, envelope)
        if self.listener is not None:
            held = took_effect.view(bool)
            self.listener.on_leased(command.position[held], command.attempt[held], command.lease_end_ms[held])
        return took_effect

    def _release(self, command: Release, envelope: Envelope) -> U8:
        released = apply_release(self.store, command, envelope)
        if self.listener is not None and released.any():
            self.listener.on_released(command.position[released.view(bool)])
        return released

    def _put_topic(self, command: PutTopic, envelope: Envelope) -> TopicPut:
        put = apply_put_topic(self.store, command, envelope)
        if put.changed and put.topic is not None:
            self._tell_topics([put.topic.number])
        return put

    def _drop_topic(self, command: DropTopic, index: int) -> int:
        result, topic = apply_drop_topic(self.store, command, index)
        if result == DROPPED and topic is not None and self.listener is not None:
            self.listener.on_topic(topic.number, {})
        return result

    def _unlink(self, command: Unlink, envelope: Envelope) -> int:
        """Unlink those hours that are over: passed by the tick, everything settled, the last settle past retention."""
        genesis = self.store.catalog.genesis
        assert genesis is not None
        retention_ms = max(genesis.retention_ms, genesis.key_retention_ms)
        unlinked = 0
        for hour in command.hour.tolist():
            over = self.tick >= (hour + 1) * 3600 and self.store.unsettled(hour) == 0
            if over and self.store.settled_ms(hour) + retention_ms < envelope.now_ms:
                self._drop_keys(hour)
                self.store.unlink(hour)
                unlinked += 1
        return unlinked

    def _drop_keys(self, hour: int) -> None:
        """The hour is about to be unlinked: its keys go. They may be a million: from level 2 on by and by."""
        if not has(self.level, "lazy-keys"):
            self.store.catalog.drop_hour_keys(hour)
            return
        first, end = self.store.span(hour)
        if first < end:  # else it is unlinked already, and perhaps not all of its keys are dropped yet
            self.store.catalog.forget_hour_keys(hour, end & INDEX_MAX)

    # what the listener is told

    def _tell_units(self, fresh: Fresh, index: int) -> None:
        if self.listener is not None and len(fresh.position):
            self.listener.on_units(fresh.due_ms, fresh.position, fresh.topic, fresh.tags, fresh.priority, index)

    def _tell_settled(self, place: U64) -> None:
        if self.listener is not None and len(place):
            self.listener.on_settled(place)

    def _tell_moves(self, moves: Sequence[Moves], index: int) -> None:
        if self.listener is None:
            return
        for moved in moves:
            self.listener.on_moved(moved.home, moved.old, moved.fresh.position)
            self._tell_settled(moved.old)
            self._tell_units(moved.fresh, index)

    def _tell_topics(self, numbers: Iterable[int]) -> None:
        if self.listener is None:
            return
        for number in numbers:
            topic = self.store.catalog.topic_by_number(number)
            assert topic is not None
            self.listener.on_topic(number, topic.settings)

    def checkpoint_record(self) -> CheckpointRecord:
        """What the next checkpoint says of the machine; the store fills in the files' lengths."""
        return CheckpointRecord(
            applied_index=self.applied_index,
            applied_term=self.applied_term,
            tick=self.tick,
            local_index=self.local_index,
            state_applied_index=self.state_applied_index,
            max_now_ms=self.now_ms,
            rolling_hash=self.rolling_hash,
            level=self.level,
            hash_version=hash_version(self.level),
            doubt=self.store.doubt,
        )
