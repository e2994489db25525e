"""How the level of the cluster rises."""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.command.level import RaiseLevel


def apply_raise_level(applying: Applying, command: RaiseLevel) -> bool:
    """Raise the level. True if it rose. It never goes down, and the same command twice changes nothing."""
    store = applying.store
    if command.basis != store.catalog.members.index or command.level <= store.level:
        return False
    store.level = command.level
    applying.told.level()
    return True
