"""Finds times of which no account tells, by comparing terms, and the messages that may have been handed over in them.

    term 5  n1  |begun .. a hand-over|            n1 lost power: its last records went with it, and its end
    term 6                                        no account tells of it: its log was lost with its disk
    term 7  n2                          |begun, after term 6 by the log ...
                 <------ 5 -------------->        from the last record of 5 to the first of the next term on record
             <---------- 6 -------------->        from CLOCKS_MS before the last record of the terms before it

A marked term (from level 3 on) names the term before it in the Raft log. A marked term may have no record of its end.
Then a power cut took its newest records, or its leader is cut off. If only the process was killed, its node writes the
end as soon as it is back (storage/file/delivery_end.py). An unmarked term before a marked one may have lost its end in
a power cut too.

A missing time ends when the next leader began. That moment is by this leader's clock, so CLOCKS_MS are added. If its
clock was even behind the second that it found dispatched in the log, that second counts instead. If clocks were set
back meanwhile, nothing tells how far they had come in the lost terms. Such a time has no end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ledger.bucket import SPAN, Bucket, Context, Rows
from ledger.columns import Columns
from storage.catalog.doubt import CLOCKS_MS
from storage.format.array import I64
from storage.format.position import EVER_MS, MS_PER_TICK

NOBODY = 0
"""Stands for the number of a node in a span if it is not known which node led."""


def unrecorded(terms: Rows, window_ms: int) -> Rows:
    """SPAN rows of times that these TERM rows, in order of term, show to be missing. Missing terms that follow each
    other make one span. Spans begin at `window_ms` at the earliest: files of older times may have been removed by
    age."""
    told = set(terms["term"].tolist())
    spans: list[tuple[int, int, int, int, int]] = []
    for row, term in enumerate(terms):
        before = terms[row - 1] if row else np.zeros(1, terms.dtype)[0]
        first_ms, until_ms = int(term["first_ms"]), int(_led_until_ms(term))
        if (before["marked"] or (row and term["marked"])) and not before["ended_ms"]:
            seen_ms = int(before["seen_ms"])
            spans += _span(int(before["node"]), min(seen_ms, first_ms), until_ms, seen_ms, window_ms)
        if term["marked"] and term["before"] and int(term["before"]) not in told:
            seen_ms = _seen_before(terms, row)
            set_back = seen_ms > until_ms
            # A leader that stood still may write its end late. Its last act counts.
            from_ms = min(seen_ms - CLOCKS_MS, first_ms) if row and not set_back else 0
            spans += _span(NOBODY, from_ms, until_ms, seen_ms, window_ms)
    return np.array(spans, SPAN)


def beyond(terms: Rows, moment_ms: int, searched_ms: int, window_ms: int) -> Rows:
    """SPAN rows of terms whose leader's clock was ahead, so that some of its hand-overs are not in the accounts.

    Such a leader recorded hand-overs for times after `moment_ms`, the moment of the ledger. Or it recorded them for
    times after `searched_ms`, up to which the delivery logs were searched. By other clocks the next term had begun
    before those times.

    The first span of a term ends, by other clocks, where the next term began. If the leader recorded times after
    `moment_ms`, these make a second span with `ahead`. In it begins the time of messages that this leader created, and
    of those that it handed over before they were due by other clocks.
    """
    acted_ms, next_ms = terms["acted_ms"], _least_later(terms["first_ms"])
    to_come = (acted_ms > moment_ms) & (next_ms <= moment_ms)
    not_searched = (acted_ms > searched_ms) & (next_ms < acted_ms - CLOCKS_MS)
    over_ms = np.minimum(_least_later(_led_until_ms(terms)), acted_ms + 1)
    led_ms = np.maximum(terms["first_ms"], acted_ms)
    led_ms[led_ms > next_ms] = 0  # the clock of that term's leader was ahead too, so its times do not count
    spans: list[tuple[int, int, int, int, int]] = []
    for row in np.flatnonzero(to_come | not_searched).tolist():
        node, until_ms = int(terms["node"][row]), int(over_ms[row])
        from_ms = min(int(led_ms[:row].max(initial=0)), until_ms) - CLOCKS_MS
        spans.append((node, 0, 0, max(from_ms, window_ms), until_ms))
        if acted_ms[row] > moment_ms:
            spans.append((node, 1, 0, moment_ms + 1, int(acted_ms[row]) + 1))
    return np.array(spans, SPAN)


def _span(node: int, from_ms: int, until_ms: int, seen_ms: int, window_ms: int) -> list[tuple[int, int, int, int, int]]:
    """The SPAN row of a missing time, or no row if it was over before the window.

    Other nodes led until `until_ms` at most. `seen_ms` is the latest time in the records before the missing ones. If it
    is after `until_ms`, clocks were set back, and the span has no end (EVER_MS).
    """
    if max(until_ms - CLOCKS_MS, seen_ms) <= window_ms:
        return []
    return [(node, 0, 0, max(from_ms, window_ms), EVER_MS if seen_ms > until_ms else until_ms)]


def _seen_before(terms: Rows, row: int) -> int:
    """The latest time in the records of the terms before this row, back to the first marked one, which counts too.
    Before an unmarked term there may be lost terms as well, so its times alone are not enough."""
    at, seen_ms = row, 0
    while at:
        at -= 1
        seen_ms = max(seen_ms, int(terms["seen_ms"][at]))
        if terms["marked"][at]:
            break
    return seen_ms


def closed(holes: Rows, terms: Rows) -> Rows:
    """Return a copy of these SPAN rows, holes at the ends of accounts, in which each hole ends as early as is proven.

    No record of the hole's term stands behind it. So it ends at the latest where another node begins a later marked
    term. If this node led again after that and those records are lost, the terms show it (`unrecorded`). A later term
    has a higher number than all terms that this node began before the hole. Its time alone proves nothing: by another
    clock an earlier term may seem to begin behind the hole.
    """
    holes = holes.copy()
    for hole in holes:
        its = terms[(terms["node"] == hole["node"]) & (terms["first_ms"] <= hole["from_ms"])]
        later = terms[(terms["first_ms"] > hole["from_ms"]) & (terms["node"] != hole["node"]) & (terms["marked"] > 0)]
        later = later[later["term"] > its["term"].max(initial=0)]
        if len(later):
            hole["until_ms"] = min(int(hole["until_ms"]), int(_led_until_ms(later).min()))
    return holes


def _led_until_ms(terms: Rows) -> I64:
    """Until when other nodes can have led before each of these terms, [n]: its first moment and CLOCKS_MS. If that
    moment is before the second that its leader found dispatched, its clock is wrong, and the end of that second
    counts."""
    first_ms, found_ms = terms["first_ms"], terms["found_ms"]
    until_ms: I64 = np.where(found_ms > first_ms, found_ms + MS_PER_TICK, first_ms) + CLOCKS_MS
    return until_ms


def _least_later(at_ms: I64) -> I64:
    """For each row the smallest time among all rows behind it, [n]. EVER_MS for the last row."""
    least: I64 = np.minimum.accumulate(np.append(at_ms, EVER_MS)[::-1])[::-1][1:]
    return least


class Open:
    """The span of time in which each of a bucket's n messages can have been handed over: from `from_ms` to `until_ms`,
    [n] each."""

    def __init__(self, bucket: Bucket, rows: Columns, context: Context) -> None:
        self.from_ms: I64 = np.minimum(bucket.units["due_ms"], rows["due_ms"])
        at = (bucket.places["home"] - rows["home"][0]).view(np.int64)
        within = (at >= 0) & (at < len(self.from_ms))
        np.minimum.at(self.from_ms, at[within], bucket.places["due_ms"][within])
        created_ms, settled_ms = rows["created_ms"], rows["settled_ms"]
        self.from_ms = np.maximum(self.from_ms, created_ms)
        # The clock of the leader that created it was ahead. No record tells when that was by other clocks.
        self.from_ms[(settled_ms > 0) & (settled_ms < created_ms - CLOCKS_MS)] = 0
        self.until_ms: I64 = np.where(settled_ms > 0, settled_ms, context.until_ms)

    def within(self, span: np.void) -> npt.NDArray[np.bool_]:
        """Return a boolean array [n], True for messages whose span overlaps that of a SPAN row. If the row is `ahead`,
        only messages whose span begins in it are True."""
        last_ms = self.from_ms if span["ahead"] else self.until_ms
        found: npt.NDArray[np.bool_] = (self.from_ms < span["until_ms"]) & (last_ms >= span["from_ms"])
        return found


def unseen(
    bucket: Bucket, rows: Columns, born: npt.NDArray[np.bool_], context: Context
) -> tuple[npt.NDArray[np.bool_], tuple[int, ...]]:
    """Return a boolean array [n], True for messages born here that may have been handed over in a gap. Also return the
    ordinals of those gaps."""
    hidden = np.zeros(len(bucket.units), np.bool_)
    gaps: list[int] = []
    if len(context.gaps) and len(hidden):
        open_ = Open(bucket, rows, context)
        for row, gap in enumerate(context.gaps):
            within = open_.within(gap) & born
            if within.any():
                gaps.append(row)
                hidden |= within
    return hidden, tuple(gaps)
