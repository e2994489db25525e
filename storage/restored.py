"""That this cluster was made from a backup, and of what moment: a row of the catalog, for good.

What the old cluster did with its messages after the backup nobody here knows: each may have been handed over, moved or
ended there. So all that was in the backup is in doubt, until it ends.
"""

from typing import Final

import msgspec

from storage.table import Table

_KEY: Final = b"restored"


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """No message in the backup was created after `created_ms`, by the stamps of its log. At `restored_ms` the cluster
    was made, by the clock of whoever did it."""

    created_ms: int
    restored_ms: int


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(Restored)


def read_restored(meta: Table) -> Restored | None:
    """None for a cluster that was not made from a backup."""
    row = meta.get(_KEY)
    return None if row is None else _DECODER.decode(row)


def write_restored(meta: Table, restored: Restored) -> None:
    """Set it; of a backup of a restored cluster anew."""
    meta.put(_KEY, _ENCODER.encode(restored))
