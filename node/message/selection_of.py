"""Makes the selection of a query: numbers of topics and states in place of names."""

from __future__ import annotations

from api.port.queries import CountQuery
from node.message.topic_put import topic_named
from storage.format.predicate import Predicate
from storage.format.states import STANDINGS
from storage.query.selection import Selection
from storage.store import Store


def selection_of(store: Store, query: CountQuery) -> Selection:
    """Return the selection of the messages that a count or a list asks for. Raises `unknown-topic`."""
    topics = None if query.topic is None else [topic_named(store, query.topic).number]
    which = Predicate.of(topics, query.from_ms, query.to_ms, query.tag)
    return Selection(frozenset().union(*(STANDINGS[state] for state in query.states)), which)
