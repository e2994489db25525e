"""A new state is a row: a node shows, counts and keeps a message in it, and hands it over when it is pending again."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from api.port.queries import CountQuery
from node.node import Node
from storage.format.batches import SettleBatch
from storage.format.message_id import decode_id
from storage.format.states import CANCELLED
from tests.node.one_leader import T0, Leader
from tests.node.single_node import run_node
from tests.storage.new_state import COMMITTED, HALF, RESUMED, added


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    """All three are there."""
    with added(HALF, COMMITTED, RESUMED):
        yield


def test_the_dispatcher_leaves_it_alone_until_it_is_pending(tmp_path: Path) -> None:
    """Whether the wheel finds it, a window has it already, or a new leader reads the backlog."""
    leader = Leader(tmp_path)
    leader.promote(T0)
    positions = leader.schedule(T0 + 1_000, T0 + 1_000, T0 + 2_000)
    at = np.array(positions, np.uint64)
    leader.store.settle(SettleBatch.of(at[:1], what=HALF.number, at_ms=T0))
    leader.run(T0 + 1_000)
    leader.store.settle(SettleBatch.of(at[1:2], what=HALF.number, at_ms=T0 + 1_000))
    assert leader.pull(T0 + 3_000) == positions[2:]
    leader.promote(T0 + 4_000)
    assert leader.drain(T0 + 5_000) == []
    leader.store.settle(SettleBatch.of(at[:1], what=COMMITTED.number, at_ms=T0 + 6_000))
    leader.machine.told.released(at[:1])
    assert leader.drain(T0 + 6_000) == positions[:1]
    leader.store.settle(SettleBatch.of(at[1:2], what=RESUMED.number, at_ms=T0 + 7_000))
    leader.promote(T0 + 7_000)
    assert leader.drain(T0 + 8_000) == positions[1:2]


def test_a_node_tells_what_it_is(tmp_path: Path) -> None:
    """To who looks it up, counts, lists topics, cancels, acks, deletes its topic or asks the ledger."""

    async def play(node: Node) -> None:
        service = node.front
        messages = [MessageIn("t", b"1", delay_ms=0), MessageIn("t", b"2", delay_ms=60_000)]
        ids = [each.decode() for each in (await service.schedule(messages, ANONYMOUS)).ids.tolist()]
        id = ids[0]
        (pulled,) = await service.pull(PullIn("t", 1, 5_000), ANONYMOUS)
        at = [decode_id(each).position for each in ids]
        node.group.store.settle(SettleBatch.of(at[1:], what=RESUMED.number, at_ms=node.group.clock.now_ms()))
        assert (await service.message(ids[1], local=False, principal=ANONYMOUS)).state == "scheduled"
        now_ms = node.group.clock.now_ms()
        node.group.store.settle(SettleBatch.of(at, what=HALF.number, at_ms=now_ms, term=9, attempt=1))
        view = await service.message(id, local=False, principal=ANONYMOUS)
        assert (view.state, view.settled_ms, view.history[-1].event) == ("half", None, "half")
        assert (await service.count(CountQuery(topic="t"), principal=ANONYMOUS)).count == 0
        assert (await service.count(CountQuery(states=("half",)), principal=ANONYMOUS)).count == 2
        (topic,) = await service.topics("", 9, counts=True, principal=ANONYMOUS)
        assert topic.counts is not None
        assert {word: count for word, count in topic.counts.items() if count} == {"half": 2}
        with pytest.raises(Problem, match="change-in-progress: the message is half"):
            await service.cancel(id, if_match=None, principal=ANONYMOUS)
        assert await service.ack("t", [pulled.receipt] * 9, ANONYMOUS) == ["stale"] * 9
        with pytest.raises(Problem, match="not-empty: 2 messages of t"):
            await service.delete_topic("t", if_match=None, principal=ANONYMOUS)
        told = await service.message_ledger(id)
        assert (told.entry.kind, told.entry.lost) == ("pending", "")
        node.group.store.settle(SettleBatch.of(at, what=CANCELLED, at_ms=node.group.clock.now_ms()))
        await service.delete_topic("t", if_match=None, principal=ANONYMOUS)

    run_node(tmp_path, play)
