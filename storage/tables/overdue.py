"""What a restored cluster does about messages that became due while it was not there: a row of the catalog, until done.

`hourwheel restore` writes it, the first leader fixes the moment it counts from (`cutoff_ms`, by its clock, replicated),
and whoever leads then gives up what was due before that; see node/leader/restored_overdue.py. No row: everything is
handed over.
"""

from typing import Final

import msgspec

from storage.lmdb.table import Table

_KEY: Final = b"catch_up"


class OverdueRule(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were due more than `last_ms` before the first leader's clock are not wanted; 0: none that is
    overdue is. `cutoff_ms`: the moment that makes, None while there was no leader."""

    last_ms: int
    cutoff_ms: int | None = None


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(OverdueRule)


def read_overdue_rule(meta: Table) -> OverdueRule | None:
    """What is left to be done; None if nothing is."""
    row = meta.get(_KEY)
    return None if row is None else _DECODER.decode(row)


def write_overdue_rule(meta: Table, rule: OverdueRule | None) -> None:
    """Set it, or with None say that it is done."""
    if rule is None:
        meta.drop(_KEY)
    else:
        meta.put(_KEY, _ENCODER.encode(rule))
