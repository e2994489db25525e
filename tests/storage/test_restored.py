"""Rows of the catalog that tell what a backup held."""

from typing import Any

import pytest

from storage.format import FormatRefused
from storage.restored import Restored, read_restored, write_restored


class Rows:
    """Stands for the table."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes) -> None:
        """Keep it."""
        self.kept[key] = value

    def get(self, key: bytes) -> bytes | None:
        """What is kept."""
        return self.kept.get(key)

    def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Those whose keys begin so."""
        return [row for row in self.kept.items() if row[0].startswith(prefix)]


def test_rows_that_no_release_wrote_are_refused_by_name() -> None:
    """Builds before the first release put two numbers there."""
    table: Any = Rows()
    assert read_restored(table) is None
    write_restored(table, Restored(5, {490_000: 7}))
    assert read_restored(table) == Restored(5, {490_000: 7})
    (key, row), *_ = table.rows(b"restored hour ")
    table.put(key, row + bytes(8))
    with pytest.raises(FormatRefused, match="restored hour"):
        read_restored(table)
