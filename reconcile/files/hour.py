"""Units, settle records and record headers of an hour, each row checked, damaged ones taken from another copy.

Row r of a file is the same row in every copy (inventory.py says why), so copies are merged row by row: what is damaged
in one is read from the next, and only what no copy has whole is unreadable. An unreadable row comes as zeros, which is
no kind of unit and no `what`, and is counted: whoever judges leaves it out and says how many there were.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from reconcile.files.find import HourCopy
from reconcile.files.inventory import HourPart
from reconcile.files.problem import DAMAGED, UNREADABLE, Problem
from reconcile.files.read_rows import Rows, opened, read_bytes, read_rows
from storage.file.hour_file import runs
from storage.format.array import I64, Mask
from storage.format.checksum import checksum_rows
from storage.format.position import INDEX_BITS
from storage.format.rows import HEADER_SIZE, SETTLE, UNIT, Settles, Units, put_rows, row_checksums, take_rows
from storage.record.record import HEADER, RECORD_HEADER_SIZE, RECORD_MOVED, RECORD_VERSION

_BLOCK_ROWS: Final = 1 << 18
"""Settle records read at a time: 12 MiB."""
_RUN_GAP_BYTES: Final = 4096
_RUN_BYTES_MAX: Final = 8 << 20
"""Record headers this near each other are read together, up to this much at a time."""
_HEADER_CHECKSUM: Final = (1, 0)
_HEADER_WORDS: Final = np.arange(RECORD_HEADER_SIZE // 8)

Reader = Callable[[HourCopy, I64], tuple[Rows, Mask]]


@dataclass(frozen=True, slots=True, eq=False)
class HourRead:
    """Rows in file order. `unreadable` of them are zeros, since no copy has them whole."""

    rows: Rows
    unreadable: int
    problems: tuple[Problem, ...]


def read_units(part: HourPart, first: int, count: int) -> HourRead:
    """Units first .. first + count, dtype UNIT, shape [count]."""
    assert part.first <= first <= first + count <= part.next, f"units {first} + {count} of {part.first}..{part.next}"

    def read(copy: HourCopy, at: I64) -> tuple[Rows, Mask]:
        start, end = int(at[0]) - part.first, int(at[-1]) + 1 - part.first
        rows = _padded(copy, "index", UNIT, start, min(end, copy.units), end)
        good = (row_checksums(rows) == rows["checksum"]) & (rows["global_index"] == np.arange(at[0], at[-1] + 1))
        return take_rows(rows, at - at[0]), good[at - at[0]]

    return _merged(part, "index", UNIT, np.arange(first, first + count), read)


def read_settles(part: HourPart, first: int, count: int) -> HourRead:
    """The settle records of units first .. first + count, dtype SETTLE, in file order. Reads the whole settle file.

    Those that are unreadable may have been of any unit, and are counted with every bucket of the hour.
    """
    kept: list[Rows] = []
    problems: list[Problem] = []
    unreadable = 0
    for read in settle_blocks(part):
        unit = read.rows["global_index"]
        inside = (unit >= first) & (unit < first + count) & (read.rows["what"] != 0)
        kept.append(read.rows if inside.all() else take_rows(read.rows, np.flatnonzero(inside)))
        problems += read.problems
        unreadable += read.unreadable
    return HourRead(_joined(kept, SETTLE), unreadable, tuple(problems))


def settle_blocks(part: HourPart, first: int = 0, count: int | None = None) -> Iterator[HourRead]:
    """All settle records of the hour, or `count` from ordinal `first` on, in file order, a block at a time."""

    def read(copy: HourCopy, at: I64) -> tuple[Rows, Mask]:
        start, end = int(at[0]), int(at[-1]) + 1
        rows = _padded(copy, "settle", SETTLE, start, min(end, copy.settles), end)
        good = row_checksums(rows) == rows["checksum"]
        return take_rows(rows, at - at[0]), good[at - at[0]]

    end = part.settles if count is None else min(part.settles, first + count)
    for start in range(first, end, _BLOCK_ROWS):
        yield _merged(part, "settle", SETTLE, np.arange(start, min(start + _BLOCK_ROWS, end)), read)


def read_headers(part: HourPart, units: Units) -> HourRead:
    """The log headers of these units of the hour, dtype HEADER, shape [n], row i that of units[i].

    Bodies are passed over: neighbours are read together, and of each record only its header is kept and checked.
    """
    at = np.arange(len(units))
    there = units["kind"] != 0

    def read(copy: HourCopy, at: I64) -> tuple[Rows, Mask]:
        wanted = units if len(at) == len(units) else take_rows(units, at)
        rows = _exported_headers(copy, wanted) if copy.headers else _copied_headers(copy, wanted)
        place = np.uint64(part.hour << INDEX_BITS) | wanted["global_index"]
        home = rows["id_hour"].astype(np.uint64) << np.uint64(INDEX_BITS) | rows["id_global_index"]
        stands = np.where(rows["flags"] == RECORD_MOVED, rows["place"], home)
        good = (_header_sums(rows) == rows["header_checksum"]) & (rows["version"] == RECORD_VERSION)
        return rows, good & (stands == place) & (rows["size"] == wanted["size"])

    return _merged(part, "log", HEADER, at if there.all() else at[there], read, units["global_index"].astype(np.int64))


def _merged(
    part: HourPart, file: str, dtype: np.dtype[Any], at: I64, read: Reader, names: I64 | None = None
) -> HourRead:
    """The rows `at` from the first copy that has each whole. `read` is given some of `at`, ascending, and answers a row
    for each, and which are whole. With `names` there are as many rows as names, `at` says which of them are asked for,
    and problems call them by their names; else `at` is a range of ordinals, all of it asked for."""
    problems: list[Problem] = []
    first = int(at[0]) if len(at) and names is None else 0
    rows, missing = np.zeros(len(at) if names is None else len(names), dtype), at
    for copy in _candidates(part, file):
        if not len(missing):
            break
        try:
            found, good = read(copy, missing)
        except OSError as error:
            problems.append(Problem(DAMAGED, copy.node, f"{copy.name}/{file}", str(error)))
            continue
        if len(missing) == len(rows) and good.all():
            return HourRead(found, 0, tuple(problems))
        put_rows(rows, missing[good] - first, take_rows(found, np.flatnonzero(good)))
        missing = missing[~good]
        problems += _damage(copy, file, missing if names is None else names[missing], part)
    if len(missing):
        ordinals = missing if names is None else names[missing]
        what = f"rows {int(ordinals[0])} to {int(ordinals[-1])} are whole in no copy"
        problems.append(Problem(UNREADABLE, "", f"{part.copies[0].name}/{file}", what, len(missing)))
    return HourRead(rows, len(missing), tuple(problems))


def _candidates(part: HourPart, file: str) -> list[HourCopy]:
    if file == "settle":
        return sorted(part.copies, key=lambda copy: -copy.settles)
    return [copy for copy in part.copies if file != "log" or copy.log_len or copy.headers]


def _damage(copy: HourCopy, file: str, missing: I64, part: HourPart) -> list[Problem]:
    """Rows a copy should have had; that it is not so long as another is no damage."""
    end = copy.settles if file == "settle" else part.first + copy.units
    damaged = missing[missing < end]
    if not len(damaged):
        return []
    what = f"rows {int(damaged[0])} to {int(damaged[-1])}: not as written"
    return [Problem(DAMAGED, copy.node, f"{copy.name}/{file}", what, len(damaged))]


def _padded(copy: HourCopy, file: str, dtype: np.dtype[Any], start: int, there: int, end: int) -> Rows:
    """Rows start .. end of a copy that has them as far as `there`; zeros behind, which are never whole."""
    rows = read_rows(copy.directory / file, dtype, start, max(0, there - start))
    if len(rows) == end - start:
        return rows
    padded = np.zeros(end - start, dtype)
    put_rows(padded, slice(0, len(rows)), rows)
    return padded


def _copied_headers(copy: HourCopy, units: Units) -> Rows:
    """The bytes where these units' record headers stand in one copy's log; zeros where it ends before."""
    rows = np.zeros((len(units), len(_HEADER_WORDS)), np.uint64)
    starts = units["offset"].astype(np.int64)
    ends = starts + RECORD_HEADER_SIZE
    with opened(copy.directory / "log") as fd:
        for first, last in runs(starts, ends, _RUN_GAP_BYTES, _RUN_BYTES_MAX):
            base = int(starts[first])
            data = read_bytes(fd, int(ends[last - 1]) - base, base)
            words = data[: len(data) & ~7].view(np.uint64)
            whole = (
                last
                if ends[last - 1] - base <= len(data)
                else first + int(np.searchsorted(ends[first:last] - base, len(data), side="right"))
            )
            rows[first:whole] = words[(starts[first:whole] - base >> 3)[:, None] + _HEADER_WORDS]
    return rows.view(HEADER)[:, 0]


def _exported_headers(copy: HourCopy, units: Units) -> Rows:
    """The same of an export: row i of its file is the header of the hour's unit i."""
    at = units["global_index"].astype(np.int64) - copy.first
    start, end = int(at[0]), int(at[-1]) + 1
    return take_rows(_padded(copy, "headers", HEADER, start, min(end, copy.headers), end), at - start)


def _header_sums(rows: Rows) -> npt.NDArray[np.uint32]:
    return checksum_rows(rows.view(np.uint64).reshape(len(rows), -1), _HEADER_CHECKSUM)


def _joined(parts: list[Rows], dtype: np.dtype[Any]) -> Settles:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.empty(0, dtype)
    return np.concatenate([part.view(np.uint64) for part in parts]).view(dtype)


assert HEADER_SIZE % 8 == 0, "records begin at multiples of 8"
