"""Rows of the catalog that tell what a backup held."""

from pathlib import Path

import pytest

from storage.catalog.catalog import Catalog
from storage.catalog.restored import Restored, read_restored
from storage.file.disk import Disk
from storage.format.rows import FormatRefused


def test_rows_that_no_release_wrote_are_refused_by_name(tmp_path: Path) -> None:
    """Builds before the first release put two numbers there."""
    catalog = Catalog.open(tmp_path / "catalog", Disk())
    assert catalog.restored is None
    catalog.set_restored(Restored(5, {490_000: 7}, 3))
    assert read_restored(catalog._meta) == Restored(5, {490_000: 7}, 3)
    ((key, row),) = catalog._meta.rows(b"restored hour ")
    catalog._meta.put(key, row + bytes(8))
    with pytest.raises(FormatRefused, match="restored hour"):
        read_restored(catalog._meta)
    catalog.close()
