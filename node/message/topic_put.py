"""Sets a topic's settings as a client asks. A PATCH changes the present settings, a PUT replaces them all."""

from __future__ import annotations

from api.port.port import TopicView
from api.port.problem import Problem
from node.handover.term import Term
from node.message.topic import check_target, settings_of, view_topic
from node.port.topic_port import TopicPut
from node.write.once_queue import Requests
from replication.command.topic import PutTopic
from storage.store import Store
from storage.tables.topic import Topic, subscription_of


def topic_named(store: Store, name: str) -> Topic:
    """Return the topic of this name. Raises `unknown-topic`."""
    topic = store.catalog.topic(name)
    if topic is None:
        raise Problem("unknown-topic", f"no topic is named {name}; scheduling to it or PUT creates it")
    return topic


async def put_topic(store: Store, proposer: Requests, term: Term, asked: TopicPut) -> TopicView:
    """Create or change a topic (see TopicPort), and return it as it is then. Raises `revision-mismatch`,
    `unknown-topic`, `invalid-field`. The caller has checked that this node leads."""
    name, create, if_match = asked.name, asked.create, asked.if_match
    topic = store.catalog.topic(name) if create else topic_named(store, name)
    if if_match == 0:  # no topic has revision 0, and in the command 0 means any
        raise another_revision(topic, if_match)
    settings = settings_of(asked.change)
    if create:
        settings = {key: value for key, value in settings.items() if value is not None}
    check_target(settings, None if create else topic)
    command = PutTopic("default", name, settings, replace=create, revision=if_match or 0)
    if topic is not None and settings.get("handover") == "strict":
        term.handing_over.strict.expect(subscription_of(topic.number))
    put = await proposer.put_topic(command)
    if not put.changed or put.topic is None:
        if put.topic is not None:
            term.handing_over.strict.on_settings(subscription_of(put.topic.number), put.topic.settings)
        raise another_revision(put.topic, if_match)
    return view_topic(put.topic)


def another_revision(topic: Topic | None, if_match: int | None) -> Problem:
    """The Problem for a topic whose revision is not the one that the client named."""
    found = topic.revision if topic else "none"
    return Problem("revision-mismatch", f"the topic has revision {found}, If-Match asks for {if_match}")
