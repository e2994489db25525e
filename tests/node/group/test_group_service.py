"""The service against parts that answer as told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from api.port.port import TopicChange
from api.port.problem import Problem
from node.group.group_service import GroupService
from node.group.status_feed import StatusFeed
from node.handover.term import Leadership
from node.node import Node
from node.port.group_port import GroupStatus
from node.port.message_port import MessageAsked
from node.port.topic_port import TopicPut
from storage.file.disk import Disk
from storage.format.message_id import encode_id
from tests.node.single_node import run_node

#: What the parts of the service are given by name, asked or not.
NAMED = (
    *("store", "clock", "entropy", "proposer", "counting", "group"),
    *("driver", "delivery_log", "topic_metrics", "counters", "reserve", "members", "peers", "levels", "in_hand"),
)


def make_service(**parts: Any) -> GroupService:
    """The service of a node that leads and has these parts."""
    life: Any = SimpleNamespace(draining=False)
    leadership = Leadership(life)
    leadership.term = cast(Any, SimpleNamespace(term=1, trusted=lambda: True))
    parts |= {"deliveries": Path("deliveries"), "disk": Disk()}
    for name in NAMED:
        parts.setdefault(name, SimpleNamespace(require=lambda feature: None))
    parts["store"].group, parts["tick"] = 0, lambda: 0
    limits = SimpleNamespace(max_topics=10, max_delay_ms=1_000)
    config = SimpleNamespace(node_id="n1", http_names=(), storage=SimpleNamespace(retention_ms=0), limits=limits)
    named = SimpleNamespace(config=config, life=life, leadership=leadership, **parts)
    return GroupService(cast(Any, named), StatusFeed(lambda: GroupStatus(group=0, node="n1")))


def put(service: GroupService, change: TopicChange, *, create: bool, if_match: int | None = None) -> Any:
    """PUT or PATCH of the topic t."""
    return asyncio.run(service.put_topic(TopicPut("t", change, create, if_match)))


def test_no_topic_has_revision_0() -> None:
    """If-Match "0" is refused; it must not pass for "whatever the revision is"."""
    topic = SimpleNamespace(revision=3)
    service = make_service(store=SimpleNamespace(catalog=SimpleNamespace(topic=lambda name: topic)))
    for create in (False, True):
        with pytest.raises(Problem, match="revision-mismatch: the topic has revision 3, If-Match asks for 0"):
            put(service, TopicChange(), create=create, if_match=0)


def test_a_change_that_leaves_a_target_without_url_is_refused() -> None:
    """What a PATCH merges is known here only; a PUT starts from nothing."""
    topic = SimpleNamespace(revision=1, settings={"target": {"url": "http://x/"}})
    service = make_service(store=SimpleNamespace(catalog=SimpleNamespace(topic=lambda name: topic)))
    for target, create in (({"timeout_ms": 5}, True), ({"url": None}, False)):
        with pytest.raises(Problem) as refused:
            put(service, TopicChange(target=target), create=create)
        assert [fault.pointer for fault in refused.value.errors] == ["/target/url"]


class _Unsure:
    """A term that is not sure to lead until the next echoes."""

    term = 1

    def __init__(self, *, comes_back: bool) -> None:
        self.waited = 0
        self._sure, self._comes_back = False, comes_back

    def trusted(self) -> bool:
        """As a term's."""
        return self._sure

    async def sure(self) -> None:
        """The echoes come."""
        self.waited += 1
        await asyncio.sleep(0)
        self._sure = self._comes_back


def test_a_request_waits_for_the_next_echoes_of_a_leader_that_is_not_sure() -> None:
    """Nothing has happened yet: the client need not be told to come again."""
    topic = SimpleNamespace(revision=3)
    service = make_service(store=SimpleNamespace(catalog=SimpleNamespace(topic=lambda name: topic)))
    term = _Unsure(comes_back=True)
    service._leadership.term = cast(Any, term)
    with pytest.raises(Problem, match="revision-mismatch"):
        put(service, TopicChange(), create=True, if_match=0)
    assert term.waited == 1


def test_a_leader_that_does_not_become_sure_refuses() -> None:
    """It has stepped down, or cannot tell within a second."""
    service = make_service(group=SimpleNamespace(leader_id="n1"))
    service._leadership.term = cast(Any, _Unsure(comes_back=False))
    with pytest.raises(Problem, match="not sure to lead; nothing happened"):
        put(service, TopicChange(), create=True, if_match=0)


def test_a_node_that_does_not_lead_yet_knows_nothing_of_a_message(tmp_path: Path) -> None:
    """One that was just elected may lack what the leader before it has answered. It said that no message has the id."""

    async def play(node: Node) -> None:
        unknown = encode_id(0, 1 << 40, 7)
        with patch.object(node.group.leadership, "_term", None):
            with pytest.raises(Problem, match="no-leader"):
                await node.group.port.message(MessageAsked(unknown))
            with pytest.raises(Problem, match="unknown-message"):
                await node.group.port.message(MessageAsked(unknown, local=True))

    run_node(tmp_path / "n1", play)
