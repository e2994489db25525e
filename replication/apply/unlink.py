"""Applies Unlink, which removes hours: their files, and the keys of their messages."""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.command.unlink import Unlink
from storage.format.level import has
from storage.format.position import INDEX_MAX
from storage.store import Store


def apply_unlink(applying: Applying, command: Unlink) -> int:
    """Unlink those of the named hours that are over. Return their number.

    An hour is over if the tick has passed it, and all messages that were born in it or moved into it have ended. Its
    last settle record must be older than the retention of messages, and than that of keys.
    """
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
    """Drop the keys of an hour that is about to be unlinked.

    There may be a million of them. So from level 2 on they are only marked here, and each later entry drops some of
    them.
    """
    if not has(store.level, "lazy-keys"):
        store.catalog.drop_hour_keys(hour)
        return
    first, end = store.span(hour)
    if first < end:  # else it is unlinked already, and some of its keys may still wait to be dropped
        store.catalog.forget_hour_keys(hour, end & INDEX_MAX)
