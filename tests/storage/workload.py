"""A fixed workload: numbered entries that are applied to a store as the replicated machine would apply them.

The list of entries stands for the journal. Whatever happened to the files, opening the store and applying the entries
after its checkpoint must give the same bytes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.genesis import Genesis
from storage.file.disk import Disk
from storage.format.array import I64, U64
from storage.format.batches import SettleBatch, UnitBatch
from storage.format.position import GONE, HOUR_MS
from storage.format.states import DEAD, DELIVERED, FORWARDED, LEASED, MOVED, RELEASED
from storage.record.record import KIND_MESSAGE, Drafts, encode_records
from storage.record.record_rewrite import redraft
from storage.store import Store

CLUSTER_ID = bytes(range(16))
HOUR = 490_000

Entry = Callable[[Store], None]


def batch_of(due_ms: Sequence[int] | I64, *, topic: int = 7, bodies: Sequence[bytes] | None = None) -> UnitBatch:
    """Units with small records whose content follows from their due times."""
    due = np.asarray(due_ms, np.int64)
    count = len(due)
    texts = [b"body of %d" % ms for ms in due.tolist()] if bodies is None else bodies
    records = encode_records(Drafts(texts, due, due.astype(np.uint64) * np.uint64(2654435761)))
    return UnitBatch(
        due_ms=due,
        size=records.size,
        topic=np.full(count, topic, np.uint32),
        tags=due.astype(np.uint64),
        kind=np.full(count, KIND_MESSAGE, np.uint8),
        priority=np.zeros(count, np.uint8),
        attempt=np.zeros(count, np.uint16),
        flags=np.zeros(count, np.uint32),
        records=records.blob,
        created_ms=HOUR * HOUR_MS,
    )


def found(store: Store) -> None:
    """Genesis, as the machine applies it."""
    store.found(CLUSTER_ID)
    if store.catalog.genesis is None:
        store.catalog.found(
            Genesis(cluster_id=CLUSTER_ID, secret=bytes(32), nodes=("n1",), formats={}, created_ms=HOUR * HOUR_MS)
        )


def append(*due_ms: int) -> Entry:
    """An entry that appends units due at these times, ms after the workload's first hour."""
    return lambda store: void(store.append(batch_of([HOUR * HOUR_MS + ms for ms in due_ms])))


def settle(what: int, *positions: tuple[int, int]) -> Entry:
    """An entry that settles units named by (hour after the first, global_index)."""
    at = [(HOUR + hour) << 40 | index for hour, index in positions]
    return lambda store: store.settle(
        SettleBatch.of(at, what=what, at_ms=5, when=99, term=3, attempt=1, node=2, code=200)
    )


def move(store: Store, homes: Sequence[int], due_ms: Sequence[int], *, at_ms: int) -> U64:
    """Move the messages born at `homes`, each once, as apply does: a unit at the new place, and the settle records. Of
    one whose place is gone it takes the record at home, as below level 3."""
    born = np.array(homes, np.uint64)
    last = store.last_places(born)
    old = np.where(last == np.uint64(GONE), born, last)
    records, units = store.records(old), store.units(old)
    columns = redraft(records, extensions=[{"error": f"at {at_ms}"} for _ in records])
    batch = UnitBatch(
        due_ms=np.array(due_ms, np.int64),
        size=columns.size,
        topic=units["topic"],
        tags=units["tags"],
        kind=units["kind"],
        priority=units["priority"],
        attempt=units["attempt"] + np.uint16(1),
        flags=units["flags"],
        records=columns.blob,
        created_ms=np.array([record.created_ms for record in records]),
        homes=born,
    )
    position = store.append(batch)
    left = np.flatnonzero(old != born)
    store.settle(SettleBatch.of(born, what=FORWARDED, at_ms=at_ms, when=position.astype(np.int64)))
    store.settle(SettleBatch.of(old[left], what=MOVED, at_ms=at_ms, when=position[left].astype(np.int64)))
    return position


def moved(due_ms: int, *homes: tuple[int, int]) -> Entry:
    """An entry that moves messages to one due time, ms after the workload's first hour; their homes as in settle."""
    at = [(HOUR + hour) << 40 | index for hour, index in homes]
    return lambda store: void(move(store, at, [HOUR * HOUR_MS + due_ms] * len(at), at_ms=6))


