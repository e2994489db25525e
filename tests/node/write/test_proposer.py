"""Group commit against a group that answers as told: what an entry may hold, and what becomes of its riders."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from api.contract.checker import pack_headers
from api.port.port import MessageIn
from api.port.problem import Problem
from node.write.command_queues import ENTRY_ACKS_MAX, ENTRY_MOVES_MAX, RescheduleOrder
from node.write.proposer import Proposer
from replication.command.entry import decode_entry
from replication.command.handover import RETRY, Fail, Settle
from replication.command.message import Reschedule
from replication.command.unlink import Unlink
from tests.node.proposing import OPTIONS, Group, Riders, run, turns
from tests.virtual_time import passes, virtually


def test_entries_of_messages_with_all_their_extras_fit() -> None:
    """Headers, tags and keys count towards an entry's size: the largest legal batch goes in several entries."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        tags = tuple(f"{n:02}" + "t" * 62 for n in range(16))
        headers = pack_headers({"x-a": "v" * 4000})
        messages = [
            MessageIn("t", b"1", "", None, None, tags, headers, f"{n:0128}", "reject", bytes(16)) for n in range(10_000)
        ]
        waiting = asyncio.create_task(proposer.schedule(messages))
        await turns()
        while group.open:
            group.answer("not-leader")
            await turns()
        parts = await waiting
        assert sum(rows for _, rows, _ in parts) == len(messages)
        assert len(parts) > 10_000 * 5000 // OPTIONS.max_entry_bytes

    run(test)


def test_acks_past_the_bound_wait_for_the_next_entry() -> None:
    """However many acks wait, an entry holds a bounded number of them, in the order in which they came."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        rows = 10_000
        settle = Settle(
            np.zeros(rows, np.uint64), np.zeros(rows, np.uint32), np.zeros(rows, np.uint16), np.zeros(rows, np.uint16)
        )
        count = ENTRY_ACKS_MAX // rows + 3
        waiting = [proposer.settle(settle) for _ in range(count)]
        await turns()
        sizes = []
        while group.open:
            sizes.append(decode_entry(group.open[0][0]).sections[0].rows)
            group.answer("not-leader")
            await turns()
        assert sizes == [ENTRY_ACKS_MAX, 3 * rows]
        assert all(isinstance(each, Exception) for each in await asyncio.gather(*waiting, return_exceptions=True))

    run(test)


def test_leases_of_an_entry_given_up_as_unknown_are_committed_when_it_is_applied() -> None:
    """A disk that stands still for longer than a proposal may take does not end hand-over for good."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        riders.loaded = 1
        proposer.kick()
        await turns()
        group.answer("unknown", index=7)
        await passes(0.12)
        assert riders.told == []
        assert not group.open
        group.applied_index = 7
        await passes(0.12)
        assert riders.told == ["committed"]

    run(test, on=virtually)


def test_leases_given_up_come_before_those_of_later_entries() -> None:
    """The riders hear of entries in the order of the log, and nothing of an entry of another term's riders."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        riders.loaded = 2
        proposer.kick()
        await turns()
        group.answer("unknown", index=7)
        await turns()
        group.applied_index = 8
        group.answer(index=8)
        assert riders.told == ["committed", "committed"]
        riders.loaded = 1
        await turns()
        group.answer("unknown", index=9)
        proposer.riders = successor = Riders()
        group.applied_index = 9
        await turns()
        assert (riders.told, successor.told) == (["committed", "committed"], [])

    run(test)


def fail(first: int, rows: int, *texts: bytes) -> Fail:
    """Failed hand-overs of units from `first` on."""
    ones = np.ones(rows, np.int64)
    return Fail(
        position=np.arange(first, first + rows, dtype=np.uint64),
        term=ones.astype(np.uint32),
        attempt=ones.astype(np.uint16),
        code=ones.astype(np.uint16),
        fate=(ones * RETRY).astype(np.uint8),
        due_ms=ones,
        random=ones.astype(np.uint64),
        texts=texts,
    )


def test_failures_of_several_callers_go_together_each_with_its_text() -> None:
    """Rows without a text get an empty one beside rows with one; what is past an entry's bound waits; each caller gets
    the results of its own rows."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        waiting = [
            proposer.fail(fail(0, 2)),
            proposer.fail(fail(10, 1, b"busy")),
            proposer.fail(fail(20, ENTRY_MOVES_MAX - 3)),
            proposer.fail(fail(30, 1)),
        ]
        await turns()
        section = decode_entry(group.open[0][0]).sections[0]
        joined = Fail.unpack(section)
        assert joined.position.tolist() == [0, 1, 10, *range(20, 20 + ENTRY_MOVES_MAX - 3)]
        assert joined.texts[:4] == (b"", b"", b"busy", b"")
        group.answer_with(np.arange(len(joined.position)) % 3)
        assert [(await each).tolist() for each in waiting[:2]] == [[0, 1], [2]]
        assert len(await waiting[2]) == ENTRY_MOVES_MAX - 3
        await turns()
        assert Fail.unpack(decode_entry(group.open[0][0]).sections[0]).texts == ()
        group.answer("not-leader")
        with pytest.raises(Problem, match="no-leader"):
            await waiting[3]

    run(test)


def test_what_is_asked_for_behind_the_end_of_leadership_is_refused() -> None:
    """Seed 35221: the rest of a redrive was asked for as the entry before it ended, after its leader had been replaced.
    It waited, answered as refused to its client, for that node's next term, and was done then."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        group.established = False
        proposer.step_down()
        unlink = asyncio.ensure_future(proposer.propose_single(Unlink(np.ones(1, np.int64))))
        await turns()
        assert unlink.done()
        with pytest.raises(Problem, match="no-leader"):
            unlink.result()
        group.established = True
        proposer.kick()
        await turns()
        assert not group.open

    run(test)


def test_a_reschedule_is_due_from_the_entrys_stamp_on() -> None:
    """A delay counts from the moment at which the entry is put together; the past is now."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        orders = [
            RescheduleOrder(1, False, 0, None, 500),
            RescheduleOrder(2, True, 4, 1, None),
            RescheduleOrder(3, False, 0, 1 << 41, None),
        ]
        waiting = [proposer.reschedule(order) for order in orders]
        await turns()
        entry = decode_entry(group.open[0][0])
        command = Reschedule.unpack(entry.sections[0])
        assert command.due_ms.tolist() == [entry.now_ms + 500, entry.now_ms, 1 << 41]
        assert (command.home.tolist(), command.revision.tolist(), command.doubtful.tolist()) == (
            [1, 2, 3],
            [0, 4, 0],
            [0, 1, 0],
        )
        group.answer("unknown")
        for each in waiting:
            with pytest.raises(Problem, match="outcome-unknown"):
                await each

    run(test)
