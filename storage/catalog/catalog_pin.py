"""A checkpoint of the catalog that stays readable until it is copied, while the catalog goes on."""

from dataclasses import dataclass
from pathlib import Path

import lmdb

from storage.catalog.checkpoint_record import CheckpointRecord
from storage.lmdb.errors import lmdb_errors


@dataclass(slots=True)
class CatalogPin:
    """A read transaction of the last checkpoint. It stays open until `copy_to` or `close` is called. Made by
    Catalog.pin, for any thread."""

    record: CheckpointRecord
    cluster_id: bytes
    _environment: "lmdb.Environment"
    _transaction: "lmdb.Transaction[bytes] | None"
    _path: Path

    def copy_to(self, directory: Path) -> None:
        """Copy the catalog as this transaction sees it into `data.mdb` in an empty directory. Free pages are left out.
        May be called once.

        Blocks the calling thread. LMDB writes the file itself and does not sync it. Raises DiskFailed or Corrupt.
        """
        assert self._transaction is not None, "copied or closed"
        with lmdb_errors("copy", self._path):
            self._environment.copy(str(directory), compact=True, txn=self._transaction)
        self.close()

    def close(self) -> None:
        """Release the transaction. A second call does nothing."""
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None
