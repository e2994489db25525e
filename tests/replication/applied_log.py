"""A machine on a real store in a temporary directory, fed with entries as Raft would, and makers of commands."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from replication.apply.machine import Applied, Machine
from replication.command.entry import Command, encode_entry
from replication.command.genesis import Genesis
from replication.command.handover import DEAD, RETRY, Extend, Fail, Lease, Release, Settle
from replication.command.level import RaiseLevel
from replication.command.message import Cancel, Redrive, Reschedule
from replication.command.schedule import Key, Schedule
from storage.file.disk import Disk
from storage.format.level import LEVELS
from storage.record.record import Drafts, Record, encode_records
from storage.store import Store

HOUR_MS = 3_600_000
T0 = 472_222 * HOUR_MS  # the start of an hour
GENESIS = Genesis(b"c" * 16, b"s" * 32, ("n1", "n2", "n3"), retention_ms=60_000, key_retention_ms=60_000)


class Log:
    """Feeds a machine with entries, counting indexes as Raft does."""

    def __init__(self, directory: Path) -> None:
        self.store = Store.open(directory, disk=Disk())
        self.machine = Machine(self.store)
        self.index = self.machine.applied_index
        self.entries: list[tuple[int, int, bytes]] = []

    def apply(self, *commands: Command, now_ms: int = T0, term: int = 1, entry_term: int | None = None) -> Applied:
        """One entry, decided in `term` and appended in `entry_term`."""
        self.index += 1
        entry = encode_entry(group=0, term=term, node=1, now_ms=now_ms, sections=[c.pack() for c in commands])
        self.entries.append((self.index, entry_term or term, entry))
        return self.machine.apply(*self.entries[-1])

    def state(self, position: int) -> int:
        """The unit's state."""
        return int(self.store.states(np.array([position], np.uint64)).state[0])

    def record(self, position: int) -> Record:
        """The record of the unit that stands here."""
        return self.store.records(np.array([position], np.uint64))[0]

    def place(self, home: int) -> int:
        """Where the message born here lives."""
        return int(self.store.locate(np.array([home], np.uint64))[0])


def raise_to(log: Log, level: int, *, basis: int | None = None, version: int | None = None) -> Applied:
    """One entry that raises the level."""
    log.index += 1
    raised = RaiseLevel(level, log.store.catalog.members.index if basis is None else basis)
    entry = encode_entry(group=0, term=1, node=1, now_ms=T0, sections=[raised.pack()], version=version or level)
    return log.machine.apply(log.index, 1, entry)


def rise(log: Log) -> None:
    """To the newest level of this build."""
    for level in range(2, LEVELS[1] + 1):
        raise_to(log, level)


@contextlib.contextmanager
def risen_log(directory: Path) -> Iterator[Log]:
    """A founded log of the newest level, closed at the end."""
    log = Log(directory)
    log.apply(GENESIS)
    rise(log)
    yield log
    log.store.close()


def schedule(*due_ms: int, topic: str = "orders", keys: tuple[Key, ...] = (), body: bytes = b'"x"') -> Schedule:
    """A Schedule of messages due at these times, with random bits from their row."""
    n = len(due_ms)
    due = np.array(due_ms, np.int64)
    by_row = {key.row: key.key for key in keys}
    drafts = Drafts(
        bodies=[body] * n,
        asked_due_ms=due,
        random=np.arange(1, n + 1, dtype=np.uint64),
        keys=[by_row.get(row, b"") for row in range(n)] if keys else None,
    )
    records = encode_records(drafts)
    return Schedule((topic,), due, records.size, records.blob, np.zeros(n, np.uint16), np.empty(0, np.uint64), keys)


def lease(*position: int, attempt: int = 1, end_ms: int = T0 + 30_000, at_ms: int = T0) -> Lease:
    """Hand-overs of these units."""
    n = len(position)
    return Lease(
        np.array(position, np.uint64),
        np.full(n, attempt, np.uint16),
        np.full(n, end_ms, np.int64),
        np.full(n, at_ms, np.int64),
    )


def ack(*rows: tuple[int, int, int]) -> Settle:
    """Acks of (position, term, attempt)."""
    return Settle(
        np.array([row[0] for row in rows], np.uint64),
        np.array([row[1] for row in rows], np.uint32),
        np.array([row[2] for row in rows], np.uint16),
        np.zeros(len(rows), np.uint16),
    )


def release(*rows: tuple[int, int, int]) -> Release:
    """Hand-overs (position, term, attempt) that were never begun."""
    claims = ack(*rows)
    return Release(claims.position, claims.term, claims.attempt)


def cancel(*home: int, doubtful: bool = False, revision: int = 0) -> Cancel:
    """Cancels of these messages."""
    n = len(home)
    return Cancel(np.array(home, np.uint64), np.full(n, doubtful, np.uint8), np.full(n, revision, np.uint32))


def placed(applied: Applied, section: int = 0) -> list[int]:
    """The positions that a Schedule's result names."""
    return [int(position) for position in applied.results[section].position]


def fail(
    *rows: tuple[int, int, int],
    due_ms: int = T0 + 1_000,
    dead: bool = False,
    code: int = 500,
    texts: tuple[bytes, ...] = (),
    random: int = 77,
) -> Fail:
    """Failures of (position, term, attempt), all of one fate."""
    n = len(rows)
    claims = ack(*rows)
    return Fail(
        claims.position,
        claims.term,
        claims.attempt,
        np.full(n, code, np.uint16),
        np.full(n, DEAD if dead else RETRY, np.uint8),
        np.full(n, 0 if dead else due_ms, np.int64),
        np.arange(random, random + n, dtype=np.uint64),
        texts,
    )


def extend(*rows: tuple[int, int, int, int]) -> Extend:
    """Leases of (position, term, attempt) that are to end at the fourth."""
    claims = ack(*(row[:3] for row in rows))
    return Extend(claims.position, claims.term, claims.attempt, np.array([row[3] for row in rows], np.int64))


def reschedule(*rows: tuple[int, int], revision: Iterable[int] | None = None, doubtful: bool = False) -> Reschedule:
    """Messages, by home, to another due time."""
    n = len(rows)
    return Reschedule(
        np.array([row[0] for row in rows], np.uint64),
        np.array([row[1] for row in rows], np.int64),
        np.array([0] * n if revision is None else [*revision], np.uint32),
        np.full(n, doubtful, np.uint8),
    )


def redrive(*home: int, due_ms: int = T0 + 5_000) -> Redrive:
    """Dead messages, tried again."""
    return Redrive(np.array(home, np.uint64), np.full(len(home), due_ms, np.int64))


def key(row: int, fingerprint: bytes, rule: int = 0) -> Key:
    """The key `k` on a row."""
    return Key(row, b"k", fingerprint * 16, rule)


def files(directory: Path) -> dict[str, bytes]:
    """Every file of every hour by its path."""
    hours = directory / "hours"
    return {str(path.relative_to(hours)): path.read_bytes() for path in sorted(hours.rglob("*")) if path.is_file()}


def checkpoint(log: Log) -> None:
    """All three steps at once."""
    job = log.store.begin_checkpoint(log.machine.checkpoint_record())
    job.run()
    job.finish()
