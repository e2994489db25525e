"""Applies Promotion, the first command of a new leader: units that the leader before may have handed over get into
doubt.
"""

from __future__ import annotations

from dataclasses import replace

from replication.apply.applying import Applying
from replication.command.dispatch import HANDED_ON, Promotion
from storage.catalog.doubt import Doubt
from storage.format.level import has


def apply_promotion(applying: Applying, command: Promotion) -> None:
    """Put all units that exist now and are due by `until_ms` in doubt, unless leadership was given away on purpose.

    If an earlier Promotion had a later `until_ms`, that time counts for all of them.
    """
    store = applying.store
    if not has(store.level, "doubt"):
        return
    if command.until_ms != HANDED_ON:
        store.doubt = Doubt.at(store.span, max(command.until_ms, store.doubt.until_ms))
    store.doubt = replace(store.doubt, term=applying.term)
