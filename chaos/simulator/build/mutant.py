"""Planted mistakes that the simulator must find. A developer could make any of them tomorrow.

A mutant replaces attributes of the product's code while it is planted, in this process only. `make soak-mutants` shows
for each one how many seeds, from seed 1 on, it takes to find it. The tests run seeds that are known to find it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

import replication.apply.message.settle
import replication.apply.operation_chunk
import storage.checkpoint.states_due
import storage.state.files
import storage.tables.key
from node.cluster.levels import Levels
from node.leader.dispatcher import Dispatcher
from node.leader.leader_term import LeaderTerm
from node.message.atomic_batch import AtomicBatches
from node.operation.finder import Chunk, Finder
from node.port.draft import Draft, rows_of
from node.port.message_port import Scheduled
from node.upkeep.retention import Retention
from node.write.proposer import Proposer
from replication.apply.applying import Applying
from replication.apply.machine import Machine
from replication.apply.message import supersede
from replication.apply.message.message_location import FREE, SETTLED
from replication.apply.message.settle import apply_lease
from replication.apply.registry import CommandRow
from replication.command.column import Rows
from replication.command.entry import encode_entry
from replication.command.handover import Lease
from replication.command.supersede import Supersede
from replication.election.trust import Trust
from replication.group import RaftGroup
from replication.raft.outbox import Outbox
from replication.wire.door import Door
from storage.catalog.catalog import Catalog
from storage.checkpoint.job import CheckpointJob
from storage.file.sync_pace import SyncPace
from storage.format.array import I64
from storage.format.schedule_status import REPLACED
from storage.hour.stage_write import write_staged
from storage.tables.first_index import FirstIndexes
from storage.tables.idempotency import Idempotency
from storage.tables.operation_row import OperationRow
from storage.tables.registry import IDEMPOTENCY
from storage.wheel.second_wheel import SecondWheel

Patch = tuple[object, str, Any]
#: How many Leases of an old term come late, and how late: by then their consumers' leases have ended.
LATE_LEASES: Final = 20
LATE_S: Final = 2.5


def _acknowledge_before_sync() -> list[Patch]:
    """A follower says that it has an entry, or that it votes, before the entry or vote is on its disk."""

    def send(self: Outbox, peer: str, message: Any) -> None:
        self._send(peer, message)

    return [(Outbox, "send", send)]


def _trust_from_receipt() -> list[Patch]:
    """A leader counts its trust from the arrival of an echo, not from when it sent the echoed message."""
    counted = Trust.echoed

    def echoed(self: Trust, peer: str, stamp: float, owed_s: float, now: float) -> None:
        counted(self, peer, now, owed_s, now)

    return [(Trust, "echoed", echoed)]


def _trust_by_own_times() -> list[Patch]:
    """A leader counts its trust by its own times of [raft], not by the silence that each voter owes."""
    counted = Trust.echoed

    def echoed(self: Trust, peer: str, stamp: float, owed_s: float, now: float) -> None:
        counted(self, peer, stamp, self._silence_s, now)

    return [(Trust, "echoed", echoed)]


def _dispatch_state_off_by_one() -> list[Patch]:
    """The dispatch state names one unit more than was dispatched."""

    def state(self: SecondWheel) -> tuple[int, int]:
        tick, local_index = self._state
        return tick, local_index + 1

    return [(SecondWheel, "state", property(state))]


def _late_merge() -> list[Patch]:
    """Applied units reach the wheel 0.15 s late, as from a slow thread. The dispatch state counts them at once, as if
    they were in the wheel."""
    now = Dispatcher.on_units

    def on_units(
        self: LeaderTerm, due_ms: Any, position: Any, topic: Any, tags: Any, priority: Any, index: int
    ) -> None:
        dispatcher = self.dispatcher
        dispatcher._merged = index

        def merge() -> None:
            if not self.over:
                now(dispatcher, due_ms, position, topic, tags, priority, dispatcher._merged)
                self.poke()

        self._loop.call_later(0.15, merge)

    return [(LeaderTerm, "on_units", on_units)]


def _catalog_ahead() -> list[Patch]:
    """The catalog's transaction commits before the files that it names are synced."""

    def run(self: CheckpointJob) -> None:
        self.catalog.commit(self.hours.lengths)
        write_staged(self.hours.staged, self.hours.chunks, self._open_files, self.hours.heads)
        self._sync(self.hours.synced, SyncPace(self._disk))

    return [(CheckpointJob, "run", run)]


