"""The files of one node's directory: which there are, how many whole rows each holds, and what is wrong with them.

Only headers, first and last rows are read here. What stands in between is checked by whoever reads it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from reconcile.files.node import NodeData
from reconcile.files.problem import CUT_SHORT, DAMAGED, FOREIGN, MISSING, DataRefused, Problem
from reconcile.files.read_rows import Rows, read_header, read_rows, whole_rows
from storage.catalog.hour_lengths import HourLengths
from storage.file.hour_file import directory_name
from storage.format.rows import (
    HEADER_SIZE,
    MAGIC_DELIVERIES,
    MAGIC_INDEX,
    MAGIC_LOG,
    MAGIC_SETTLE,
    SETTLE,
    UNIT,
    Corrupt,
    FileHeader,
    FormatRefused,
    row_checksums,
)
from storage.record.delivery_record import DELIVERY

_HOUR_NAME: Final = re.compile(r"(\d{1,8})(?:\.(\d{1,8}))?")
_DELIVERY_NAME: Final = re.compile(r"(\d{1,8})-(\d{6,})\.log")
_TAIL_ROWS: Final = 4096
"""Rows at the end of a file that are looked at together, to find the last whole one."""


@dataclass(frozen=True, slots=True)
class HourCopy:
    """One node's copy of an hour: `units` rows of its index from global_index `first` on, `settles` of its settle file.
    `sealed_*` of these the node's checkpoint vouches for. `log_len` bytes of log, 0 if there is none; of an export,
    which has a file of record headers in its place, `headers` rows."""

    node: str
    directory: Path
    hour: int
    generation: int
    first: int
    units: int
    settles: int
    sealed_units: int
    sealed_settles: int
    log_len: int
    headers: int = 0

    @property
    def name(self) -> str:
        """Its directory as problems name it."""
        return f"hours/{self.directory.name}"


@dataclass(frozen=True, slots=True)
class DeliverySource:
    """One file of a node's delivery log, of which `rows` whole records are there."""

    node: str
    store: str
    path: Path
    hour: int
    sequence: int
    rows: int


@dataclass(slots=True)
class FoundFiles:
    """What was found in one node's directory. `clusters` has the cluster ids in headers, and a file of each."""

    copies: list[HourCopy] = field(default_factory=list)
    deliveries: list[DeliverySource] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    clusters: dict[bytes, str] = field(default_factory=dict)


def find_hours(node: NodeData) -> FoundFiles:
    """All hours of a node. Raises DataRefused for a format version that this build does not read."""
    found = FoundFiles()
    there: set[str] = set()
    for directory in _listed(node.path / "hours"):
        match = _HOUR_NAME.fullmatch(directory.name)
        if match is None:
            found.problems.append(Problem(FOREIGN, node.name, f"hours/{directory.name}", "not an hour's directory"))
            continue
        there.add(directory.name)
        hour, generation = int(match[1]), int(match[2] or 0)
        lengths = node.lengths.get(hour)
        if lengths is not None and lengths.generation != generation:
            lengths = None  # unlinked or left over, and its directory not gone yet; or begun again since the checkpoint
        _find_hour(found, node.name, directory, hour, generation, lengths)
    for hour, lengths in sorted(node.lengths.items()):
        name = directory_name(hour, lengths.generation)
        if name not in there and lengths.units:
            what = f"the checkpoint names {lengths.units} units"
            found.problems.append(Problem(MISSING, node.name, f"hours/{name}", what, lengths.units))
    found.copies = _each_once(found.copies)
    return found


def _each_once(copies: list[HourCopy]) -> list[HourCopy]:
    """Of several directories of the same units the one that the checkpoint names, else that of the newest generation:
    the others are left over from a kill, hold no more than their hour was given again, and may go at any time."""
    best: dict[tuple[int, int], HourCopy] = {}
    for copy in copies:
        other = best.setdefault((copy.hour, copy.first), copy)
        if (copy.sealed_units, copy.generation) > (other.sealed_units, other.generation):
            best[copy.hour, copy.first] = copy
    return list(best.values())


