"""The cursor of a list of messages: the point where the next page begins, for one query in one cluster."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from api.port.problem import FieldFault, Problem
from api.port.queries import ListQuery
from storage.format.position import HOUR_MS, INDEX_BITS
from storage.query.page import PageStart

NAMESPACE: Final = b"default"
"""The namespace of all messages, until there are others."""

_CURSOR: Final = re.compile(r"([0-9a-f]{12})-([0-9a-f]{16})-([0-9a-f]{8})-([0-9a-f]{16})", re.ASCII)


def write_cursor(spot: PageStart, query: ListQuery, cluster: bytes) -> str:
    """Return the cursor of a page of this query that begins at this point. `cluster` is the cluster's id."""
    return f"{spot.due_ms:012x}-{spot.place:016x}-{_of_cluster(cluster)}-{_of_query(query)}"


def read_cursor(text: str, query: ListQuery, cluster: bytes) -> PageStart:
    """Return the point where the page begins. Raises `invalid-field` for text that is no cursor, and for a cursor of
    another query or another cluster."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise _refused("the cursor is not one of a list of messages; send next_cursor as it came")
    due_ms, place, of_cluster, of_query = match.groups()
    if of_cluster != _of_cluster(cluster):
        raise _refused("the cursor is of another cluster; begin with the first page here")
    if of_query != _of_query(query):
        raise _refused("the cursor is of another query; send topic, from, to, tag and state as for the page before")
    spot = PageStart(int(due_ms, 16), int(place, 16))
    if spot.place and spot.place >> INDEX_BITS != spot.due_ms // HOUR_MS:
        raise _refused("the cursor names no place; send next_cursor as it came")
    return spot


def _of_cluster(cluster: bytes) -> str:
    return blake2b(cluster, digest_size=4).hexdigest()


def _of_query(query: ListQuery) -> str:
    """A hash of the namespace and the fields that select messages. Size of the page and bodies may change from page to
    page."""
    fields = (query.topic, query.from_ms, query.to_ms, query.tag, *query.states)
    return blake2b(NAMESPACE + b"\0" + repr(fields).encode(), digest_size=8).hexdigest()


def _refused(detail: str) -> Problem:
    return Problem("invalid-field", f"cursor: {detail}", errors=[FieldFault("", detail, parameter="cursor")])
