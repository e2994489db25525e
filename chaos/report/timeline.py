"""A run on one axis of time: faults, leaders, rates, lateness, duplicates; as text, JSON and a picture.

A verdict says if a promise held. The timeline shows what happened meanwhile. It reads the history alone, as the
checkers do, so it can be drawn again from the file. All times are seconds since the first event, by the observer's
monotonic clock.

A leader is known by two signs: a node says that it leads, or a hand-over of its term comes. A leader's time is shown
from its first sign. It ends with the fault that hit its node before the next term's first sign. So the white between
two leaders is time in which no node was seen to lead.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chaos.history.bounds import Bounds
from chaos.history.event import Answered, Crashed, Fault, HandedOver, Led, Offered, Transferred
from chaos.history.history import History
from chaos.history.repeats import repeats
from chaos.history.verdict import percentiles

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

#: The causes of repeats in a timeline. `retried`, a repeat after a failed attempt, is no duplicate.
CAUSES: Final = ("failover", "after_lease", "unexplained", "retried")
_CALLED: Final = {"same_name": "unexplained", "unnamed": "unexplained"}
#: Readable widths on an axis, seconds.
_WIDTHS_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0)


@dataclass(frozen=True)
class FaultSpan:
    """One fault from its begin to its end. `end_s` is None if it was not over at the end of the run."""

    kind: str
    node: str
    role: str
    detail: str
    begin_s: float
    end_s: float | None


@dataclass(frozen=True)
class SeenTerm:
    """A term, its leader ("": unknown), and the span in which that node was seen to lead."""

    term: int
    node: str
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class End:
    """A node's process ended by itself. `expected`: a fault on its disk explains it."""

    node: str
    at_s: float
    error: str
    expected: bool


@dataclass(frozen=True)
class TermChange:
    """The change from one seen term to the next: the time without a leader, and the failover duplicates. `span_ms`: the
    hand-over time that these duplicates span. `planned`: leadership was moved on purpose."""

    before: int
    after: int
    at_s: float
    gap_s: float
    planned: bool
    failover: int
    span_ms: int


@dataclass(frozen=True, eq=False)
class Bins:
    """The run in bins of equal width: row i is from `edges_s[i]` to `edges_s[i + 1]`. Counts are of events. The
    lateness of a bin, in ms, is that of the first hand-overs that came in it. NaN without one."""

    edges_s: Floats
    offered: Counts
    acknowledged: Counts
    not_acknowledged: Counts
    handed_over: Counts
    p50_ms: Floats
    p99_ms: Floats
    max_ms: Floats
    repeats: dict[str, Counts]

    @property
    def width_s(self) -> float:
        """The width of each bin."""
        return float(self.edges_s[1] - self.edges_s[0])


