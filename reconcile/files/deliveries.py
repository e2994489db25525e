"""A node's delivery log: rows checked, spans that are missing told with the time they may cover.

The log is written and not synced, so a power cut leaves zeros, in a row that stands in two sectors perhaps in one of
them. That is told as a gap of unknown hand-overs, never as proof that there were none. A damaged row is a gap too. A
gap lasts from the last whole record before it to the first one behind it; at an edge of what was read that is not
known, and the edge's own time is used by who joins the scans.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from reconcile.files.find import DeliverySource
from reconcile.files.problem import DAMAGED, UNWRITTEN, Problem
from reconcile.files.read_rows import Rows, read_rows
from storage.format.position import HOUR_MS
from storage.format.rows import take_rows
from storage.record.delivery_record import (
    DELIVERY,
    END,
    START,
    TERM_BEGUN,
    TERM_ENDED,
    Deliveries,
    never_written,
    sound,
)

BLOCK_ROWS: Final = 1 << 18
"""Records read at a time: 20 MiB."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records of `node` (its id) are missing, from_ms <= t < until_ms, node clock ms."""

    node: str
    from_ms: int
    until_ms: int
    open: bool = False
    """Nothing of the same term is behind it."""


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryRead:
    """Whole records in file order, of every kind; what was not as written is left out and told."""

    rows: Deliveries
    gaps: tuple[Gap, ...] = ()
    problems: tuple[Problem, ...] = ()


def delivery_blocks(source: DeliverySource, first: int = 0, count: int | None = None) -> Iterator[DeliveryRead]:
    """Records `first` .. `first + count` of one file, by default all that were there, a block at a time."""
    end = source.rows if count is None else min(source.rows, first + count)
    last_ms = source.hour * HOUR_MS
    for start in range(first, end, BLOCK_ROWS):
        wanted = min(BLOCK_ROWS, end - start)
        try:
            rows = read_rows(source.path, DELIVERY, start, wanted)
        except OSError as error:
            problem = Problem(DAMAGED, source.node, _name(source), str(error), end - start)
            yield DeliveryRead(rows_none(), (Gap(source.node, last_ms, _end_ms(source), open=True),), (problem,))
            return
        read = _checked(source, start, rows, last_ms)
        if len(read.rows):
            last_ms = int(read.rows["at_ms"][-1])
        if len(rows) < wanted:
            problem = Problem(DAMAGED, source.node, _name(source), f"ends at record {start + len(rows)}", wanted)
            gap = Gap(source.node, last_ms, _end_ms(source), open=True)
            yield DeliveryRead(read.rows, (*read.gaps, gap), (*read.problems, problem))
            return
        yield read


def read_deliveries(source: DeliverySource, first: int = 0, count: int | None = None) -> DeliveryRead:
    """The same in one piece."""
    reads = list(delivery_blocks(source, first, count))
    rows = [read.rows.view(np.uint64) for read in reads]
    return DeliveryRead(
        np.concatenate(rows).view(DELIVERY) if rows else rows_none(),
        tuple(gap for read in reads for gap in read.gaps),
        tuple(problem for read in reads for problem in read.problems),
    )


def hand_overs(rows: Deliveries) -> Deliveries:
    """The starts and ends among the records."""
    return _of_kinds(rows, START, END)


def term_records(rows: Deliveries) -> Deliveries:
    """The records of terms begun and ended among them."""
    return _of_kinds(rows, TERM_BEGUN, TERM_ENDED)


def rows_none() -> Deliveries:
    """No records."""
    return np.empty(0, DELIVERY)


def _of_kinds(rows: Deliveries, one: int, other: int) -> Deliveries:
    kind = rows["kind"]
    wanted = (kind == one) | (kind == other)
    return rows if wanted.all() else take_rows(rows, np.flatnonzero(wanted))


def _checked(source: DeliverySource, first: int, rows: Rows, last_ms: int) -> DeliveryRead:
    good = sound(rows)
    if good.all():
        return DeliveryRead(rows)
    left = never_written(rows, good, first)
    whole = take_rows(rows, np.flatnonzero(good))
    problems = []
    for kind, wrong in ((UNWRITTEN, left), (DAMAGED, ~good & ~left)):
        at = np.flatnonzero(wrong) + first
        if len(at):
            what = (
                f"records {int(at[0])} to {int(at[-1])}: {'never written' if kind == UNWRITTEN else 'not as written'}"
            )
            problems.append(Problem(kind, source.node, _name(source), what, len(at)))
    ends = first + len(rows) >= source.rows
    return DeliveryRead(whole, tuple(_gaps(source, rows, good, last_ms, ends)), tuple(problems))


def _gaps(
    source: DeliverySource, rows: Rows, good: "np.ndarray[tuple[int], np.dtype[np.bool_]]", last_ms: int, ends: bool
) -> list[Gap]:
    """A gap for each run of rows that are not whole, bounded by the records beside it. `ends`: the file does with these
    rows."""
    edges = np.diff(good.astype(np.int8), prepend=np.int8(1), append=np.int8(1))
    at_ms = rows["at_ms"]
    gaps = []
    for start, end in zip(np.flatnonzero(edges == -1).tolist(), np.flatnonzero(edges == 1).tolist(), strict=True):
        before = int(at_ms[start - 1]) if start else last_ms
        # Exclusive: what is missing may be of the millisecond of the whole record behind it, as all of one pull are.
        until_ms = int(at_ms[end]) + 1 if end < len(rows) else _end_ms(source)
        gaps.append(Gap(source.node, before, until_ms, open=ends and end == len(rows)))
    return gaps


def _end_ms(source: DeliverySource) -> int:
    """No record of a file is of a later hour than its name says: that hour would have begun another file."""
    return (source.hour + 1) * HOUR_MS


def _name(source: DeliverySource) -> str:
    return f"deliveries/{source.path.name}"