def _old_lease() -> list[Patch]:
    """The last Leases of a term are proposed late, by the next leader. Apply takes them, though they are of an old
    term."""
    collect, begin = LeaderTerm.collect, LeaderTerm.begin
    leases: deque[tuple[int, Lease]] = deque(maxlen=LATE_LEASES)  # each with the term that decided it

    def collected(self: LeaderTerm, now_ms: int, *, going: bool) -> Any:
        riding = collect(self, now_ms, going=going)
        if riding.lease is not None:
            leases.append((self.term, riding.lease))
        return riding

    def begun(self: LeaderTerm) -> None:
        begin(self)
        for former in [each for each in leases if each[0] < self.term]:
            self._loop.call_later(LATE_S, _propose_again, self._parts.group, self._parts.proposer, *former)

    def apply_one(self: Machine, row: CommandRow, command: Any, applying: Applying) -> Any:
        if isinstance(command, Lease) and applying.envelope.term != applying.term:
            return any_term(applying, command)
        return one(self, row, command, applying)

    one, any_term = Machine._apply_one, _without_fence(apply_lease)
    return [(LeaderTerm, "collect", collected), (LeaderTerm, "begin", begun), (Machine, "_apply_one", apply_one)]


def _propose_again(group: RaftGroup, proposer: Proposer, term: int, lease: Lease) -> None:
    now_ms = proposer._clock.now_ms()
    entry = encode_entry(group=group.number, term=term, node=proposer.node, now_ms=now_ms, sections=[lease.pack()])
    group.propose(entry, lambda outcome: None)


