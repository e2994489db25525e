"""The service against parts that answer as told: what must hold whatever the client does meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from api.port import ANONYMOUS, Limits, TopicChange
from api.problem import Problem
from node.reign import Reign
from node.server import Node
from node.service import Service
from replication.apply_settle import CANCELLED, NONE
from storage.format import UNIT

POSITION = 5


class Dispatcher:
    """Notes what is held."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def hold(self, positions: list[int]) -> None:
        self.held += positions

    def release(self, positions: list[int]) -> None:
        for position in positions:
            self.held.remove(position)


def make_reign(dispatcher: Dispatcher) -> Reign:
    """A reign of its dispatcher alone."""
    reign = Reign.__new__(Reign)
    reign._dispatcher = cast(Any, dispatcher)
    reign.may_have_predecessor = False
    reign.promoted_ms = 0
    reign.trusted = lambda: True  # type: ignore[method-assign]
    reign.poke = lambda: None  # type: ignore[method-assign]
    return reign


def make_service(node: Any, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The service over a node that has these parts, with one message."""
    found = SimpleNamespace(position=POSITION), SimpleNamespace(created_ms=0)
    monkeypatch.setattr(Service, "_find", lambda self, id: found)
    node.config = SimpleNamespace(node_id="n1")
    node.draining = False
    node.store = SimpleNamespace(units=lambda at: np.zeros(len(at), UNIT))
    return Service(cast(Node, node), Limits())


def test_a_unit_is_held_until_its_cancel_has_a_result_though_the_client_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that goes away does not free the unit: the Cancel under way would miss the hand-over made meanwhile."""

    async def test() -> None:
        outcome: asyncio.Future[tuple[int, int, int]] = asyncio.get_running_loop().create_future()
        dispatcher = Dispatcher()
        proposer = SimpleNamespace(cancel=lambda position, doubtful: outcome)
        service = make_service(SimpleNamespace(reign=make_reign(dispatcher), proposer=proposer), monkeypatch)
        client = asyncio.create_task(service.cancel("x", if_match=None, principal=ANONYMOUS))
        await asyncio.sleep(0)
        assert dispatcher.held == [POSITION]
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        assert dispatcher.held == [POSITION]
        outcome.set_result((CANCELLED, 0, NONE))
        await asyncio.sleep(0)
        assert dispatcher.held == []

    asyncio.run(test())


def test_a_unit_is_held_past_an_unknown_outcome_until_a_later_command_is_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Cancel may still be applied: handed over before that, the unit would be cancelled as if nobody had it."""

    async def test() -> None:
        outcome: asyncio.Future[tuple[int, int, int]] = asyncio.get_running_loop().create_future()
        later = asyncio.Event()
        dispatcher = Dispatcher()

        async def propose_single(command: object) -> None:
            await later.wait()

        parts = SimpleNamespace(cancel=lambda position, doubtful: outcome, propose_single=propose_single)
        reign = make_reign(dispatcher)
        tasks: list[asyncio.Task[None]] = []
        node = SimpleNamespace(reign=reign, proposer=parts, spawn=lambda work: tasks.append(asyncio.create_task(work)))
        reign._node = cast(Any, node)
        reign._over = False
        client = asyncio.create_task(make_service(node, monkeypatch).cancel("x", if_match=None, principal=ANONYMOUS))
        await asyncio.sleep(0)
        outcome.set_exception(Problem("outcome-unknown", "disks stood still"))
        with pytest.raises(Problem, match="outcome-unknown"):
            await client
        assert dispatcher.held == [POSITION]
        later.set()
        await asyncio.gather(*tasks)
        assert dispatcher.held == []

    asyncio.run(test())


def test_no_topic_has_revision_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """If-Match "0" is refused; it must not pass for "whatever the revision is"."""
    topic = SimpleNamespace(revision=3)
    node = SimpleNamespace(reign=make_reign(Dispatcher()))
    service = make_service(node, monkeypatch)
    node.store.catalog = SimpleNamespace(topic=lambda name: topic)
    for create in (False, True):
        with pytest.raises(Problem, match="revision-mismatch: the topic has revision 3, If-Match asks for 0"):
            asyncio.run(service.put_topic("t", TopicChange(), create=create, if_match=0, principal=ANONYMOUS))
