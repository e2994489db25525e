"""Cancel and reschedule against parts that answer as told: what must hold whatever the client does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from api.port.port import ANONYMOUS
from api.port.problem import Problem
from api.port.timestamp import render_time
from node.handover.command_holds import CommandHolds
from node.handover.handing_over import HandingOver
from node.message import change as message_change
from node.message import view as message_view
from node.message.change import MessageChange
from node.message.view import FoundMessage
from node.node import Node
from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import LEASED
from replication.apply.message.running_sets import NONE
from storage.catalog.doubt import CLOCKS_MS
from storage.format.rows import SETTLE, UNIT, Settles
from storage.format.states import LEASED as LEASED_FOR
from tests.calls import calls_of
from tests.node.consumers import ASKS, handed_over
from tests.node.single_node import run_node

HOME, PLACE = 5, 9
Outcome = asyncio.Future[tuple[int, int, int]]


class Held:
    """A dispatcher that notes what is held."""

    def __init__(self) -> None:
        self.names: list[int] = []

    def hold(self, names: list[int]) -> None:
        self.names += names

    def release(self, names: list[int]) -> None:
        for name in names:
            self.names.remove(name)


class Play:
    """A change of one message whose outcome the test decides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = FoundMessage(HOME, PLACE, cast(Any, SimpleNamespace(body=b"", created_ms=0, extension={"revision": 3})))
        monkeypatch.setattr(message_change, "find", lambda store, id: found)
        self.outcome: Outcome = asyncio.get_running_loop().create_future()
        self.held = Held()
        self.later = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self.orders: list[Any] = []
        self.newest_term = 1
        proposer: Any = SimpleNamespace(
            cancel=self._order, reschedule=self._order, propose_single=lambda command: self.later.wait()
        )
        life: Any = SimpleNamespace(spawn=lambda work: self.tasks.append(asyncio.create_task(work)))
        self.term: Any = SimpleNamespace(term=1, doubts=lambda homes, *_: homes < 0)
        held = cast(HandingOver, self.held)
        self.term.holding = CommandHolds(proposer, life, held, poke=lambda: None, over=lambda: False)
        store: Any = SimpleNamespace(units=lambda at: np.zeros(len(at), UNIT))
        clock: Any = SimpleNamespace(now_ms=lambda: 1_000)
        self.change = MessageChange(store, proposer, clock, lambda: self.newest_term)

    def _order(self, order: Any) -> Outcome:
        self.orders.append(order)
        return self.outcome

    def cancel(self, if_match: int | None = None) -> Coroutine[Any, Any, Any]:
        """One cancel."""
        return self.change.cancel(self.term, "x", if_match)

    def reschedule(self, **when: int | None) -> Coroutine[Any, Any, Any]:
        """One reschedule; at most 500 ms ahead."""
        asked: Any = {"due_ms": None, "delay_ms": None, "if_match": None, **when}
        return self.change.reschedule(self.term, "x", max_delay_ms=500, **asked)


def run(test: Callable[[Play], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test on a loop of its own."""

    async def go() -> None:
        await test(Play(monkeypatch))

    asyncio.run(go())


@pytest.mark.parametrize("change", [Play.cancel, lambda play: play.reschedule(delay_ms=5)])
def test_a_message_is_held_until_its_change_has_a_result_though_the_client_left(
    change: Callable[[Play], Coroutine[Any, Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that goes away does not free the unit: the command under way would miss the hand-over made meanwhile."""

    async def test(play: Play) -> None:
        client = asyncio.create_task(change(play))
        await asyncio.sleep(0)
        assert play.held.names == [HOME]
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        assert play.held.names == [HOME]
        play.outcome.set_result((CANCELLED, 0, NONE))
        await asyncio.sleep(0)
        assert play.held.names == []

    run(test, monkeypatch)


def test_a_unit_is_held_past_an_unknown_outcome_until_a_later_command_is_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Cancel may still be applied: handed over before that, the unit would be cancelled as if nobody had it."""

    async def test(play: Play) -> None:
        client = asyncio.create_task(play.cancel())
        await asyncio.sleep(0)
        play.outcome.set_exception(Problem("outcome-unknown", "disks stood still"))
        with pytest.raises(Problem, match="outcome-unknown"):
            await client
        assert play.held.names == [HOME]
        play.later.set()
        await asyncio.gather(*play.tasks)
        assert play.held.names == []

    run(test, monkeypatch)


def test_no_message_has_revision_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """If-Match "0", or one that no revision can be, is refused; it must not pass for "whatever the revision is"."""

    async def test(play: Play) -> None:
        for if_match in (0, 1 << 32):
            with pytest.raises(Problem, match=f"revision-mismatch: the message has revision 3, .* {if_match}$"):
                await play.cancel(if_match)
        assert play.orders == []

    run(test, monkeypatch)


def test_a_due_time_too_far_ahead_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the leader's clock, naming the field that was sent; the past is now."""

    async def test(play: Play) -> None:
        for when, pointer in (({"delay_ms": 501}, "/delay"), ({"due_ms": 1_501}, "/deliver_at")):
            with pytest.raises(Problem) as refused:
                await play.reschedule(**when)
            assert refused.value.code == "beyond-max-delay"
            assert [fault.pointer for fault in refused.value.errors] == [pointer]
        assert play.orders == []
        tasks = [asyncio.create_task(play.reschedule(**when)) for when in ({"delay_ms": 500}, {"due_ms": 7})]
        await asyncio.sleep(0)
        assert [order.due_at(2_000) for order in play.orders] == [2_500, 2_000]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(test, monkeypatch)


def test_a_refusal_after_a_change_of_leader_tells_the_lease_as_the_newest_term_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock of the leader before may have been behind, so its leases end later by the clock of this one."""
    history = np.zeros(1, SETTLE)
    history["what"], history["term"], history["when"], history["attempt"] = LEASED_FOR, 1, 60_000, 1

    async def told(_store: object, _id: str) -> tuple[None, Settles]:
        return None, history

    monkeypatch.setattr(message_change, "tell", told)

    async def test(play: Play) -> None:
        ends = {}
        for newest_term in (1, 2):
            play.outcome = asyncio.get_running_loop().create_future()
            client = asyncio.create_task(play.cancel())
            await asyncio.sleep(0)
            play.newest_term = newest_term
            play.outcome.set_result((LEASED, 0, NONE))
            with pytest.raises(Problem) as refused:
                await client
            ends[newest_term] = refused.value.shape()["leased_until"]
        assert ends == {1: render_time(60_000), 2: render_time(60_000 + CLOCKS_MS)}

    run(test, monkeypatch)


def test_a_refusal_tells_a_long_story_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with 500 records held the loop for 8 ms each time that somebody tried to cancel it."""

    async def play(node: Node) -> None:
        (handed,) = await handed_over(node, 1)
        for _ in range(3):
            await ASKS["extended"](node, [handed.receipt])
        read = calls_of(monkeypatch, message_view, "in_turns", lambda work: work.__name__)
        at_once = calls_of(monkeypatch, message_view, "at_once")
        for code in ("leased", "already-settled"):
            with pytest.raises(Problem) as refused:
                await node.front.cancel(handed.id, if_match=None, principal=ANONYMOUS)
            assert refused.value.code == code
            await ASKS["acked"](node, [handed.receipt])
        assert read == ["history"] * 2
        assert not at_once

    run_node(tmp_path / "n1", play)
