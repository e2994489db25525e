"""A transaction: all or nothing, and one at a time."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from examples.database import transaction


def test_all_or_nothing(tmp_path: Path) -> None:
    """What was done before an error is undone."""
    path = str(tmp_path / "database.sqlite")
    with transaction(path) as database:
        database.execute("CREATE TABLE rows (number)")
    with contextlib.suppress(ZeroDivisionError), transaction(path) as database:
        database.execute("INSERT INTO rows VALUES (1)")
        raise ZeroDivisionError
    with transaction(path) as database:
        assert database.execute("SELECT * FROM rows").fetchall() == []


def test_one_at_a_time(tmp_path: Path) -> None:
    """A second one does not even look while the first goes on: what it saw would not stand when it writes."""
    path = str(tmp_path / "database.sqlite")
    with transaction(path), pytest.raises(sqlite3.OperationalError, match="locked"), transaction(path):
        pass
