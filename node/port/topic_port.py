"""The border between a front and a group for topics."""

from __future__ import annotations

from typing import Protocol

from api.port.port import TopicChange, TopicView
from node.port.plain import Count, Plain


class TopicAsked(Plain, frozen=True):
    """The topic of this name."""

    name: str


class TopicPut(Plain, frozen=True):
    """A change of the settings that `change` names. `create`: it is a PUT, which names all settings and makes the topic
    if it does not exist."""

    name: str
    change: TopicChange
    create: bool
    if_match: Count | None = None


class TopicDrop(Plain, frozen=True):
    """A request to remove a topic. It is refused unless all messages of the topic have ended, and unless the topic has
    the revision `if_match` (None: any)."""

    name: str
    if_match: Count | None = None


class TopicsAsked(Plain, frozen=True):
    """A page of at most `most` topics, by name, behind the name `after`. `counts`: with the number of their messages by
    state."""

    after: str
    most: Count
    counts: bool


class TopicPage(Plain, frozen=True):
    """Topics, sorted by name."""

    topics: tuple[TopicView, ...]


class TopicPort(Protocol):
    """The calls about topics. Only the leader answers. Other nodes raise `no-leader`."""

    async def topic(self, asked: TopicAsked) -> TopicView:
        """Return a topic. Raises `unknown-topic`."""

    async def topics(self, asked: TopicsAsked) -> TopicPage:
        """Return a page of topics. With counts it takes a pass over all messages."""

    async def put_topic(self, asked: TopicPut) -> TopicView:
        """Set settings of a topic, and return it. Raises `unknown-topic` without `create`, `revision-mismatch`,
        `invalid-field`."""

    async def delete_topic(self, asked: TopicDrop) -> None:
        """Remove a topic. Raises `unknown-topic`, `not-empty`, `revision-mismatch`, `over-limit`,
        `change-in-progress`."""
