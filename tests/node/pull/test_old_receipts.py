"""Receipts of units that ended long ago, many in one request: what they are answered, what a look at them costs, and
what becomes of it where the client or the term goes meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.loop_turn import in_turns
from api.port.port import ANONYMOUS
from api.port.problem import Problem
from node.node import Node
from node.pull.receipt_lookup import LOOK_HOURS, LOOK_UNITS, pieces_of, states_of
from node.pull.settling import FEW
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.pieces import at_once
from storage.format.position import HOUR_MS, hours_of
from storage.format.states import DELIVERED as DELIVERED_STATE
from storage.format.states import LEASED
from storage.store import Store
from tests.calls import calls_of
from tests.node.consumers import ASKS, handed_over, leased, pulled, receipts_of
from tests.node.single_node import run_node
from tests.storage.workload import HOUR, batch_of, checkpoint, found
from tests.waiting import until

COUNT = 2 * LOOK_UNITS


def test_many_are_answered_as_few_are(tmp_path: Path) -> None:
    """The leader answers the many by itself, the machine answers the few. Of all hand-overs of a message one is
    `acked`, the others are `stale`. Texts come in any order, some twice."""
    each = 4

    async def play(node: Node) -> None:
        service = node.front
        acked = receipts_of(await handed_over(node, each))
        await service.ack("t", acked, ANONYMOUS)
        older = receipts_of(await handed_over(node, each, lease_ms=1_000))
        newer = receipts_of(await pulled(node, each))
        await service.ack("t", newer, ANONYMOUS)
        given_back = receipts_of(await handed_over(node, each))
        await service.nack("t", given_back, delay_ms=0, principal=ANONYMOUS)
        after = receipts_of(await pulled(node, each))
        await service.ack("t", after, ANONYMOUS)
        still_open, others = receipts_of(await handed_over(node, each)), receipts_of(await handed_over(node, each, "u"))
        texts = [*acked, *older, *newer, *given_back, *after, *others, "A" * 67, *still_open, *older, *acked]
        many = await service.ack("t", texts, ANONYMOUS)
        few = [await service.ack("t", [text], ANONYMOUS) for text in texts]
        assert many == [word for (word,) in few]
        expected = {"acked": (acked, newer, after, still_open), "stale": (older, given_back), "invalid": (others,)}
        for word, groups in expected.items():
            assert {said for text, said in zip(texts, many, strict=True) for group in groups if text in group} == {word}

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("done", ["nacked", "extended"])
def test_what_a_look_of_an_ended_reign_found_is_not_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """The next term of the same node holds nothing of it: it handed units over beside their nack, and two hand-overs
    bore one attempt."""

    async def play(node: Node) -> None:
        receipts, old = receipts_of(await handed_over(node, FEW + 1)), node.group.leader_term

        async def looked(work: Any) -> Any:
            states = await in_turns(work)
            node.group.raft.resign()
            await until(lambda: node.group.leader_term is not None and node.group.leader_term is not old)
            return states

        monkeypatch.setattr("node.pull.settling.in_turns", looked)
        with pytest.raises(Problem) as refused:
            await ASKS[done](node, receipts)
        assert refused.value.code == "no-leader"
        monkeypatch.setattr("node.pull.settling.in_turns", in_turns)
        assert set(await ASKS[done](node, receipts)) == {done}

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize(("done", "what"), [("acked", DELIVERED_STATE), ("extended", LEASED)])
def test_requests_of_a_few_fill_no_entry_with_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str, what: int
) -> None:
    """They are not looked at: 256 of four old ones made an entry of 1,024 pages, 88 ms on every node."""

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, 400 * FEW))
        await leased(node, receipts)
        entries = calls_of(monkeypatch, Store, "settle", lambda _, batch: int((batch.what == what).sum()))
        asked = [ASKS[done](node, receipts[at : at + FEW]) for at in range(0, len(receipts), FEW)]
        assert {word for words in await asyncio.gather(*asked) for word in words} == {done}
        assert sum(entries) == 400 * FEW
        assert max(entries) <= 256

    run_node(tmp_path / "n1", play)


def test_a_look_opens_a_few_hours_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One receipt in each of 700 hours held the loop for 0.6 s, and to ask whether they were in memory for 0.16 s."""
    hours = 10 * LOOK_HOURS + 1
    store = Store.open(tmp_path, disk=Disk())
    found(store)
    store.turn(HOUR)
    positions = store.append(batch_of([(HOUR + hour) * HOUR_MS + unit for hour in range(hours) for unit in range(3)]))
    store.settle(SettleBatch.of(positions, what=DELIVERED_STATE, at_ms=9, when=0, term=1, attempt=1))
    checkpoint(store, 1)
    store.close()
    store = Store.open(tmp_path, disk=Disk())
    store.turn(HOUR + hours)
    looks = calls_of(monkeypatch, Store, "state_only", lambda _, some: len(set(hours_of(some).tolist())))
    known = calls_of(monkeypatch, Store, "are_known")
    shuffled = np.random.default_rng(1).permutation(positions)
    assert (at_once(states_of(store, shuffled)) == DELIVERED_STATE).all()
    assert looks == [LOOK_HOURS] * 10 + [1]
    assert not known
    assert (at_once(states_of(store, positions[:6])) == DELIVERED_STATE).all()
    assert len(known) == 1
    store.close()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1_000)), min_size=1, max_size=600))
def test_pieces_are_all_rows_in_order_and_within_both_bounds(places: list[tuple[int, int]]) -> None:
    """None is left out, none comes twice, and no piece but the last could take one more."""
    positions = np.array([hour << 40 | unit for hour, unit in places], np.uint64)
    pieces = pieces_of(positions)
    rows = np.concatenate(pieces)
    assert sorted(rows.tolist()) == list(range(len(places)))
    assert (np.diff(positions[rows].astype(np.int64)) >= 0).all()
    for piece in pieces:
        assert 0 < len(piece) <= LOOK_UNITS
        assert len(set(hours_of(positions[piece]).tolist())) <= LOOK_HOURS