def _without_fence(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return `apply`, which is apply_lease, with a fence that takes each hand-over in the command for newer than the
    unit's newest."""

    def fence(term: Any, attempt: Any) -> Any:
        ours = np.ndim(term) == 0
        return np.ones(len(attempt), np.uint64) if ours else np.zeros(len(attempt), np.uint64)

    def any_term(applying: Applying, command: Lease) -> Any:
        with patched([(replication.apply.message.settle, "fence", fence)]):
            return apply(applying, command)

    return any_term


def _id_again() -> list[Patch]:
    """An hour that begins again after it was unlinked numbers its units from 0, so ids of the unlinked hour are given
    again."""
    return [(FirstIndexes, "of", lambda self, hour: 0)]


def _guest_is_heard() -> list[Patch]:
    """A node hears a peer without a cluster id as if it were a member."""
    return [(Door, "heard", lambda self, guest, message: message)]


def _place_is_taken() -> list[Patch]:
    """A peer with a member's name and the cluster id gets that member's place at once, even while the member is
    connected."""
    return [(Door, "_holder", lambda self, said, own: None)]


def _level_raised_early() -> list[Patch]:
    """The leader raises the level whatever formats the members read."""
    return [(Levels, "lagging", lambda self, level: None)]


def _away_is_forgotten() -> list[Patch]:
    """The leader raises the level while a member is away. That member may come back as an older build."""

    def lagging(self: Levels, level: int) -> str | None:
        reads = self.reads()
        return next((member for member, span in reads.items() if span is not None and span[1] < level), None)

    return [(Levels, "lagging", lagging)]


def _keys_at_once() -> list[Patch]:
    """All keys of an unlinked hour are dropped by one entry, not a few by each entry."""
    return [(storage.tables.key, "DROPPED_MAX", 1 << 40)]


def _look_at_all_hours() -> list[Patch]:
    """The search for hours that are over opens and uses each kept hour."""

    def steps(self: Retention) -> Iterator[list[int]]:
        store = self._machine.store
        for hour in store.hours():
            used = store._hours.use(hour) if (hour + 1) * 3600 <= self._machine.tick else None
            if used is not None and used.saved_settles:
                used.files.settle.read_rows(used.saved_settles - 1, 1)
        return found(self)

    found = Retention.steps
    return [(Retention, "steps", steps)]


def _states_of_the_whole_hour() -> list[Patch]:
    """No states files are written or read. A look at one message of an old hour reads the states of all its
    messages."""
    return [(module, "TAIL_MIN", 1 << 40) for module in (storage.state.files, storage.checkpoint.states_due)]


def _one_of_a_chunk_is_left_out() -> list[Patch]:
    """An operation forgets the first message of each chunk."""
    give_out = Finder.give_out

    def all_but_one(self: Finder, count: int) -> Chunk:
        chunk = give_out(self, count)
        return chunk._replace(places=chunk.places[1:])

    return [(Finder, "give_out", all_but_one)]


def _moved_too_far() -> list[Patch]:
    """A shift or a release moves half of its messages by 2.5 s too much."""
    due_ms = replication.apply.operation_chunk._due_ms

    def further(row: OperationRow, was_ms: I64, now_ms: int) -> I64:
        found: I64 = due_ms(row, was_ms, now_ms) + np.where(was_ms % 2 == 0, 2_500, 0)
        return found

    return [(replication.apply.operation_chunk, "_due_ms", further)]


def _created_beside_the_holder() -> list[Patch]:
    """A message that replaces or extends does not see a holder of an even position: it is created beside it."""
    found = supersede._holders

    def half_blind(*args: Any) -> Any:
        holders = found(*args)
        holders.verdict[(holders.verdict == FREE) & (holders.home % 2 == 0)] = SETTLED
        return holders

    return [(supersede, "_holders", half_blind)]


def _replaced_and_left() -> list[Patch]:
    """A holder that was replaced is not cancelled."""

    def left(
        applying: Applying, command: Supersede, rows: Rows, holders: Any, at: Rows, answer: supersede.Superseded
    ) -> None:
        answer.status[rows[at]] = REPLACED

    return [(supersede, "_cancel", left)]


def _batch_in_two_entries() -> list[Patch]:
    """An atomic batch is proposed in two halves, one after the other."""
    whole = AtomicBatches.write

    async def halves(self: AtomicBatches, draft: Draft) -> Scheduled:
        half = len(draft) // 2
        parts = [rows_of(draft, range(half)), rows_of(draft, range(half, len(draft)))]
        first, second = [await whole(self, part) for part in parts]
        columns = [getattr(first, name) + getattr(second, name) for name in ("position", "random", "due_ms", "status")]
        return Scheduled(*columns)

    return [(AtomicBatches, "write", halves)]


def _answer_one_entry_late() -> list[Patch]:
    """The answer to a request under a key is kept by the leader's next entry, not by that of its effect. If the leader
    dies in between, nobody keeps it."""
    put, apply = Idempotency.put, Machine.apply
    late: WeakKeyDictionary[Idempotency, list[Any]] = WeakKeyDictionary()

    def later(self: Idempotency, *answer: Any) -> None:
        late.setdefault(self, []).append(answer)

    def applied(self: Machine, index: int, term: int, entry: bytes) -> Any:
        answers, before = self.store.catalog.of(IDEMPOTENCY), self.applied_term
        kept, late[answers] = late.get(answers, []), []
        done = apply(self, index, term, entry)
        for answer in kept if before == term else ():
            put(answers, *answer)
        return done

    return [(Idempotency, "put", later), (Machine, "apply", applied)]


def _restore_is_forgotten() -> list[Patch]:
    """The catalog of a restored cluster does not record that the cluster was made from a backup."""
    return [(Catalog, "set_restored", lambda self, restored: None)]


#: The name of each mistake -> the call that makes its patches.
MUTANTS: Final[dict[str, Callable[[], list[Patch]]]] = {
    "acknowledge-before-sync": _acknowledge_before_sync,
    "trust-from-receipt": _trust_from_receipt,
    "trust-by-own-times": _trust_by_own_times,
    "dispatch-state-off-by-one": _dispatch_state_off_by_one,
    "late-merge": _late_merge,
    "catalog-ahead-of-checkpoint": _catalog_ahead,
    "lease-of-an-old-term": _old_lease,
    "id-again-after-unlinking": _id_again,
    "guest-is-heard": _guest_is_heard,
    "place-is-taken": _place_is_taken,
    "level-raised-early": _level_raised_early,
    "level-raised-past-who-is-away": _away_is_forgotten,
    "keys-dropped-at-once": _keys_at_once,
    "look-at-all-hours": _look_at_all_hours,
    "states-of-the-whole-hour": _states_of_the_whole_hour,
    "restore-is-forgotten": _restore_is_forgotten,
    "one-of-a-chunk-is-left-out": _one_of_a_chunk_is_left_out,
    "moved-too-far": _moved_too_far,
    "created-beside-the-holder": _created_beside_the_holder,
    "replaced-and-left": _replaced_and_left,
    "batch-in-two-entries": _batch_in_two_entries,
    "answer-one-entry-late": _answer_one_entry_late,
}


@contextlib.contextmanager
def patched(patches: list[Patch]) -> Iterator[None]:
    """Inside the block, give these attributes their new values. Each patch is (owner, name, value)."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant the mistake of this name inside the block. Raises KeyError for a name that is not in MUTANTS."""
    with patched(MUTANTS[name]()):
        yield
