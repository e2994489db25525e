"""The terms in which nodes led, from the nodes' own accounts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ledger.bucket import TERM, Rows
from ledger.by_message import lift
from storage.format.array import I64
from storage.format.position import MS_PER_TICK
from storage.record.delivery_record import GOES_ON, START, TERM_BEGUN, TERM_ENDED, term_before

_NEVER: Final = np.iinfo(np.int64).max
_SEEN: Final = (START, TERM_BEGUN, TERM_ENDED)
"""Kinds of record that a node writes only while it leads, so that their time belongs to their term. The end of a
hand-over (END) is no such record: it has the term of the hand-over, which may be over when the end is written."""


def terms_of(deliveries: Rows) -> Rows:
    """Make TERM rows, in order of term and node, from DELIVERY rows of any kind and in any order. A term without a
    record of its beginning has `begun_ms` 0."""
    fields = ["kind", "term", "node", "at_ms", "code", "random", "home", "took_ms", "tick"]
    kind = deliveries["kind"]
    its = np.flatnonzero(np.isin(kind, _SEEN) | ((kind == GOES_ON) & (deliveries["random"] > 0)))
    kind, term, node, at_ms, code, random, home, took_ms, tick = lift(deliveries, fields, its)
    name = term.astype(np.uint64) << np.uint64(16) | node
    names, which = np.unique(name, return_inverse=True)
    terms = np.zeros(len(names), TERM)
    terms["term"], terms["node"] = names >> np.uint64(16), names & np.uint64(0xFFFF)
    begun, ended = kind == TERM_BEGUN, kind == TERM_ENDED
    begun_ms: I64 = np.full(len(names), _NEVER)
    np.minimum.at(begun_ms, which[begun], at_ms[begun])
    terms["begun_ms"] = np.where(begun_ms == _NEVER, 0, begun_ms)
    latest_ms = np.zeros(len(names), np.int64)
    np.maximum.at(latest_ms, which[~ended], at_ms[~ended])
    terms["seen_ms"] = latest_ms
    starts = kind == START
    np.maximum.at(terms["acted_ms"], which[starts], at_ms[starts])
    first_ms: I64 = np.full(len(names), _NEVER)
    np.minimum.at(first_ms, which, at_ms)
    terms["first_ms"] = first_ms
    marked = (kind != START) & (random > 0)
    found_ms: I64 = np.full(len(names), _NEVER)
    # A later file of the term may alone be left. The tick in its first record is not below the one that was found.
    said = begun | (marked & ~ended)
    np.minimum.at(found_ms, which[said], tick[said] * MS_PER_TICK)
    terms["found_ms"] = np.where(found_ms == _NEVER, 0, found_ms)
    terms["marked"][which[marked]] = 1
    terms["before"][which[marked]] = term_before(kind, home, took_ms)[marked]
    order = np.argsort(at_ms[ended], kind="stable")  # of several records of an end the latest stays
    terms["ended_ms"][which[ended][order]] = at_ms[ended][order]
    terms["how"][which[ended][order]] = code[ended][order]
    return terms


def merge_terms(parts: Sequence[Rows]) -> Rows:
    """Merge several parts of TERM rows into one row for each term, in order of term, for Context.terms.

    As long as every node votes once in a term, no two nodes lead in one term. If the records of two nodes name the same
    term all the same, the row of the node that began it first is taken. `rival_terms` names such terms.
    """
    merged = _by_term_and_node(parts)
    order = np.lexsort((np.where(merged["begun_ms"] > 0, merged["begun_ms"], _NEVER), merged["term"]))
    _, first = np.unique(merged["term"][order], return_index=True)
    return merged[order[first]]


def rival_terms(parts: Sequence[Rows]) -> list[int]:
    """The terms that more than one node recorded as its own."""
    terms, count = np.unique(_by_term_and_node(parts)["term"], return_counts=True)
    found: list[int] = terms[count > 1].tolist()
    return found


def _by_term_and_node(parts: Sequence[Rows]) -> Rows:
    rows = np.concatenate([np.zeros(0, TERM), *parts])
    name = rows["term"].astype(np.uint64) << np.uint64(16) | rows["node"]
    names, first, which = np.unique(name, return_index=True, return_inverse=True)
    merged = rows[first]
    for field in ("begun_ms", "found_ms"):
        least_ms: I64 = np.full(len(names), _NEVER)
        np.minimum.at(least_ms, which, np.where(rows[field] > 0, rows[field], _NEVER))
        merged[field] = np.where(least_ms == _NEVER, 0, least_ms)
    order = np.argsort(rows["ended_ms"], kind="stable")
    for field in ("ended_ms", "how"):
        merged[field][which[order]] = rows[field][order]
    for field in ("seen_ms", "acted_ms", "before", "marked"):
        np.maximum.at(merged[field], which, rows[field])
    np.minimum.at(merged["first_ms"], which, rows["first_ms"])
    return merged
