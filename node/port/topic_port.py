"""The border between a front and a group for topics."""

from __future__ import annotations

from typing import Protocol

from api.port.port import TopicChange, TopicView
from node.port.plain import Count, Plain


class TopicAsked(Plain, frozen=True):
    """The topic of this name."""

    name: str


class TopicPut(Plain, frozen=True):
    """Set the settings that `change` names. `create`: a PUT, which replaces all."""

    name: str
    change: TopicChange
    create: bool
    if_match: Count | None = None


class TopicDrop(Plain, frozen=True):
    """Remove a topic all of whose messages have ended."""

    name: str
    if_match: Count | None = None


class TopicsAsked(Plain, frozen=True):
    """At most so many topics by name, behind `after`. `counts`: with their messages by state."""

    after: str
    most: Count
    counts: bool


class TopicPage(Plain, frozen=True):
    """Topics by name."""

    topics: tuple[TopicView, ...]


class TopicPort(Protocol):
    """Only the leader answers. Other nodes raise `no-leader`."""

    async def topic(self, asked: TopicAsked) -> TopicView:
        """Raises `unknown-topic`."""

    async def topics(self, asked: TopicsAsked) -> TopicPage:
        """Return a page. Counts take a pass over all messages."""

    async def put_topic(self, asked: TopicPut) -> TopicView:
        """Raises `unknown-topic` without `create`, `revision-mismatch`, `invalid-field`."""

    async def delete_topic(self, asked: TopicDrop) -> None:
        """Raises `unknown-topic`, `not-empty`, `revision-mismatch`, `over-limit`, `change-in-progress`."""
