"""A whole node through what a user does every day, asked through its service port: given back, retried, given up, tried
again, extended, rescheduled. Each story is played twice: in one life of the node, and with a restart between all steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgpack import packb

from api.contract.checker import pack_headers
from api.port.message import MessageView
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from api.port.queries import DeadMessage, DeadQuery
from node.node import Node
from storage.format.schedule_status import CONFLICT, NEW, REPLAYED
from tests.node.operation.redriving import redrive as redrive_all
from tests.node.single_node import run_node
from tests.waiting import until

Step = Callable[["Told"], Awaitable[None]]


class Told:
    """A node, and what the steps before found out."""

    node: Node

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.pulled: list[Delivery] = []

    @property
    def last(self) -> Delivery:
        """What was pulled last."""
        return self.pulled[-1]

    async def schedule(self, *messages: MessageIn) -> None:
        """Schedule new messages."""
        result = await self.node.front.schedule(messages, ANONYMOUS)
        assert set(result.status.tolist()) == {NEW}
        self.ids += [bytes(id).decode() for id in result.ids]

    async def pull(self, topic: str = "t", *, wait_ms: int = 5_000, lease_ms: int = 60_000) -> list[Delivery]:
        """Pull what is there, waiting for the first."""
        request = PullIn(topic, 100, wait_ms, lease_ms)
        found = list(await self.node.front.pull(request, ANONYMOUS))
        self.pulled += found
        return found

    async def view(self, row: int = 0) -> MessageView:
        """GET of a message."""
        return await self.node.front.message(self.ids[row], local=False, principal=ANONYMOUS)

    async def nack(self, delay_ms: int | None = None, topic: str = "t") -> str:
        """Give back what was pulled last."""
        receipts = [self.last.receipt]
        (result,) = await self.node.front.nack(topic, receipts, delay_ms=delay_ms, principal=ANONYMOUS)
        return result

    async def ack(self, *deliveries: Delivery) -> list[str]:
        """Ack these."""
        return list(await self.node.front.ack("t", [each.receipt for each in deliveries], ANONYMOUS))

    async def put(self, **settings: Any) -> None:
        """Settings of the topic t."""
        await self.node.front.put_topic("t", TopicChange(**settings), create=True, if_match=None, principal=ANONYMOUS)

    async def dead(self, **query: Any) -> list[DeadMessage]:
        """The dead messages of the topic t, all pages."""
        found: list[DeadMessage] = []
        cursor: str | None = None
        while True:
            page = await self.node.front.dead(DeadQuery(topic="t", cursor=cursor, **query), principal=ANONYMOUS)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def until_dead(self, row: int = 0) -> MessageView:
        """The message once it is given up, while a pull waits for it in vain."""
        waiting = asyncio.ensure_future(self.pull())

        async def dead() -> MessageView | None:
            view = await self.view(row)
            assert view.state == "dead" or not waiting.done(), f"handed over in state {view.state}"
            return view if view.state == "dead" else None

        view: MessageView = await until(dead)
        waiting.cancel()
        return view


def play(directory: Path, restart: bool, *steps: Step) -> None:
    """Take the steps in one life of a node, or each in a life of its own."""
    told = Told()

    async def life(node: Node, taken: tuple[Step, ...]) -> None:
        told.node = node
        for step in taken:
            await step(told)

    for taken in [(step,) for step in steps] if restart else [steps]:
        run_node(directory / "n1", lambda node, taken=taken: life(node, taken))  # type: ignore[misc]


def events(view: MessageView) -> list[str]:
    """What happened, in order."""
    return [event.event for event in view.history]


both_ways = pytest.mark.parametrize("restart", [False, True], ids=["in-one-life", "restarts"])


@both_ways
def test_a_message_given_back_comes_again_at_its_time(tmp_path: Path, restart: bool) -> None:
    """The same id, one attempt more, not before its time; the old receipt is stale, and the story names every step."""

    async def give_back(told: Told) -> None:
        await told.schedule(MessageIn("t", b'{"a":1}', tags=("eu",), headers=pack_headers({"h": "v"})))
        await told.pull()
        assert await told.nack(400) == "nacked"
        assert await told.nack(400) == "nacked"

    async def look(told: Told) -> None:
        view = await told.view()
        assert view.state in ("scheduled", "ready")
        assert (view.attempt, view.revision, view.last_error) == (1, 1, "nacked")
        assert view.due_ms >= told.last.handed_over_ms + 400
        assert (view.asked_due_ms, view.created_ms) == (told.last.asked_due_ms, told.last.created_ms)
        assert events(view) == ["scheduled", "leased", "moved"]

    async def again(told: Told) -> None:
        (second,) = await told.pull()
        first = told.pulled[0]
        assert (second.id, second.attempt, second.body, second.tags) == (first.id, 2, first.body, first.tags)
        assert second.handed_over_ms >= second.due_ms >= first.handed_over_ms + 400
        assert second.receipt != first.receipt
        view = await told.view()
        assert (view.state, view.attempt) == ("leased", 2)

    async def end(told: Told) -> None:
        assert await told.ack(*told.pulled) == ["stale", "acked"]
        assert await told.ack(told.last) == ["acked"]

    async def look_back(told: Told) -> None:
        view = await told.view()
        assert (view.state, view.attempt) == ("delivered", 2)
        assert events(view) == ["scheduled", "leased", "moved", "leased", "delivered"]
        assert view.settled_ms == view.history[-1].at_ms
        assert view.handed_over_ms == told.last.handed_over_ms
        assert await told.pull(wait_ms=0) == []

    play(tmp_path, restart, give_back, look, again, end, look_back)


@both_ways
def test_a_message_that_fails_too_often_dies_and_is_redriven(tmp_path: Path, restart: bool) -> None:
    """Listed with its reason, copied to the dead-letter topic, due again on request with its attempts counted anew."""

    async def fail_once(told: Told) -> None:
        await told.put(retry={"max_attempts": 2, "min_backoff_ms": 20}, dead_letter="graves")
        await told.schedule(MessageIn("t", b'"x"', tags=("eu",), key="k", fingerprint=b"f" * 16))
        await told.pull()
        assert await told.nack() == "nacked"

    async def fail_twice(told: Told) -> None:
        (second,) = await told.pull()
        assert second.attempt == 2
        assert await told.nack() == "nacked"

    async def bury(told: Told) -> None:
        view = await told.view()
        assert (view.state, view.attempt, view.last_error) == ("dead", 2, "nacked")
        assert events(view) == ["scheduled", "leased", "moved", "leased", "dead"]
        (dead,) = await told.dead()
        assert (dead.id, dead.reason, dead.attempts, dead.key) == (told.ids[0], "nacked", 2, "k")
        assert (dead.died_ms, dead.asked_due_ms) == (view.settled_ms, view.asked_due_ms)
        (copy,) = await told.pull("graves")
        assert copy.id != told.ids[0]
        assert (copy.body, copy.tags, copy.key, copy.attempt) == (b'"x"', ("eu",), None, 1)
        origin = {"id": told.ids[0], "topic": "t", "reason": "nacked", "attempts": 2, "error": ""}
        assert copy.dead == origin
        view = await told.node.front.message(copy.id, local=False, principal=ANONYMOUS)
        assert (view.dead, view.state, view.revision) == (origin, "leased", 1)
        with pytest.raises(Problem, match="already-settled"):
            await told.node.front.cancel(told.ids[0], if_match=None, principal=ANONYMOUS)

    async def redrive(told: Told) -> None:
        assert (await redrive_all(told.node, dry_run=True)).matched == 1
        done = await redrive_all(told.node)
        assert (done.matched, done.changed) == (1, 1)
        assert done.index <= told.node.group.raft.applied_index
        assert await told.dead() == []
        again = await redrive_all(told.node)
        assert (again.matched, again.changed) == (0, 0)

    async def fail_again(told: Told) -> None:
        (third,) = await told.pull()
        assert (third.id, third.attempt) == (told.ids[0], 3)
        assert await told.nack() == "nacked"

    async def deliver(told: Told) -> None:
        (fourth,) = await told.pull()
        assert fourth.attempt == 4
        assert await told.ack(fourth) == ["acked"]
        view = await told.view()
        assert view.state == "delivered"
        lived = ["scheduled", "leased", "moved", "leased", "dead", "moved", "leased", "moved", "leased", "delivered"]
        assert events(view) == lived

    play(tmp_path, restart, fail_once, fail_twice, bury, redrive, fail_again, deliver)


@both_ways
def test_a_lease_that_ends_on_the_last_attempt_is_the_end(tmp_path: Path, restart: bool) -> None:
    """Nobody said a word: given up when it would go out again, with a copy for the dead-letter topic."""

    async def hand_over(told: Told) -> None:
        await told.put(retry={"max_attempts": 1}, dead_letter="graves")
        await told.schedule(MessageIn("t", b"1"), MessageIn("t", b"2", extension=packb({"retry": {"max_attempts": 2}})))
        assert len(await told.pull(lease_ms=1_000)) == 2

    async def die(told: Told) -> None:
        # The first dies when it would come again; the second, which may, comes again.
        (second,) = await told.pull(lease_ms=60_000)
        assert (second.id, second.attempt) == (told.ids[1], 2)
        view = await told.until_dead()
        assert (view.attempt, view.last_error) == (1, "lease-ended")
        (dead,) = await told.dead()
        assert (dead.id, dead.reason) == (told.ids[0], "lease-ended")
        assert [copy.body for copy in await told.pull("graves")] == [b"1"]

    play(tmp_path, restart, hand_over, die)


def test_no_attempt_begins_past_the_maximum_age(tmp_path: Path) -> None:
    """A nack for later than that ends the message, and so does a lease that ends after it."""

    async def age(told: Told) -> None:
        await told.put(retry={"max_age_ms": 900})
        await told.schedule(MessageIn("t", b"1"))
        await told.pull()
        assert await told.nack(1_000) == "nacked"
        assert (await told.view()).last_error == "max-age"
        await told.schedule(MessageIn("t", b"2"))
        await told.pull(lease_ms=1_000)
        assert (await told.until_dead(1)).last_error == "max-age"
        assert [dead.reason for dead in await told.dead(limit=1)] == ["max-age", "max-age"]

    play(tmp_path, False, age)


@both_ways
def test_an_extended_lease_ends_later(tmp_path: Path, restart: bool) -> None:
    """The message does not come again at the old end; one event in the story; acked under the same receipt."""

    async def hand_over(told: Told) -> None:
        await told.schedule(MessageIn("t", b"1"))
        await told.pull(lease_ms=1_000)
        texts = [told.last.receipt, "x" * 59]
        results = await told.node.front.extend("t", texts, lease_ms=60_000, principal=ANONYMOUS)
        assert results == ["extended", "invalid"]

    async def wait(told: Told) -> None:
        left_ms = told.last.leased_until_ms + 300 - told.node.front.now_ms()
        assert await told.pull(wait_ms=max(1, left_ms)) == []
        view = await told.view()
        assert (view.state, view.handed_over_ms) == ("leased", told.last.handed_over_ms)
        assert events(view) == ["scheduled", "leased"]
        with pytest.raises(Problem) as refused:
            await told.node.front.cancel(told.ids[0], if_match=None, principal=ANONYMOUS)
        assert refused.value.code == "leased"
        assert await told.ack(told.last) == ["acked"]
        results = await told.node.front.extend("t", [told.last.receipt], lease_ms=None, principal=ANONYMOUS)
        assert results == ["stale"]

    play(tmp_path, restart, hand_over, wait)


def test_an_extension_may_bring_the_end_nearer(tmp_path: Path) -> None:
    """A consumer that extends by a second has the message taken from it after that second."""

    async def shorten(told: Told) -> None:
        await told.schedule(MessageIn("t", b"1"))
        (first,) = await told.pull(lease_ms=60_000)
        await told.node.front.extend("t", [first.receipt], lease_ms=1_000, principal=ANONYMOUS)
        (second,) = await told.pull()
        assert second.attempt == 2
        assert await told.ack(first, second) == ["stale", "acked"]

    play(tmp_path, False, shorten)


@both_ways
def test_a_message_is_rescheduled_and_counts_its_revisions(tmp_path: Path, restart: bool) -> None:
    """Nearer, later, with the right revision only; leased and settled ones are refused; a cancel knows the revision."""

    async def change(told: Told, row: int = 0, **asked: Any) -> Any:
        asked = {"due_ms": None, "delay_ms": None, "if_match": None, **asked}
        return await told.node.front.reschedule(told.ids[row], principal=ANONYMOUS, **asked)

    async def nearer(told: Told) -> None:
        await told.schedule(MessageIn("t", b"1", delay_ms=86_400_000), MessageIn("t", b"2", delay_ms=300))
        done = await change(told, due_ms=told.node.front.now_ms() + 400, if_match=1)
        assert (done.id, done.topic, done.revision) == (told.ids[0], "t", 2)
        view = await told.view()
        assert (view.revision, view.due_ms, view.asked_due_ms) == (2, done.due_ms, done.due_ms)

    async def later(told: Told) -> None:
        with pytest.raises(Problem, match="the message has revision 1, If-Match asks for 2"):
            await change(told, 1, delay_ms=5, if_match=2)
        done = await change(told, 1, delay_ms=86_400_000)
        assert done.due_ms >= told.node.front.now_ms() + 86_000_000

    async def hand_over(told: Told) -> None:
        (first,) = await told.pull()
        assert (first.id, first.attempt) == (told.ids[0], 1)
        with pytest.raises(Problem) as refused:
            await change(told, delay_ms=5)
        assert (refused.value.code, refused.value.extra["attempt"]) == ("leased", 1)
        assert await told.ack(first) == ["acked"]
        with pytest.raises(Problem, match="already-settled: the message was delivered"):
            await change(told, delay_ms=5)
        assert events(await told.view()) == ["scheduled", "moved", "leased", "delivered"]

    async def cancel(told: Told) -> None:
        service = told.node.front
        with pytest.raises(Problem, match="the message has revision 2, If-Match asks for 1"):
            await service.cancel(told.ids[1], if_match=1, principal=ANONYMOUS)
        for _ in range(2):
            done = await service.cancel(told.ids[1], if_match=2, principal=ANONYMOUS)
            assert (done.attempts_made, done.prior) == (0, "none" if not restart else "unknown")
        view = await told.view(1)
        assert (view.state, events(view)) == ("cancelled", ["scheduled", "moved", "cancelled"])

    play(tmp_path, restart, nearer, later, hand_over, cancel)


@both_ways
def test_a_key_stays_with_its_message_wherever_that_is(tmp_path: Path, restart: bool) -> None:
    """Taken while the message is moved about, and past its end; another request with it is refused."""
    message = MessageIn("t", b"1", key="k", fingerprint=b"f" * 16)
    other = MessageIn("t", b"2", key="k", fingerprint=b"g" * 16)

    async def taken(told: Told) -> None:
        result = await told.node.front.schedule([message, other], ANONYMOUS)
        assert result.status.tolist() == [REPLAYED, CONFLICT]
        assert {bytes(id).decode() for id in result.ids} == {told.ids[0]}

    async def begin(told: Told) -> None:
        await told.schedule(message)
        await told.pull()
        assert await told.nack(100) == "nacked"
        await taken(told)

    async def hand_over(told: Told) -> None:
        await taken(told)
        (second,) = await told.pull()
        assert second.key == "k"
        assert await told.ack(second) == ["acked"]
        await taken(told)

    play(tmp_path, restart, begin, hand_over, taken)
