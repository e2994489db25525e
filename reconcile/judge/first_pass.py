"""The first look: what has to be known before any bucket can be judged, and what has to be brought to its bucket.

Every file of the delivery log is read once: which terms there were, where records are missing, what times the accounts
cover; and the hand-overs of messages born in another hour than the file's are set aside for that hour (shuffle.py).
Those of the file's own hour stay where they are: who judges that hour reads the file again, which costs a second pass
over pages that are still in memory, and nothing is written for them. Hours that have moved units are read for what
stands there and belongs to messages born elsewhere.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ledger.bucket import BUCKET_UNITS, Bucket
from ledger.moved import abroad_of
from ledger.terms import merge_terms, terms_of
from reconcile.files.deliveries import Gap, delivery_blocks, hand_overs
from reconcile.files.find import DeliverySource
from reconcile.files.hour import read_headers, read_units, settle_blocks
from reconcile.files.inventory import HourPart, Inventory, Span
from reconcile.files.problem import Problem
from reconcile.files.read_rows import Rows, read_rows
from reconcile.judge.shuffle import BUCKET_BITS, Piece, buckets_of, scatter
from storage.file.delivery_file import DeliveryFile, Ends
from storage.format.rows import SETTLE, UNIT_MOVED, join_rows, take_rows
from storage.format.states import LEASED
from storage.record.delivery_record import DELIVERY

_EDGE_ROWS: Final = 4096
"""Settle records at the beginning and the end of an hour that are looked at for who leased when."""


class DeliveryTask(NamedTuple):
    """Survey one file of a delivery log; `numbers` are the buckets that exist in the file's hour, by number."""

    source: DeliverySource
    numbers: tuple[int, ...]


class MovedTask(NamedTuple):
    """Lift out of one bucket what belongs to messages born elsewhere."""

    part: HourPart
    span: Span


class EdgeTask(NamedTuple):
    """Look at the ends of an hour's settle file."""

    part: HourPart


SurveyTask = DeliveryTask | MovedTask | EdgeTask


@dataclass(frozen=True, slots=True)
class Account:
    """What one file of a node's delivery log covers."""

    node: str
    store: str
    """Of the files of one node those of one store go on with each other."""
    ends: Ends
    numbers: tuple[int, ...]
    """What the records call the node: one number, or more where files were mixed up."""


@dataclass(slots=True)
class Survey:
    """What was found; adds up over tasks."""

    hand_overs: int = 0
    """Start and end records that are whole."""
    moved: int = 0
    """Units that were appended by moves."""
    terms: list[Rows] = field(default_factory=list)
    """TERM rows of each file."""
    accounts: list[Account] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    strays: list[Piece] = field(default_factory=list)
    places: list[Piece] = field(default_factory=list)
    abroad: list[Piece] = field(default_factory=list)
    leased_ms: dict[int, int] = field(default_factory=dict)
    """Number of a node -> the earliest lease of its making that was come across."""
    settled_ms: int = 0
    """The newest time in any settle record that was come across."""
    delivered_ms: int = 0
    """The newest time in any record of a delivery log."""

    def add(self, other: "Survey") -> None:
        """Takes in what another task found."""
        self.hand_overs += other.hand_overs
        self.moved += other.moved
        for name in ("terms", "accounts", "gaps", "problems", "strays", "places", "abroad"):
            getattr(self, name).extend(getattr(other, name))
        for node, at_ms in other.leased_ms.items():
            self.leased_ms[node] = min(at_ms, self.leased_ms.get(node, at_ms))
        self.settled_ms = max(self.settled_ms, other.settled_ms)
        self.delivered_ms = max(self.delivered_ms, other.delivered_ms)


def survey_tasks(inventory: Inventory) -> list[SurveyTask]:
    """What to survey: each delivery file, the hours that have moved units or may have, and the ends of all."""
    numbers: dict[int, set[int]] = {}
    for part in inventory.hours:
        numbers.setdefault(part.hour, set()).update(span.first >> BUCKET_BITS for span in spans_of(part))
    tasks: list[SurveyTask] = [
        DeliveryTask(source, tuple(sorted(numbers.get(source.hour, ())))) for source in inventory.deliveries
    ]
    tasks += [EdgeTask(part) for part in inventory.hours]
    suspects = [part for part in inventory.hours if _may_have_moved(inventory, part)]
    tasks += [MovedTask(part, span) for part in suspects for span in spans_of(part)]
    return tasks


