"""How an hour goes: its files, and the keys of its messages."""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.command.unlink import Unlink
from storage.format.level import has
from storage.format.position import INDEX_MAX
from storage.store import Store


def apply_unlink(applying: Applying, command: Unlink) -> int:
    """Unlink those hours that are over: passed by the tick, everything settled, the last settle past retention. Returns
    how many."""
    store, tick = applying.store, applying.dispatched.tick
    genesis = store.catalog.genesis
    assert genesis is not None
    retention_ms = max(genesis.retention_ms, genesis.key_retention_ms)
    unlinked = 0
    for hour in command.hour.tolist():
        over = tick >= (hour + 1) * 3600 and store.unsettled(hour) == 0
        if over and store.settled_ms(hour) + retention_ms < applying.envelope.now_ms:
            _drop_keys(store, hour)
            store.unlink(hour)
            unlinked += 1
    return unlinked


def _drop_keys(store: Store, hour: int) -> None:
    """The hour is about to be unlinked: its keys go. They may be a million: from level 2 on by and by."""
    if not has(store.level, "lazy-keys"):
        store.catalog.drop_hour_keys(hour)
        return
    first, end = store.span(hour)
    if first < end:  # else it is unlinked already, and perhaps not all of its keys are dropped yet
        store.catalog.forget_hour_keys(hour, end & INDEX_MAX)
