"""The service against parts that answer as told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.port import ANONYMOUS, Limits, TopicChange
from api.problem import Problem
from node.server import Node
from node.service import Service
from storage.disk import Disk


def make_service(**parts: Any) -> Service:
    """The service of a node that leads and has these parts."""
    reign = SimpleNamespace(trusted=lambda: True)
    parts |= {"directory": SimpleNamespace(deliveries=Path("deliveries")), "disk": Disk()}
    node = SimpleNamespace(config=SimpleNamespace(node_id="n1"), draining=False, reign=reign, **parts)
    return Service(cast(Node, node), Limits())


def put(service: Service, change: TopicChange, *, create: bool, if_match: int | None = None) -> Any:
    """PUT or PATCH of the topic t."""
    return asyncio.run(service.put_topic("t", change, create=create, if_match=if_match, principal=ANONYMOUS))


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