def spans_of(part: HourPart) -> list[Span]:
    """The units of one run in pieces that are judged at once: they begin at multiples of BUCKET_UNITS."""
    edges = [part.first, *range((part.first // BUCKET_UNITS + 1) * BUCKET_UNITS, part.next, BUCKET_UNITS), part.next]
    return [Span(part.hour, first, end - first) for first, end in pairwise(edges) if end > first]


def _may_have_moved(inventory: Inventory, part: HourPart) -> bool:
    """Unless a checkpoint vouches for all units and says that none was born elsewhere."""
    for node in inventory.nodes:
        lengths = node.lengths.get(part.hour)
        if lengths is not None and lengths.units >= part.units and not lengths.moved:
            return False
    return True


def survey(task: SurveyTask, scratch: Path) -> Survey:
    """Carries out one task; what has to be brought elsewhere is written below `scratch`."""
    if isinstance(task, DeliveryTask):
        return _survey_deliveries(task, scratch)
    if isinstance(task, MovedTask):
        return _survey_moved(task, scratch)
    return _survey_edges(task)


def _survey_deliveries(task: DeliveryTask, scratch: Path) -> Survey:
    found = Survey()
    source = task.source
    strays: list[Rows] = []
    terms: list[Rows] = []
    numbers: set[int] = set()
    whole_ms: list[int] = []
    for read in delivery_blocks(source):
        found.gaps += read.gaps
        found.problems += read.problems
        rows = read.rows
        if not len(rows):
            continue
        whole_ms += rows["at_ms"][[0, -1]].tolist()
        found.delivered_ms = max(found.delivered_ms, int(rows["at_ms"].max()))
        numbers |= set(np.flatnonzero(np.bincount(rows["node"])).tolist())
        terms.append(terms_of(rows))
        handed = hand_overs(rows)
        found.hand_overs += len(handed)
        hours, within = buckets_of(handed["home"])
        own = (hours == source.hour) & np.isin(within, task.numbers)
        if not own.all():
            strays.append(take_rows(handed, np.flatnonzero(~own)))
    found.terms = [merge_terms(terms)] if terms else []
    first, last = _row(source, 0), _row(source, source.rows - 1)
    ends = Ends.of(DeliveryFile(source.hour, source.sequence), first, last, source.rows, np.array(whole_ms, np.int64))
    found.accounts = [Account(source.node, source.store, ends, tuple(sorted(numbers)))]
    found.strays = scatter(join_rows(strays, DELIVERY), scratch, "strays")
    return found


def _row(source: DeliverySource, row: int) -> Rows:
    """One record, [1]; zeros where it cannot be read, nothing where the file has none."""
    try:
        return read_rows(source.path, DELIVERY, max(row, 0), min(1, source.rows))
    except OSError:
        return np.zeros(1, DELIVERY)


def _survey_moved(task: MovedTask, scratch: Path) -> Survey:
    found = Survey()
    span = task.span
    units = read_units(task.part, span.first, span.count)
    is_moved = units.rows["flags"] & np.uint32(UNIT_MOVED) > 0
    moved = take_rows(units.rows, np.flatnonzero(is_moved))
    if not len(moved):
        return found
    found.moved = len(moved)
    headers = read_headers(task.part, moved)
    found.problems += headers.problems
    theirs = [_of_units(read.rows, span.first, is_moved) for read in settle_blocks(task.part)]
    bucket = Bucket(0, span.hour, span.first, units.rows, join_rows(theirs, SETTLE), None, np.empty(0, DELIVERY))
    lifted = abroad_of(bucket, headers.rows)
    found.places = scatter(lifted.places, scratch, "places")
    found.abroad = scatter(lifted.settles, scratch, "abroad")
    return found


def _of_units(settles: Rows, first: int, wanted: npt.NDArray[np.bool_]) -> Rows:
    """Of these settle records those of the units first + i for which `wanted` says so, [n]: few of many."""
    at = settles["global_index"].astype(np.int64) - first
    within = np.flatnonzero((at >= 0) & (at < len(wanted)) & (settles["what"] > 0))
    return take_rows(settles, within[wanted[at[within]]])


def _survey_edges(task: EdgeTask) -> Survey:
    found = Survey()
    part = task.part
    starts = {0, max(0, part.settles - _EDGE_ROWS)}
    for start in starts:
        for read in settle_blocks(part, start, _EDGE_ROWS):
            rows = read.rows
            if not len(rows):
                continue
            found.settled_ms = max(found.settled_ms, int(rows["at_ms"].max()))
            leases = rows[rows["what"] == LEASED]
            for number in np.unique(leases["node"]).tolist():
                at_ms = int(leases["at_ms"][leases["node"] == number].min())
                found.leased_ms[number] = min(at_ms, found.leased_ms.get(number, at_ms))
    return found
