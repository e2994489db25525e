"""Applies RaiseLevel, which raises the level of the cluster."""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.command.level import RaiseLevel


def apply_raise_level(applying: Applying, command: RaiseLevel) -> bool:
    """Raise the level, and return True if it rose.

    A level that is not higher than the present one changes nothing. A command changes nothing either if the members
    have changed since its leader proposed it.
    """
    store = applying.store
    if command.basis != store.catalog.members.index or command.level <= store.level:
        return False
    store.level = command.level
    applying.told.level()
    return True