def turn(hours: int) -> Entry:
    """The wheel turns to an hour after the first."""
    return lambda store: store.turn(HOUR + hours)


def unlink(hour: int) -> Entry:
    """An hour after the first goes."""
    return lambda store: store.unlink(HOUR + hour)


def topic(name: str) -> Entry:
    """An entry that creates a topic: something for the catalog to write."""
    return lambda store: void(store.catalog.put_topic(name, {"lease": 1}, now_ms=1))


def void(_: object) -> None:
    """Entries return nothing."""


H = HOUR_MS
ENTRIES: list[Entry] = [
    found,
    turn(0),
    append(5_000, 5_001, 1_000, H + 5, 5_500, 9 * H, 9 * H + 1, 20 * H),
    topic("orders"),
    settle(LEASED, (0, 0), (0, 1), (9, 1)),
    append(5_002, 9 * H + 2),
    settle(DELIVERED, (0, 0), (9, 1)),
    append(*range(30 * H, 39 * H, H)),
    settle(RELEASED, (0, 1)),
    turn(8),
    append(9 * H + 3, 20 * H + 1, 9 * H + 2_000),
    settle(LEASED, (0, 1), (9, 2), (20, 0)),
    topic("bills"),
    unlink(1),
    append(9 * H + 4, 21 * H),
    settle(DELIVERED, (9, 2), (20, 0), (0, 1)),
    moved(9 * H + 6_000, (0, 2), (9, 0), (30, 0)),
    settle(LEASED, (9, 6), (9, 7)),
    moved(33 * H + 5, (0, 2), (31, 0)),
    turn(35),
    settle(DEAD, (33, 1), (0, 2)),
    settle(DELIVERED, (9, 7), (9, 0)),
    moved(21 * H + 5, (0, 2), (36, 0)),
    unlink(35),
    append(35 * H + 1, 35 * H + 1_000),
    moved(35 * H + 9, (36, 0)),
    unlink(34),
    append(34 * H, 21 * H + 6),
    unlink(34),
    append(34 * H + 2),
    settle(LEASED, (34, 2), (35, 3)),
]
"""Near and far hours, hours that become near and far again, settles of each; messages moved, ended elsewhere, redriven;
hours unlinked, and begun again before a checkpoint knows it."""

CHECKPOINTS = (5, 8, 12, 20, 28)
"""Applied indexes after which a checkpoint is made; another one comes after all entries."""


def checkpoint(store: Store, index: int) -> None:
    """Make a checkpoint at this index, all three steps."""
    job = store.begin_checkpoint(record_at(index))
    job.run()
    job.finish()


def record_at(index: int) -> CheckpointRecord:
    """What the machine would say at this index."""
    return CheckpointRecord(
        applied_index=index, applied_term=1, tick=index, local_index=0, state_applied_index=index, max_now_ms=index
    )


def replay(store: Store, entries: Sequence[Entry], checkpoints: Sequence[int] = CHECKPOINTS, upto: int = 10**9) -> None:
    """Apply what follows the store's checkpoint. The wheel's turns are no entries of the log: the last one counts."""
    for index, entry in enumerate(entries, 1):
        if index > store.applied_index and index <= upto:
            entry(store)
            store.applied_index = index
            if index in checkpoints:
                checkpoint(store, index)


def run(directory: Path, disk: Disk, entries: Sequence[Entry] = ENTRIES) -> None:
    """Open, apply all, make a last checkpoint, close: from whatever a stop has left."""
    store = Store.open(directory, disk=disk)
    try:
        replay(store, entries)
        checkpoint(store, store.applied_index)
    finally:
        store.close()


def content(directory: Path) -> dict[str, bytes]:
    """The bytes of all hour files by hour and name, whatever generation they are; caches left out."""
    hours = directory / "hours"
    files = [path for path in sorted(hours.rglob("*")) if path.is_file() and not path.name.startswith("states.")]
    whole = {f"{path.parent.name.split('.')[0]}/{path.name}": path.read_bytes() for path in files}
    assert len(whole) == len(files), "two generations of an hour"
    return whole