@dataclass(frozen=True, eq=False)
class Timeline:
    """One run on one axis of time. Arrays are seconds since the start, one element an event, in the order of the
    history. `lateness_ms[i]` is of the message that was first handed over at `first_s[i]`."""

    began_wall_ms: int
    length_s: float
    nodes: tuple[str, ...]
    faults: tuple[FaultSpan, ...]
    ends: tuple[End, ...]
    seen_terms: tuple[SeenTerm, ...]
    changes: tuple[TermChange, ...]
    offered_s: Floats
    acknowledged_s: Floats
    not_acknowledged_s: Floats
    handed_over_s: Floats
    first_s: Floats
    lateness_ms: Floats
    repeats_s: dict[str, Floats]
    """By cause, one of CAUSES: when the later hand-over came."""

    @classmethod
    def of(cls, history: History, bounds: Bounds) -> "Timeline":
        """Make the timeline of a history. Raises ValueError if it has no events."""
        if not history.events:
            raise ValueError("a history without events has no timeline")
        start = min(event.mono_ms for event in history.events)
        length_s = max((max(event.mono_ms for event in history.events) - start) / 1000, _WIDTHS_S[0])
        answers = history.of(Answered)
        first: list[HandedOver] = [min(each, key=_seen) for each in history.hand_overs().values()]
        came: dict[str, list[float]] = {cause: [] for cause in CAUSES}
        for repeat in repeats(history, bounds):
            came[_CALLED.get(repeat.cause, repeat.cause)].append(repeat.after.mono_ms)
        faults = _faults(history, start)
        seen_terms = _seen_terms(history, start, length_s, faults)
        return cls(
            began_wall_ms=min(event.wall_ms for event in history.events),
            length_s=length_s,
            nodes=_nodes(history, seen_terms),
            faults=faults,
            ends=tuple(
                End(each.node, (each.mono_ms - start) / 1000, each.error, each.expected) for each in history.of(Crashed)
            ),
            seen_terms=seen_terms,
            changes=_changes(history, bounds, seen_terms),
            offered_s=_seconds([event.mono_ms for event in history.of(Offered)], start),
            acknowledged_s=_seconds([each.mono_ms for each in answers if each.outcome == "acknowledged"], start),
            not_acknowledged_s=_seconds([each.mono_ms for each in answers if each.outcome != "acknowledged"], start),
            handed_over_s=_seconds([event.mono_ms for event in history.of(HandedOver)], start),
            first_s=_seconds([event.mono_ms for event in first], start),
            lateness_ms=np.array([event.wall_ms - event.asked_due_ms for event in first], np.float64),
            repeats_s={cause: _seconds(times, start) for cause, times in came.items()},
        )

    @property
    def duplicates(self) -> int:
        """Repeated hand-overs of a message, without those after a failed attempt."""
        return sum(len(times) for cause, times in self.repeats_s.items() if cause != "retried")

    def bins(self, count_max: int) -> Bins:
        """The run in at most `count_max` bins, of a readable width."""
        width_s = next((width for width in _WIDTHS_S if self.length_s / width <= count_max), self.length_s / count_max)
        count = max(1, int(np.ceil(self.length_s / width_s - 1e-9)))
        edges_s = np.arange(count + 1, dtype=np.float64) * width_s

        def counts(times_s: Floats) -> Counts:
            return np.bincount(np.minimum((times_s / width_s).astype(np.int64), count - 1), minlength=count)

        p50_ms, p99_ms, max_ms = _percentiles(self.first_s, self.lateness_ms, width_s, count)
        return Bins(
            edges_s=edges_s,
            offered=counts(self.offered_s),
            acknowledged=counts(self.acknowledged_s),
            not_acknowledged=counts(self.not_acknowledged_s),
            handed_over=counts(self.handed_over_s),
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            max_ms=max_ms,
            repeats={cause: counts(times_s) for cause, times_s in self.repeats_s.items()},
        )

    def totals(self) -> dict[str, object]:
        """Return the figures of the whole run: its length, and the numbers of faults, terms, messages and
        duplicates."""
        return {
            "length_s": round(self.length_s, 3),
            "faults": len(self.faults),
            "terms": len(self.seen_terms),
            "acknowledged": len(self.acknowledged_s),
            "not_acknowledged": len(self.not_acknowledged_s),
            "handed_over": len(self.handed_over_s),
            "messages": len(self.first_s),
            "duplicates": self.duplicates,
            **{cause: len(self.repeats_s[cause]) for cause in CAUSES},
            "span_ms_max": max((change.span_ms for change in self.changes), default=0),
            "lateness_ms": percentiles(self.lateness_ms.tolist()),
        }

    def document(self, count_max: int = 240) -> dict[str, Any]:
        """The timeline for programs: totals, faults, leaders, term changes and at most `count_max` bins, every list in
        order of time."""
        bins = self.bins(count_max)
        columns: dict[str, list[Any]] = {
            "begin_s": np.round(bins.edges_s[:-1], 3).tolist(),
            "offered": bins.offered.tolist(),
            "acknowledged": bins.acknowledged.tolist(),
            "not_acknowledged": bins.not_acknowledged.tolist(),
            "handed_over": bins.handed_over.tolist(),
            "lateness_p50_ms": _or_none(bins.p50_ms),
            "lateness_p99_ms": _or_none(bins.p99_ms),
            "lateness_max_ms": _or_none(bins.max_ms),
            **{cause: bins.repeats[cause].tolist() for cause in CAUSES},
        }
        return {
            "began_wall_ms": self.began_wall_ms,
            "totals": self.totals(),
            "nodes": list(self.nodes),
            "faults": [_rounded(fault) for fault in self.faults],
            "ends": [_rounded(end) for end in self.ends],
            "seen_terms": [_rounded(seen_term) for seen_term in self.seen_terms],
            "term_changes": [_rounded(change) for change in self.changes],
            "bin_s": round(bins.width_s, 3),
            "bins": columns,
        }


def _seen(event: HandedOver) -> float:
    return event.mono_ms


def _seconds(mono_ms: Sequence[float], start: float) -> Floats:
    return (np.array(mono_ms, np.float64) - start) / 1000


def _rounded(row: FaultSpan | End | SeenTerm | TermChange) -> dict[str, object]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in vars(row).items()}


def _or_none(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 1) for value in values]


