"""What an entry holds when more waits than has room: bounded by weight and by bytes, and nothing waits for ever."""

import asyncio
from typing import Any

import numpy as np

from api.port.port import MessageIn
from api.port.problem import Problem
from node.write.command_queues import ENTRY_MOVES_MAX, MOVE_AGAIN_WEIGHT, CancelOrder, RescheduleOrder
from node.write.proposer import Proposer
from replication.command.entry import decode_entry
from replication.command.handover import Extend, Settle
from replication.command.message import Cancel, Reschedule
from replication.command.topic import PutTopic
from tests.node.proposing import Group, Riders, run, turns
from tests.node.write.test_proposer import fail


def test_failures_of_large_messages_wait_for_each_other() -> None:
    """A request weighs what is copied for it; one that alone weighs more than an entry takes goes alone."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        waiting = [
            proposer.fail(fail(0, 2), ENTRY_MOVES_MAX),
            proposer.fail(fail(2, 3), 5),
            proposer.fail(fail(5, 1), 5),
        ]
        await turns()
        for rows in (2, 4):
            assert decode_entry(group.open[0][0]).sections[0].rows == rows
            group.answer("not-leader")
            await turns()
        assert not group.open
        assert all(isinstance(each, Problem) for each in await asyncio.gather(*waiting, return_exceptions=True))

    run(test)


def test_whatever_waits_at_once_an_entry_stays_below_its_bound() -> None:
    """The fullest section of each kind, and 1,500 settings of topics: more than one entry may hold, which ended the
    leader. All of it goes, in several, and none waits for ever behind the others."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        zeros, rows = np.zeros(10_000, np.uint64), 10_000
        columns = (zeros, zeros.astype(np.uint32), zeros.astype(np.uint16))
        settings = {"target": {"url": "http://a/" + "u" * 2000, "headers": {"x": "v" * 4000}}}
        waiting: list[asyncio.Future[Any]] = [
            *(asyncio.ensure_future(proposer.settle(Settle(*columns, columns[2]))) for _ in range(11)),
            *(proposer.extend(Extend(*columns, zeros.astype(np.int64))) for _ in range(11)),
            *(proposer.fail(fail(at, 999, *[b"e" * 1024] * 999)) for at in range(2)),
            *(
                asyncio.ensure_future(proposer.put_topic(PutTopic("default", f"t{at}", settings, replace=True)))
                for at in range(1500)
            ),
            asyncio.ensure_future(proposer.schedule([MessageIn("t", b"1" * 1000, "", None, None)] * rows)),
        ]
        entries = 0
        await turns()
        while group.open:
            entries += 1
            group.answer("not-leader")
            await turns()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert 4 < entries < 40

    run(test)


def test_cancels_of_many_revisions_of_one_message_do_not_go_in_one_entry() -> None:
    """Each is a round of its own in apply; the same cancel said again is none, and those of other messages go along."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        orders = [CancelOrder(7, False, at % 50) for at in range(100)] + [CancelOrder(at, False, 0) for at in range(99)]
        waiting = [proposer.cancel(order) for order in orders]
        rows, rounds = 0, []
        await turns()
        while group.open:
            cancel = Cancel.unpack(decode_entry(group.open[0][0]).sections[0])
            rows += len(cancel.home)
            rounds.append(len(set(cancel.revision[cancel.home == 7].tolist())))
            group.answer("not-leader")
            await turns()
        assert rows == len(orders)
        assert max(rounds) <= 1 + ENTRY_MOVES_MAX // MOVE_AGAIN_WEIGHT
        assert len(rounds) < 15
        await asyncio.gather(*waiting, return_exceptions=True)

    run(test)


def test_a_message_that_many_want_to_move_is_moved_a_few_times_an_entry() -> None:
    """Each is a round of its own in apply: 1,000 at once held up every node for 0.6 s. Others go beside them."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        orders = [RescheduleOrder(7, False, 0, None, 1) for _ in range(50)]
        others = [RescheduleOrder(100 + at, False, 0, None, 1) for at in range(50)]
        waiting = [proposer.reschedule(order) for order in orders + others]
        sizes: list[int] = []
        await turns()
        while group.open:
            homes = Reschedule.unpack(decode_entry(group.open[0][0]).sections[0]).home
            sizes.append(int(np.count_nonzero(homes == 7)))
            group.answer("not-leader")
            await turns()
        assert sum(sizes) == 50
        assert max(sizes) <= 1 + ENTRY_MOVES_MAX // MOVE_AGAIN_WEIGHT
        await asyncio.gather(*waiting, return_exceptions=True)

    run(test)
