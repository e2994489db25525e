"""The delivery log's records: a node's hand-overs and their outcomes, for the reconciliation to read.

A start record is written before the first byte of a hand-over leaves, an end record when its outcome is known. A start
without an end means that the outcome is unknown. A term's hand-overs stand between a record of its beginning and one of
its end. So a reader can say which change of leaders made a duplicate, and when. A leader that is killed leaves a
beginning without an end. The files are the node's own account, not replicated. They are written, not synced, so a power
cut may leave a span of zeros. Readers count that as unknown.

`deliveries/<hour>-<sequence>.log` holds the 64-byte file header (`HWDELIV`, storage/format/rows.py), then records of 80
bytes:
```
 0      8        16      24             32     40            44      48     52        56        58
 | home | random | at_ms | asked_due_ms | tick | local_index | topic | term | took_ms | attempt | code |
 60             62     64      66     67     68        69      70    72         76       80
 | subscription | node | group | kind | mode | outcome | flags | pad | reserved | checksum |
```
- `home` and `random` make the id.
- `tick` and `local_index` are the dispatch state at that moment, in a term's beginning the one that the leader found.
- `took_ms`, `outcome` and `code` are of an end: how long after its start, its result, and the HTTP status or reason.
- `code` of a term's end says how it ended. A term's records have no id, topic and mode.

From level 3 on the record of a term's beginning has a mark. `random` names the boot of the host's kernel in which it
was written. `took_ms` is the term before this one in the Raft log, 0 before the first. The end of a term that was lost
before its leader was established has that mark too, for such a term has no beginning.

A file that continues another one begins with a record of kind 5. Its `took_ms` is the number of records in the file
before it: a power cut may take some of those, and leave later ones. It also has the mark of its term, because the file
with the beginning is removed earlier, by age. `random` is as in the beginning, and `home` is the term before.

```
| kind | | mode | | outcome | |
|---|---|---|---|---|---|
| 1 | start | 0 | none: a term | 0 | none: a start, a term |
| 2 | end | 1 | pull | 1 | delivered |
| 3 | term begun | 2 | push | 2 | failed: the receiver did not answer the push with success, or not at all |
| 4 | term ended | | | 3 | given back: a nack by its consumer, or a push that was not sent |
| 5 | goes on | | | 4 | acked too late: the message had ended, or had been handed over again |
```

```
| how a term ended | |
|---|---|
| 1 | handed on: every hand-over was recorded, then leadership given to another |
| 2 | lost: to another, or to nobody |
| 3 | stopped: the node was, in order, and nobody took leadership from it |
| 4 | killed: its node came back in the same boot of its host, in which no log is lost (file/delivery_end.py) |
```
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.checksum import checksum_rows
from storage.format.rows import HEADER_SIZE, Corrupt

START, END, TERM_BEGUN, TERM_ENDED, GOES_ON = 1, 2, 3, 4, 5
PULL, PUSH = 1, 2
DELIVERED, FAILED, GIVEN_BACK, LATE = 1, 2, 3, 4
HANDED_ON, LOST, STOPPED, KILLED = 1, 2, 3, 4

DELIVERY: Final = np.dtype(
    [
        ("home", "<u8"),
        ("random", "<u8"),
        ("at_ms", "<i8"),
        ("asked_due_ms", "<i8"),
        ("tick", "<i8"),
        ("local_index", "<u4"),
        ("topic", "<u4"),
        ("term", "<u4"),
        ("took_ms", "<u4"),
        ("attempt", "<u2"),
        ("code", "<u2"),
        ("subscription", "<u2"),
        ("node", "<u2"),
        ("group", "<u2"),
        ("kind", "u1"),
        ("mode", "u1"),
        ("outcome", "u1"),
        ("flags", "u1"),
        ("pad", "<u2"),
        ("reserved", "<u4"),
        ("checksum", "<u4"),
    ]
)
assert DELIVERY.itemsize == 80

_CHECKSUM_FIELD: Final = (9, 1)
SECTOR: Final = 512
"""A power cut keeps or loses this many bytes of a file at a time, or a multiple of them."""

Deliveries = npt.NDArray[np.void]


def _words(rows: Deliveries) -> npt.NDArray[np.uint64]:
    return rows.view(np.uint64).reshape(-1, DELIVERY.itemsize // 8)


def seal_deliveries(rows: Deliveries) -> None:
    """Fill in the checksums of contiguous rows, in place."""
    rows["checksum"] = 0
    rows["checksum"] = checksum_rows(_words(rows))


def sound(rows: Deliveries) -> npt.NDArray[np.bool_]:
    """Return a boolean array, True for each of these contiguous rows that is as written: not zeros and not damaged."""
    good: npt.NDArray[np.bool_] = _words(rows).any(axis=1) & (
        checksum_rows(_words(rows), _CHECKSUM_FIELD) == rows["checksum"]
    )
    return good


def term_before(
    kind: npt.NDArray[np.uint8], home: npt.NDArray[np.uint64], took_ms: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint64]:
    """For each of these records, [n], the term before its own, as its mark names it. Meaningless for a record without a
    mark."""
    return np.where(kind == GOES_ON, home, took_ms.astype(np.uint64))


def never_written(rows: Deliveries, good: npt.NDArray[np.bool_], first: int) -> npt.NDArray[np.bool_]:
    """Return a boolean array, True for each row that a power cut left unwritten. Rows that `good` marks as whole are
    never unwritten.

    An unwritten row is zeros as a whole, or only before or only behind a sector's edge. `first` is the ordinal of the
    first row in its file.
    """
    left = np.logical_not(_words(rows).any(axis=1))
    for row in np.flatnonzero(~good & ~left).tolist():
        data = rows[row : row + 1].tobytes()
        edge = -(HEADER_SIZE + (first + row) * DELIVERY.itemsize) % SECTOR
        left[row] = 0 < edge < len(data) and not (any(data[:edge]) and any(data[edge:]))
    return left


def read_deliveries(data: bytes, file: str, first: int = 0) -> tuple[Deliveries, int]:
    """Return (records, rows never written) of `data`, which stands in `file` from record `first` on.

    Half a record at the end is left out, since its writer was killed. Rows that a power cut left unwritten are counted
    and left out. Raises Corrupt for any other row that is not as written.
    """
    rows = np.frombuffer(data, DELIVERY, len(data) // DELIVERY.itemsize)
    good = sound(rows)
    if good.all():
        return rows, 0
    left = never_written(rows, good, first)
    wrong = np.flatnonzero(~good & ~left)
    if len(wrong):
        row = first + int(wrong[0])
        raise Corrupt(file, HEADER_SIZE + row * DELIVERY.itemsize, f"delivery {row}", "damaged", "as written")
    return rows[good], int(left.sum())