def _percentiles(times_s: Floats, values: Floats, width_s: float, count: int) -> tuple[Floats, Floats, Floats]:
    """p50, p99 and the largest of the values in each bin."""
    found = np.full((3, count), np.nan)
    places = np.minimum((times_s / width_s).astype(np.int64), count - 1)
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(count + 1))
    for place in range(count):
        inside = values[order[starts[place] : starts[place + 1]]]
        if len(inside):
            found[:2, place] = np.percentile(inside, (50, 99))
            found[2, place] = inside.max()
    return found[0], found[1], found[2]


def _faults(history: History, start: float) -> tuple[FaultSpan, ...]:
    """The faults as spans: each begin is matched with the next end of the same kind at the same node."""
    spans: list[FaultSpan] = []
    still_open: dict[tuple[str, str], list[int]] = {}
    for event in history.of(Fault):
        at_s = (event.mono_ms - start) / 1000
        key = (event.kind, event.node)
        if event.phase == "begin":
            still_open.setdefault(key, []).append(len(spans))
            spans.append(FaultSpan(event.kind, event.node, event.role, event.detail, at_s, None))
        elif still_open.get(key):
            place = still_open[key].pop(0)
            span = spans[place]
            spans[place] = FaultSpan(span.kind, span.node, span.role, span.detail, span.begin_s, at_s)
    return tuple(spans)


def _nodes(history: History, seen_terms: Sequence[SeenTerm]) -> tuple[str, ...]:
    """All nodes that the history names, in order. Links and groups of nodes do not count."""
    named = {event.node for event in history.of(Answered)} | {event.node for event in history.of(HandedOver)}
    named |= {seen_term.node for seen_term in seen_terms} | {event.node for event in history.of(Fault)}
    return tuple(sorted(name for name in named if name and name.isalnum()))


def hits(target: str, node: str) -> bool:
    """True if a fault with this target hits this node: the node's id or `*` stands in the target."""
    names = target.replace(">", " ").replace("-", " ").replace("|", " ").replace(",", " ").split()
    return node in names or "*" in names


def _seen_terms(history: History, start: float, length_s: float, faults: Sequence[FaultSpan]) -> tuple[SeenTerm, ...]:
    """One row for each seen term, from its first sign to its last, or to the fault that ended it."""
    signs: dict[int, list[float]] = {}
    leaders: dict[int, str] = {}
    for event in history.events:
        if isinstance(event, HandedOver | Led):
            at_s = (event.mono_ms - start) / 1000
            span = signs.setdefault(event.term, [at_s, at_s])
            span[0], span[1] = min(span[0], at_s), max(span[1], at_s)
        if isinstance(event, Led):
            leaders[event.term] = event.leader
        elif isinstance(event, HandedOver) and event.pushed and event.node:  # a pull may be answered by any node
            leaders.setdefault(event.term, event.node)
    terms = sorted(signs)
    seen_terms: list[SeenTerm] = []
    for place, term in enumerate(terms):
        begin_s = signs[term][0] if place else 0.0
        until_s = signs[terms[place + 1]][0] if place + 1 < len(terms) else length_s
        name = leaders.get(term, "")
        last_s = min(signs[term][1], until_s)
        ended = (
            fault.begin_s for fault in faults if last_s - 0.25 <= fault.begin_s < until_s and hits(fault.node, name)
        )
        end_s = until_s if place + 1 == len(terms) else min(until_s, next(ended, until_s))
        seen_terms.append(SeenTerm(term, name, begin_s, max(begin_s, end_s)))
    return tuple(seen_terms)


def _changes(history: History, bounds: Bounds, seen_terms: Sequence[SeenTerm]) -> tuple[TermChange, ...]:
    """One row for each pair of neighbouring terms. Failover duplicates belong to the change that ended the term of the
    earlier hand-over."""
    planned = {event.term_before for event in history.of(Transferred)}
    earlier_ms: dict[int, list[int]] = {}
    for repeat in repeats(history, bounds):
        if repeat.cause == "failover":
            earlier_ms.setdefault(repeat.before.term, []).append(repeat.before.handed_over_ms)
    changes = []
    for before, after in itertools.pairwise(seen_terms):
        times = earlier_ms.get(before.term, [])
        changes.append(
            TermChange(
                before=before.term,
                after=after.term,
                at_s=after.begin_s,
                gap_s=max(0.0, after.begin_s - before.end_s),
                planned=before.term in planned,
                failover=len(times),
                span_ms=max(times) - min(times) if times else 0,
            )
        )
    return tuple(changes)
