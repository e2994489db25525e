"""Genesis: the identity of the cluster. The first leader's first command fixes it, and it never changes."""

from typing import Final

import msgspec

from storage.lmdb.table import Table

CLUSTER_ID_SIZE: Final = 16
_KEY: Final = b"genesis"


class Genesis(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster id (16 bytes), the secret of receipts, the ids of the first nodes, and formats by name.

    `retention_ms` and `key_retention_ms` say how long a settled message stays known and its key taken. All nodes must
    agree on both.
    """

    cluster_id: bytes
    secret: bytes
    nodes: tuple[str, ...]
    formats: dict[str, int]
    created_ms: int
    retention_ms: int = 86_400_000
    key_retention_ms: int = 86_400_000


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(Genesis)


def read_genesis(meta: Table) -> Genesis | None:
    """The cluster's genesis, or None while it is not founded."""
    row = meta.get(_KEY)
    return None if row is None else _DECODER.decode(row)


def replace_genesis(meta: Table, genesis: Genesis) -> None:
    """Replace the genesis in the catalog by another cluster's. Only for a backup that is being restored."""
    assert meta.get(_KEY) is not None, "nothing was founded"
    meta.put(_KEY, _ENCODER.encode(genesis))


def write_genesis(meta: Table, genesis: Genesis) -> None:
    """Set the genesis. May be called once: a second genesis would assign all ids and receipts to another cluster."""
    assert len(genesis.cluster_id) == CLUSTER_ID_SIZE, f"cluster id of {len(genesis.cluster_id)} bytes"
    assert meta.get(_KEY) is None, "the cluster is already founded"
    meta.put(_KEY, _ENCODER.encode(genesis))
