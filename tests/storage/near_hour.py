"""A store of which one hour is near: its units, what befalls them, and a kill in the middle of a checkpoint."""

from pathlib import Path

from storage.file.disk import Disk
from storage.format.array import U64
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.hour.hour import Hour
from storage.store import Store
from tests.storage.hour_history import kill_checkpoint
from tests.storage.workload import HOUR, batch_of, found


def near_store(directory: Path, disk: Disk) -> Store:
    """Of which the hour is near."""
    store = Store.open(directory, disk=disk)
    found(store)
    store.turn(HOUR)
    return store


def append(store: Store, units: int) -> U64:
    """So many, 7 ms apart."""
    return store.append(batch_of([HOUR * HOUR_MS + 7 * n for n in range(units)]))


def settle(store: Store, positions: U64, what: int, attempt: int = 1) -> None:
    """The same befalls all of these."""
    store.settle(SettleBatch.of(positions, what=what, at_ms=9, when=500, term=1, attempt=attempt))


def the_hour(store: Store) -> Hour:
    """As the store has it."""
    hour = store._hours.find(HOUR)
    assert hour is not None
    return hour


def killed_at_checkpoint(store: Store, directory: Path) -> Store:
    """It left its files; what is not in the catalog comes again."""
    kill_checkpoint(store, 2)
    store.close()
    store = Store.open(directory, disk=Disk())
    store.turn(HOUR)
    return store
