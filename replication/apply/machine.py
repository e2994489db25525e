"""The state machine: applies entries to the store, with the same result on every node.

`apply` depends on nothing but (what was applied before, index, term, entry). It reads no clock and draws no random
number, so all nodes build identical files. Its result goes to the proposer of the entry. The leader's dispatcher learns
of the changes from apply_notifier.py. registry.py lists the commands and their order in an entry.

Invariants:

- The dispatch state never goes back except by Realign.
- `applied_index` grows with each entry. Indexes of Raft's own entries, which hold no command, are left out.
- An entry is read whole before any of it is applied. So a broken entry changes nothing and gives the same refusal on
  every node.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from replication.apply.apply_notifier import ApplyNotifier, Changes
from replication.apply.applying import Applying, Dispatched
from replication.apply.once import carried_out, keyed_requests
from replication.apply.registry import COMMANDS, CommandRow
from replication.command.column import DUE_MS_MAX
from replication.command.entry import EntryRefused, Envelope, UnknownCommand, decode_entry
from replication.command.level import RaiseLevel
from replication.command.once import KeyedRequest
from replication.raft.state_hashes import StateHashes
from storage.catalog.checkpoint_record import NOTHING, CheckpointRecord
from storage.format.level import FOUNDED, has, hash_version
from storage.store import Store
from storage.tables.idempotency import KeptAnswer


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of an entry: one result per section, in the entry's order. `refused` says why the whole entry was
    refused.
    """

    index: int
    term: int
    results: tuple[Any, ...]
    refused: str | None = None


