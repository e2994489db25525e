"""Whether the nodes' copies of an hour say the same: they applied the same entries, so they must, row by row.

A row that is damaged in a copy says nothing. Two whole rows that differ mean that two nodes applied different things,
which the service itself watches for (replication/raft/agreement.py) and the reconciliation confirms from the files.
"""

import numpy as np
import numpy.typing as npt

from reconcile.files.find import HourCopy
from reconcile.files.inventory import HourPart, Span
from reconcile.files.read_rows import Rows, read_rows
from storage.format.rows import SETTLE, UNIT, row_checksums

_BLOCK_ROWS = 1 << 18


def disputed(part: HourPart, span: Span) -> npt.NDArray[np.bool_] | None:
    """Which units of the span have units or settle records that differ between copies, [span.count]; None: none has."""
    if len(part.copies) < 2:
        return None
    found = np.zeros(span.count, np.bool_)
    one = part.copies[0]
    for other in part.copies[1:]:
        _compare(one, other, "index", UNIT, span.first - part.first, span.count, span, found)
        _compare(one, other, "settle", SETTLE, 0, min(one.settles, other.settles), span, found)
    return found if found.any() else None


def _compare(
    one: HourCopy,
    other: HourCopy,
    file: str,
    dtype: "np.dtype[np.void]",
    first: int,
    count: int,
    span: Span,
    found: npt.NDArray[np.bool_],
) -> None:
    """Marks the units of rows that are whole in both copies and differ."""
    for start in range(first, first + count, _BLOCK_ROWS):
        wanted = min(_BLOCK_ROWS, first + count - start)
        try:
            mine, theirs = (read_rows(copy.directory / file, dtype, start, wanted) for copy in (one, other))
        except OSError:
            return  # a copy that cannot be read is told by whoever reads it for its content
        common = min(len(mine), len(theirs))
        if not common:
            return  # one of them ends before: a node that was away, or removed, for longer
        mine, theirs = mine[:common], theirs[:common]
        differ = np.flatnonzero((_words(mine) != _words(theirs)).any(axis=1))
        if len(differ):
            _mark(mine[differ], theirs[differ], span, found)


def _mark(mine: Rows, theirs: Rows, span: Span, found: npt.NDArray[np.bool_]) -> None:
    whole = np.ones(len(mine), np.bool_)
    for rows in (mine, theirs):
        whole &= row_checksums(np.ascontiguousarray(rows)) == rows["checksum"]
    for rows in (mine, theirs):
        at = rows["global_index"].astype(np.int64) - span.first
        found[at[whole & (at >= 0) & (at < span.count)]] = True


def _words(rows: Rows) -> npt.NDArray[np.uint64]:
    return rows.view(np.uint64).reshape(len(rows), -1)
