"""Transactions on an SQLite database, each with a connection of its own."""

import contextlib
import sqlite3
from collections.abc import Iterator


@contextlib.contextmanager
def transaction(path: str) -> Iterator[sqlite3.Connection]:
    """A transaction, beside which nobody else writes: all of it happens, or nothing.

    Raises sqlite3.OperationalError where another program holds the database for longer than a second.
    """
    with contextlib.closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        yield database
