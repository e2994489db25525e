"""Genesis: what the cluster is, fixed by the first leader's first command and never changed."""

from typing import Final

import msgspec

from storage.lmdb.table import Table

CLUSTER_ID_SIZE: Final = 16
_KEY: Final = b"genesis"


class Genesis(msgspec.Struct, frozen=True, kw_only=True):
    """Cluster id (16 bytes), the secret receipts are made with, the ids of the first nodes, formats by name; how long a
    settled message stays known and its key taken, which all nodes must agree on."""

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
    """Make what stands in the catalog another cluster's: of a backup that is restored, and of nothing else."""
    assert meta.get(_KEY) is not None, "nothing was founded"
    meta.put(_KEY, _ENCODER.encode(genesis))


def write_genesis(meta: Table, genesis: Genesis) -> None:
    """Set it. Once: a second one would make every id and receipt of the first another cluster's."""
    assert len(genesis.cluster_id) == CLUSTER_ID_SIZE, f"cluster id of {len(genesis.cluster_id)} bytes"
    assert meta.get(_KEY) is None, "the cluster is already founded"
    meta.put(_KEY, _ENCODER.encode(genesis))
