"""Single requests of one moment go to the leader as one draft, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from api.port.forward import ANSWERED, Answered, tell
from api.port.port import MessageIn
from api.port.problem import Problem
from node.peer_wire.remote_group import JOIN_ROWS, RemoteGroup
from node.port.codec import decode
from node.port.draft import Draft
from node.port.group_frames import answer_frame
from node.port.message_port import Scheduled, ScheduledRow, Superseded
from node.port.refusal import Refusal
from node.port.trust_window import SentWindow

REFUSED = Refusal("over-limit", "there are too many topics")
LOST = Refusal("no-leader", "this node stopped leading before the request was written; nothing happened")
BEFORE = Superseded(position=5, random=6, attempts=1, prior=1, revision=2)


class Leader:
    """Frames to a leader that counts what it writes, and refuses what is of the topic `no`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []  # name, rows
        self.before: Callable[[], Awaitable[None]] | None = None
        self.refuses: Problem | None = None
        self._written = 0

    async def call(self, name: str, frame: bytes, wait: int) -> bytes:
        """See Frames."""
        draft = decode(Draft, frame)
        self.calls.append((name, len(draft)))
        if self.before is not None:
            await self.before()
        if self.refuses is not None:
            raise self.refuses
        tell("n2", 7)
        names = [draft.topics[number] for number in np.frombuffer(draft.topic, np.uint16).tolist()]
        numbers = range(self._written, self._written + len(draft))
        self._written += len(draft)
        if name == "schedule_one":
            return answer_frame(REFUSED if names == ["no"] else ScheduledRow(numbers[0], 9, 1_000, 1))
        position, random = np.array(numbers, np.uint64), np.full(len(draft), 9, np.uint64)
        due_ms, status = np.full(len(draft), 1_000, np.int64), bytes([1]) * len(draft)
        refused = {row: REFUSED for row, name in enumerate(names) if name == "no"}
        refused |= {row: LOST for row, name in enumerate(names) if name == "late" and len(draft) > 2}
        before = {row: BEFORE for row, name in enumerate(names) if name == "keyed"}
        return answer_frame(Scheduled(position.tobytes(), random.tobytes(), due_ms.tobytes(), status, refused, before))

    def end_wait(self, wait: int) -> None:
        """See Frames."""

    def give_back(self, frame: bytes) -> None:
        """See Frames."""


def remote(leader: Leader) -> RemoteGroup:
    """Of group 0."""
    return RemoteGroup(0, SentWindow(), leader)


def test_what_comes_in_one_turn_is_one_draft_and_each_gets_its_row() -> None:
    """In their order; who is refused hears that alone. All hear which node answered, in which term."""

    async def ask(group: RemoteGroup, topic: str) -> tuple[int | str, str, int]:
        answered = Answered()
        ANSWERED.set(answered)
        try:
            said: int | str = (await group.schedule_one(MessageIn(topic, b"1"))).position
        except Problem as problem:
            said = problem.code
        return said, answered.node, answered.term

    async def play() -> None:
        leader = Leader()
        group = remote(leader)
        got = await asyncio.gather(*(ask(group, topic) for topic in ("a", "no", "b", "a")))
        assert got == [(0, "n2", 7), ("over-limit", "n2", 7), (2, "n2", 7), (3, "n2", 7)]
        assert leader.calls == [("schedule_each", 4)]

    asyncio.run(play())


def test_what_had_the_key_before_comes_with_its_row() -> None:
    """Seed 103 of the simulator: the answer to a replace lost it where a follower had joined several requests."""

    async def play() -> None:
        group = remote(Leader())
        rows = await asyncio.gather(*(group.schedule_one(MessageIn(topic, b"1")) for topic in ("a", "keyed")))
        assert [(row.position, row.status, row.before) for row in rows] == [(0, 1, None), (1, 1, BEFORE)]

    asyncio.run(play())


def test_what_was_not_written_goes_to_the_next_leader() -> None:
    """The messages of a draft whose leader lost leadership after it had written the others."""

    async def play() -> None:
        leader = Leader()
        group = remote(leader)
        rows = await asyncio.gather(
            *(group.schedule_one(MessageIn(topic, b"1")) for topic in ("late", "a", "late", "b"))
        )
        assert [row.position for row in rows] == [4, 1, 5, 3]
        assert leader.calls == [("schedule_each", 4), ("schedule_each", 2)]

    asyncio.run(play())


def test_one_alone_goes_by_itself() -> None:
    """As most do where there is no load."""

    async def play() -> None:
        leader = Leader()
        assert (await remote(leader).schedule_one(MessageIn("a", b"1"))).position == 0
        with pytest.raises(Problem, match="over-limit"):
            await remote(leader).schedule_one(MessageIn("no", b"1"))
        assert leader.calls == [("schedule_one", 1)] * 2

    asyncio.run(play())


def test_a_draft_is_open_while_each_turn_brings_more() -> None:
    """A wave of clients comes in several turns: it is one draft."""

    async def play() -> None:
        leader = Leader()
        group, asking = remote(leader), []
        for _ in range(3):
            asking += [asyncio.ensure_future(group.schedule_one(MessageIn("a", b"1"))) for _ in range(2)]
            await asyncio.sleep(0)
        await asyncio.gather(*asking)
        assert leader.calls == [("schedule_each", 6)]

    asyncio.run(play())


def test_a_draft_that_is_full_goes_at_once() -> None:
    """And what is behind it in the next."""

    async def play() -> None:
        leader = Leader()
        group = remote(leader)
        await asyncio.gather(*(group.schedule_one(MessageIn("a", b"1")) for _ in range(JOIN_ROWS + 2)))
        assert leader.calls == [("schedule_each", JOIN_ROWS), ("schedule_each", 2)]

    asyncio.run(play())


def test_a_client_that_goes_takes_nobody_with_it() -> None:
    """Its message may have been written; the others are answered."""

    async def play() -> None:
        leader, asked, go_on = Leader(), asyncio.Event(), asyncio.Event()

        async def before() -> None:
            asked.set()
            await go_on.wait()

        leader.before, group = before, remote(leader)
        asking = [asyncio.ensure_future(group.schedule_one(MessageIn("a", b"1"))) for _ in range(3)]
        await asked.wait()
        asking[1].cancel()
        go_on.set()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(each) for each in ended] == [ScheduledRow, asyncio.CancelledError, ScheduledRow]

    asyncio.run(play())


@pytest.mark.parametrize("count", [1, 3])
def test_a_refusal_of_all_is_each_ones_own(count: int) -> None:
    """One exception is not raised in several tasks."""

    async def play() -> None:
        leader = Leader()
        leader.refuses = Problem("outcome-unknown", "the connection with n2 ended; send again with the same key")
        group = remote(leader)
        asking = [group.schedule_one(MessageIn("a", b"1")) for _ in range(count)]
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert [str(each) for each in ended] == [str(leader.refuses)] * count
        assert len({id(each) for each in ended}) == count

    asyncio.run(play())
