"""The moment that a leader waits for requests which its own answers bring."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from api.port.port import MessageIn
from node.write.batch_delay import GATHER_REQUESTS, GATHER_S, BatchDelay
from node.write.proposer import Proposer
from replication.apply.message.schedule import Scheduled
from replication.command.entry import decode_entry
from replication.command.handover import Settle
from tests.node.proposing import Group, Riders, run, turns
from tests.virtual_time import passes, virtually


@pytest.mark.parametrize(
    ("answered", "waiting", "waits"),
    [
        (1, 0, False),  # a single client: its next request goes at once
        (0, GATHER_REQUESTS.start, False),  # an entry of acks: no client with messages was answered
        (32, 32, True),  # two halves of 64 clients become one
        (GATHER_REQUESTS.stop, 0, False),  # batches: an entry's own cost is nothing beside theirs
    ],
)
def test_waits_only_for_many_small_requests(answered: int, waiting: int, waits: bool) -> None:
    """A single client, acks and batches are not waited with; and no longer than until all are there."""

    async def go() -> None:
        gather = BatchDelay(lambda: None)
        assert gather.begin(answered, waiting) is waits
        assert gather.waits(answered + waiting - 1) is waits
        assert not gather.waits(answered + waiting)
        gather.end()
        assert not gather.waits(0)

    asyncio.run(go())


def test_flushes_once_when_the_time_is_over_and_waits_no_more() -> None:
    """Requests that do not come hold nobody up past the bound."""

    async def go() -> None:
        over: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        gather = BatchDelay(lambda: over.set_result(asyncio.get_running_loop().time()))
        began_s = asyncio.get_running_loop().time()
        assert gather.begin(32, 32)
        assert await over - began_s >= GATHER_S / 2  # a loop may round its timers
        assert not gather.waits(33)

    asyncio.run(go())


def test_does_not_flush_after_its_end() -> None:
    """Its timer goes with it."""

    async def go() -> None:
        flushed: list[None] = []
        gather = BatchDelay(lambda: flushed.append(None))
        assert gather.begin(32, 32)
        gather.end()
        await passes(2 * GATHER_S)
        assert not flushed

    virtually(go)


def placed(rows: int) -> Scheduled:
    """The result of a Schedule of new messages."""
    zeros = np.zeros(rows, np.uint64)
    return Scheduled(zeros, zeros, zeros.astype(np.int64), zeros.astype(np.uint8))


def rows_of(blob: bytes) -> list[int]:
    """Rows of each section of an entry."""
    return [section.rows for section in decode_entry(blob).sections]


def test_clients_that_wait_for_their_answers_come_to_share_one_entry() -> None:
    """Twenty are answered while twelve wait: the next entry holds all 32, once those answered have sent again."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        async def client(times: int) -> None:
            for _ in range(times):
                await proposer.schedule((MessageIn("t", b"1", "", None, 0),))

        clients = [asyncio.create_task(client(2)) for _ in range(20)]
        await turns()
        clients += [asyncio.create_task(client(1)) for _ in range(12)]
        await turns()
        assert rows_of(group.open[0][0]) == [20]
        group.answer_with(placed(20))
        await turns()
        assert rows_of(group.open[0][0]) == [32]
        group.answer_with(placed(32))
        await asyncio.gather(*clients)

    run(test, on=virtually)  # a busy machine can be slower than GATHER_S


def test_acks_do_not_wait_for_messages_to_come() -> None:
    """What asks for an entry takes the messages along that wait for more of their kind."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        first = [asyncio.create_task(proposer.schedule((MessageIn("t", b"1", "", None, 0),))) for _ in range(20)]
        await turns()
        group.answer_with(placed(20))
        await asyncio.gather(*first)
        more = asyncio.create_task(proposer.schedule((MessageIn("t", b"1", "", None, 0),)))
        await turns()
        assert not group.open
        settle = Settle(np.zeros(1, np.uint64), np.zeros(1, np.uint32), np.zeros(1, np.uint16), np.zeros(1, np.uint16))
        ack = proposer.settle(settle)
        await turns()
        assert rows_of(group.open[0][0]) == [1, 1]
        group.answer_with(np.zeros(1, np.uint8), placed(1))
        await asyncio.gather(more, ack)

    run(test, on=virtually)  # a busy machine can be slower than GATHER_S