def find_deliveries(node: NodeData) -> FoundFiles:
    """The delivery log of a node, oldest file first. Raises as find_hours."""
    found = FoundFiles()
    there: list[tuple[int, int, Path]] = []
    for path in _listed(node.path / "deliveries"):
        match = _DELIVERY_NAME.fullmatch(path.name)
        if match is None:
            found.problems.append(Problem(FOREIGN, node.name, f"deliveries/{path.name}", "not a file of deliveries"))
            continue
        there.append((int(match[2]), int(match[1]), path))
    for sequence, hour, path in sorted(there):
        known = len(found.problems)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            continue  # removed by age since it was listed
        if header_of(found, node.name, path, MAGIC_DELIVERIES) is not None:
            rows = whole_rows(size, DELIVERY)
            found.deliveries.append(DeliverySource(node.name, node.store, path, hour, sequence, rows))
        torn = size < HEADER_SIZE or (size - HEADER_SIZE) % DELIVERY.itemsize
        if torn and sequence < max(there)[0] and len(found.problems) == known:  # the newest may be written just now
            found.problems.append(Problem(CUT_SHORT, node.name, name_of(path), f"{size} bytes, within a record", 1))
    return found


def _listed(directory: Path) -> Iterator[Path]:
    return iter(sorted(directory.iterdir()) if directory.is_dir() else ())


def _find_hour(
    found: FoundFiles, node: str, directory: Path, hour: int, generation: int, lengths: HourLengths | None
) -> None:
    sealed = lengths.units if lengths else 0
    index = directory / "index"
    if header_of(found, node, index, MAGIC_INDEX, hour) is None:
        _miss(found, node, index, sealed)
        return
    first = _first_index(index)
    units = _intact(found, node, index, UNIT, sealed)
    if first is None or not units:
        return
    settle = directory / "settle"
    sealed_settles = max(0, lengths.settle_len - HEADER_SIZE) // SETTLE.itemsize if lengths else 0
    settles = 0
    if header_of(found, node, settle, MAGIC_SETTLE, hour) is not None:
        settles = _intact(found, node, settle, SETTLE, sealed_settles)
    else:
        _miss(found, node, settle, sealed_settles)
    log = directory / "log"
    log_len = log.stat().st_size if header_of(found, node, log, MAGIC_LOG, hour) is not None else 0
    if lengths is not None and log_len < lengths.log_len:
        what = f"{log_len} bytes, the checkpoint says {lengths.log_len}"
        found.problems.append(Problem(CUT_SHORT, node, name_of(log), what, lengths.log_len - log_len))
    found.copies.append(
        HourCopy(node, directory, hour, generation, first, units, settles, sealed, sealed_settles, log_len)
    )


def header_of(found: FoundFiles, node: str, path: Path, magic: bytes, hour: int | None = None) -> FileHeader | None:
    """The header of a file that is there and is what its name says; else a problem, if it is one, and None."""
    try:
        header = read_header(path, magic)
    except FileNotFoundError:
        return None
    except FormatRefused as error:
        raise DataRefused(f"{path}: {error}") from error
    except (Corrupt, OSError) as error:
        found.problems.append(Problem(DAMAGED, node, name_of(path), str(error)))
        return None
    if header is None:
        return None
    if hour is not None and header.hour != hour:
        found.problems.append(Problem(DAMAGED, node, name_of(path), f"its header says hour {header.hour}"))
        return None
    found.clusters.setdefault(header.cluster_id, str(path))
    return header


def _first_index(index: Path) -> int | None:
    """The number of an hour's first unit: told by the first intact row, whichever that is."""
    rows = read_rows(index, UNIT, 0, _TAIL_ROWS)
    intact = np.flatnonzero(row_checksums(rows) == rows["checksum"]) if len(rows) else rows[:0]
    return int(rows["global_index"][intact[0]]) - int(intact[0]) if len(intact) else None


def _intact(found: FoundFiles, node: str, path: Path, dtype: np.dtype[Any], sealed: int) -> int:
    """How many rows count: all that the checkpoint vouches for and are there, and the intact ones behind those."""
    count = whole_rows(path.stat().st_size, dtype)
    if count < sealed:
        what = f"{count} rows, the checkpoint says {sealed}"
        found.problems.append(Problem(CUT_SHORT, node, name_of(path), what, sealed - count))
    while count > sealed:
        start = max(sealed, count - _TAIL_ROWS)
        good = _good(read_rows(path, dtype, start, count - start))
        if len(good):
            return start + int(good[-1]) + 1
        count = start
    return count


def _good(rows: Rows) -> npt.NDArray[np.intp]:
    return np.flatnonzero(row_checksums(rows) == rows["checksum"]) if len(rows) else np.empty(0, np.intp)


def _miss(found: FoundFiles, node: str, path: Path, sealed: int) -> None:
    named = any(problem.file == name_of(path) and problem.node == node for problem in found.problems)
    if sealed and not named:
        what = f"the checkpoint names {sealed} rows"
        found.problems.append(Problem(MISSING, node, name_of(path), what, sealed))


def name_of(path: Path) -> str:
    """From the node's directory on."""
    return "/".join(path.parts[-3:] if path.parts[-3] == "hours" else path.parts[-2:])