class Machine:
    """The state machine of one group: applies entries to `store`. Only the Raft group calls `apply`. `told` passes the
    changes on to this node's other parts.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.told = ApplyNotifier(store)
        record = store.catalog.record or NOTHING
        self.applied_index = record.applied_index
        self.applied_term = record.applied_term
        self.dispatched = Dispatched(record.tick, record.local_index, record.state_applied_index, record.max_now_ms)
        self.rolling_hash = record.rolling_hash
        self.sums = StateHashes()
        if store.catalog.record:
            self.sums.note(self.applied_index, self.rolling_hash, record.hash_version)

    @property
    def level(self) -> int:
        """The level of the cluster. It decides which formats apply writes."""
        return self.store.level

    @property
    def tick(self) -> int:
        """The tick of the dispatch state: all seconds before this one are dispatched."""
        return self.dispatched.tick

    @property
    def local_index(self) -> int:
        """The local index of the dispatch state: how many units of the second `tick` are dispatched."""
        return self.dispatched.local_index

    def apply(self, index: int, term: int, entry: bytes) -> Applied:
        """Apply the entry at `index`.

        Raises `UnknownCommand` (this node must stop) for a command it cannot read, and any error of the disk. A
        malformed entry is refused in the result, on every node alike.
        """
        assert index > self.applied_index, (index, self.applied_index)
        self.store.catalog.written.take()  # earlier writes do not belong to this entry
        try:
            envelope = decode_entry(entry)
            commands = self._read(envelope)
            keyed = keyed_requests((command for _, command in commands), envelope.sections)
        except EntryRefused as refused:
            self._advance(index, term, entry)
            return Applied(index, term, (), str(refused))
        state = self.dispatched
        state.now_ms = max(state.now_ms, envelope.now_ms)
        if has(self.level, "lazy-keys"):
            self.store.catalog.drop_dead_keys()
        applying = Applying(self.store, state, self.told, envelope, index, term)
        if keyed:
            results = self._apply_once(commands, keyed, applying)
        else:
            results = tuple(self._apply_one(row, command, applying) for row, command in commands)
        self._advance(index, term, entry)
        if self.told.on_applied is not None:
            self.told.on_applied(_changes(applying, commands, results))
        return Applied(index, term, results)

    def _read(self, envelope: Envelope) -> list[tuple[CommandRow, Any]]:
        """The entry's commands, each with its row of the registry. Raises UnknownCommand, EntryRefused."""
        unknown = [section.kind for section in envelope.sections if section.kind not in COMMANDS]
        if unknown:
            raise UnknownCommand(f"command kind {unknown[0]} is unknown to this node")
        if envelope.group != self.store.group:
            raise EntryRefused(f"an entry of group {envelope.group} in the log of group {self.store.group}")
        if envelope.now_ms > DUE_MS_MAX:
            raise EntryRefused(f"stamp of {envelope.now_ms} ms; at most {DUE_MS_MAX}")
        rows = [COMMANDS[section.kind] for section in envelope.sections]
        commands = [(row, row.unpack(section)) for row, section in zip(rows, envelope.sections, strict=True)]
        self._check_version(envelope, commands)
        return commands

    def _check_version(self, envelope: Envelope, commands: Sequence[tuple[CommandRow, Any]]) -> None:
        """Refuse an entry whose version is above the level, unless the entry itself raises the level to that version.
        Refuse a command of a level that the cluster does not have yet.
        """
        raised = [command.level for _, command in commands if isinstance(command, RaiseLevel)]
        if envelope.version > max(self.level, *raised, FOUNDED):
            raise EntryRefused(f"an entry of version {envelope.version} at level {self.level}")
        if raised and raised != [envelope.version]:
            raise EntryRefused(f"an entry of version {envelope.version} that raises the level to {raised}")
        early = [row for row, _ in commands if row.since > self.level]  # a raise beside it may be void
        if early:
            raise EntryRefused(f"{early[0].name} at level {self.level}: there is none before level {early[0].since}")

    def _apply_one(self, row: CommandRow, command: Any, applying: Applying) -> Any:
        """Apply a command and return its proposer's answer.

        A command with `term_bound` has no effect, and the answer None, if the entry was decided in another term than
        Raft says.
        """
        if row.term_bound and applying.envelope.term != applying.term:
            return None
        return row.apply(applying, command)

    def _apply_once(
        self, commands: Sequence[tuple[CommandRow, Any]], keyed: Mapping[int, KeyedRequest], applying: Applying
    ) -> tuple[Any, ...]:
        """Apply commands of which some are keyed requests. The result of one that is void is its KeptAnswer."""
        results: list[Any] = []
        for number, (row, command) in enumerate(commands):
            apply = partial(self._apply_one, row, command, applying)
            request = keyed.get(number)
            results.append(apply() if request is None else carried_out(applying, request, number, row.number, apply))
        return tuple(results)

    def _advance(self, index: int, term: int, entry: bytes) -> None:
        """Extend the rolling hash over the entry, what it wrote, and the dispatch state after it. Note the entry as
        applied.
        """
        at = self.dispatched
        state = f"{at.tick} {at.local_index} {at.applied_index} {at.now_ms} {self.store.unit_count}"
        if has(self.level, "hash-version"):
            state += f" {self.level}"
        if has(self.level, "doubt"):
            state += f" {self.store.doubt.mark()}"
        mark = f"{index} {term} {zlib.crc32(entry)} {self.store.catalog.written.take()} {state}"
        self.rolling_hash = hashlib.blake2b(self.rolling_hash + mark.encode(), digest_size=16).digest()
        self.sums.note(index, self.rolling_hash, hash_version(self.level))
        self.applied_index, self.applied_term = index, term
        self.store.applied_index, self.store.applied_term = index, term

    def checkpoint_record(self) -> CheckpointRecord:
        """The fields of the next checkpoint that the state machine knows. The store adds the files' lengths."""
        return CheckpointRecord(
            applied_index=self.applied_index,
            applied_term=self.applied_term,
            tick=self.dispatched.tick,
            local_index=self.dispatched.local_index,
            state_applied_index=self.dispatched.applied_index,
            max_now_ms=self.dispatched.now_ms,
            rolling_hash=self.rolling_hash,
            level=self.level,
            hash_version=hash_version(self.level),
            doubt=self.store.doubt,
        )


def _changes(applying: Applying, commands: Sequence[tuple[CommandRow, Any]], results: Sequence[Any]) -> Changes:
    """The commands of an entry with their results. Those that were void have none."""
    return Changes(
        applying.index,
        applying.term,
        applying.envelope.now_ms,
        tuple(command for _, command in commands),
        tuple(None if type(result) is KeptAnswer else result for result in results),
    )
