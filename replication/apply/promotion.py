"""Promotion: a new leader doubts what the leader before it may have handed over."""

from __future__ import annotations

from dataclasses import replace

from replication.apply.applying import Applying
from replication.command.promotion import HANDED_ON, Promotion
from storage.catalog.doubt import Doubt
from storage.format.level import has


def apply_promotion(applying: Applying, command: Promotion) -> None:
    """After an election, put all that is there and due by then in doubt. An older doubt stays."""
    store = applying.store
    if not has(store.level, "doubt"):
        return
    if command.until_ms != HANDED_ON:
        store.doubt = Doubt.at(store.span, max(command.until_ms, store.doubt.until_ms))
    store.doubt = replace(store.doubt, term=applying.term)
