"""Transactions on an SQLite database, each with a connection of its own."""

import contextlib
import sqlite3
from collections.abc import Iterator


@contextlib.contextmanager
def transaction(path: str) -> Iterator[sqlite3.Connection]:
    """Yield the database in a transaction. An exception undoes all its changes. No other program writes meanwhile.

    Raises sqlite3.OperationalError if another program holds the database for longer than a second.
    """
    with contextlib.closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        yield database
