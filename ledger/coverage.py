"""Coverage of the nodes' delivery logs: for which times and terms the absence of a record proves something.

A missing record of a hand-over proves that there was no hand-over only if all logs are there. Every node that could
have made it must have given its log of that time, without a gap. Otherwise nothing is concluded. Two cases look like
full coverage and are not:

- No log has a record of the term. Every leader begins its term with a record in its log, so that log was lost with its
  disk.
- A term's log has no end record. It is trusted up to its last record only. A start record is written before its Lease
  is proposed (in a strict topic: before the Lease is applied). So a Lease without a start means that the end of the log
  was lost, or had not been written when the log was read.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ledger.bucket import Context, Rows
from storage.format.array import I64, U16, U32

_Bools = npt.NDArray[np.bool_]
_EVER = np.iinfo(np.int64).max


class Coverage:
    """Answers for which times and terms the accounts of a Context are complete."""

    def __init__(self, context: Context) -> None:
        self._seen = {node: _seen(context.covered, context.gaps, node) for node in context.nodes}
        terms = context.terms
        self._terms, self._leaders = terms["term"].copy(), terms["node"].copy()
        self._told_ms = np.where(terms["ended_ms"] > 0, _EVER, terms["seen_ms"])

    def of_term(self, term: U32, at_ms: I64) -> _Bools:
        """Return a boolean array [n]. An entry is True if an account has a record of the term later than `at_ms`, or
        the record of the term's end."""
        if not len(self._terms):
            return np.zeros(len(term), np.bool_)
        row = np.minimum(self._terms.searchsorted(term), len(self._terms) - 1)
        told: _Bools = (self._terms[row] == term) & (at_ms < self._told_ms[row])
        return told

    def leader_of(self, term: U32) -> U16:
        """The node that led each term, [n]. The number means nothing where no account has records of the term."""
        if not len(self._terms):
            return np.zeros(len(term), np.uint16)
        leaders: U16 = self._leaders[np.minimum(self._terms.searchsorted(term), len(self._terms) - 1)]
        return leaders

    def of_node(self, node: U16, from_ms: I64, until_ms: I64) -> _Bools:
        """Return a boolean array [n]. An entry is True if this node's account covers all of from_ms <= t <=
        until_ms."""
        seen = np.zeros(len(node), np.bool_)
        for number, spans in self._seen.items():
            its = node == number
            seen[its] = _within(spans, from_ms[its], until_ms[its])
        return seen

    def of_all(self, from_ms: I64, until_ms: I64) -> _Bools:
        """Return a boolean array [n]. An entry is True if the accounts of all nodes cover all of from_ms <= t <=
        until_ms. All are False if the Context names no node."""
        seen = np.full(len(from_ms), bool(self._seen), np.bool_)
        for spans in self._seen.values():
            seen &= _within(spans, from_ms, until_ms)
        return seen


def _seen(covered: Rows, gaps: Rows, node: int) -> tuple[I64, I64]:
    """Return begin and end (exclusive) of each span that this node's account covers, without the times of its gaps.

    Spans and gaps of node 0 count for every node. The result is in order, and spans that touch are joined.
    """
    changes: dict[int, list[int]] = {}  # moment -> how many more spans, and how many more gaps, from then on
    for which, rows in enumerate((covered, gaps)):
        its = rows[((rows["node"] == node) | (rows["node"] == 0)) & (rows["from_ms"] < rows["until_ms"])]
        for begin_ms, end_ms in zip(its["from_ms"].tolist(), its["until_ms"].tolist(), strict=True):
            changes.setdefault(begin_ms, [0, 0])[which] += 1
            changes.setdefault(end_ms, [0, 0])[which] -= 1
    edges: list[int] = []
    spans = holes = 0
    for at_ms in sorted(changes):
        seen = spans > 0 and not holes
        spans, holes = spans + changes[at_ms][0], holes + changes[at_ms][1]
        if seen != (spans > 0 and not holes):
            edges.append(at_ms)
    return np.array(edges[::2], np.int64), np.array(edges[1::2], np.int64)


def _within(spans: tuple[I64, I64], from_ms: I64, until_ms: I64) -> _Bools:
    begins, ends = spans
    if not len(begins):
        return np.zeros(len(from_ms), np.bool_)
    at = begins.searchsorted(from_ms, "right") - 1
    found: _Bools = (at >= 0) & (until_ms < ends[np.maximum(at, 0)])
    return found
