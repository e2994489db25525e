"""Copies of an hour that say the same, differ, or end before."""

from pathlib import Path

import numpy as np

from reconcile.files.copies import disputed
from reconcile.files.find import HourCopy
from reconcile.files.inventory import HourPart, Span
from reconcile.files.read_rows import Rows
from storage.format.rows import HEADER_SIZE, UNIT, row_checksums

HOUR = 494_000


def units(count: int) -> Rows:
    """Whole rows of the first units of an hour."""
    rows = np.zeros(count, UNIT)
    rows["global_index"], rows["kind"] = np.arange(count), 1
    rows["checksum"] = row_checksums(rows)
    return rows


def copy_of(directory: Path, node: str, rows: Rows) -> HourCopy:
    """A node's copy that has these rows, and no settle records."""
    folder = directory / node / str(HOUR)
    folder.mkdir(parents=True)
    (folder / "index").write_bytes(bytes(HEADER_SIZE) + rows.tobytes())
    (folder / "settle").write_bytes(bytes(HEADER_SIZE))
    return HourCopy(
        node=node,
        directory=folder,
        hour=HOUR,
        generation=0,
        first=0,
        units=len(rows),
        settles=0,
        sealed_units=len(rows),
        sealed_settles=0,
        log_len=0,
    )


def test_a_copy_that_ends_before_disputes_nothing(tmp_path: Path) -> None:
    """A node that was removed long ago has none of the rows of a later bucket, or some: the others' stand."""
    copies = tuple(copy_of(tmp_path, name, units(count)) for name, count in (("n1", 10), ("n2", 3), ("n3", 7)))
    assert disputed(HourPart(HOUR, 0, copies), Span(HOUR, 5, 5)) is None


def test_a_row_that_is_whole_and_other_is_disputed(tmp_path: Path) -> None:
    """One unit is due at another time by one copy, with a right checksum: that unit, and no other."""
    rows = units(10)
    rows["due_ms"][6] = 5
    rows["checksum"] = row_checksums(rows)
    copies = (copy_of(tmp_path, "n1", units(10)), copy_of(tmp_path, "n2", rows))
    found = disputed(HourPart(HOUR, 0, copies), Span(HOUR, 5, 5))
    assert found is not None
    assert np.flatnonzero(found).tolist() == [1]
