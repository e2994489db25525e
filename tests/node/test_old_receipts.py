"""Receipts of units that ended long ago, many in one request: what they are answered, what a look at them costs, and
what becomes of it where the client or the reign goes meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.loop_turn import in_turns
from api.port import ANONYMOUS, Delivery, MessageIn, PullIn
from api.problem import Problem
from node.delivery_log import DELIVERED
from node.ended import LOOK_HOURS, LOOK_UNITS, _pieces, states_of
from node.server import Node
from node.settling import FEW
from storage.array import U64
from storage.columns import SettleBatch
from storage.delivery_file import delivery_files, read_delivery_file
from storage.delivery_record import END
from storage.disk import Disk
from storage.format import DELIVERED as DELIVERED_STATE
from storage.format import LEASED, Corrupt
from storage.pieces import at_once
from storage.position import HOUR_MS, hours_of
from storage.store import Store
from tests.calls import calls_of
from tests.node.single_node import run_node
from tests.storage.workload import HOUR, batch_of, checkpoint, found
from tests.waiting import until

COUNT = 2 * LOOK_UNITS
Ask = Callable[[Node, Sequence[str]], Coroutine[Any, Any, Sequence[str]]]
ASKS: dict[str, Ask] = {
    "acked": lambda node, texts: node.service.ack("t", texts, ANONYMOUS),
    "nacked": lambda node, texts: node.service.nack("t", texts, delay_ms=3_600_000, principal=ANONYMOUS),
    "extended": lambda node, texts: node.service.extend("t", texts, lease_ms=3_600_000, principal=ANONYMOUS),
}


async def handed_over(node: Node, count: int, topic: str = "t", lease_ms: int = 60_000) -> list[Delivery]:
    """New messages, pulled."""
    await node.service.schedule([MessageIn(topic, b"1")] * count, ANONYMOUS)
    return await pulled(node, count, topic, lease_ms)


async def pulled(node: Node, count: int, topic: str = "t", lease_ms: int = 60_000) -> list[Delivery]:
    """So many of those that are there."""
    got: list[Delivery] = []
    while len(got) < count:
        got += await node.service.pull(PullIn(topic, count - len(got), 5_000, lease_ms), ANONYMOUS)
    return got


async def leased(node: Node, receipts: Sequence[str]) -> U64:
    """Where these stand, once all their leases are written."""
    assert node.reign is not None
    _, named = node.reign.receipts.read(receipts)
    await until(lambda: bool((node.store.state_only(named.position) == LEASED).all()))
    return named.position


def receipts_of(deliveries: Sequence[Delivery]) -> list[str]:
    """Their texts."""
    return [each.receipt for each in deliveries]


def test_many_are_answered_as_few_are(tmp_path: Path) -> None:
    """The leader answers the many by itself, the machine answers the few. Of all hand-overs of a message one is
    `acked`, the others are `stale`. Texts come in any order, some twice."""
    each = 4

    async def play(node: Node) -> None:
        service = node.service
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


@pytest.mark.parametrize("done", ASKS)
def test_who_goes_away_during_the_look_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """A nack and an extension were lost with their client where the look took turns of the loop."""
    monkeypatch.setattr("api.loop_turn.HELD_MAX_S", 0.0)
    monkeypatch.setattr(Store, "are_known", lambda self, positions: False)
    look = Store.state_only

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, COUNT))
        positions = await leased(node, receipts)
        asking = asyncio.ensure_future(ASKS[done](node, receipts))
        monkeypatch.setattr(Store, "state_only", lambda self, positions: (asking.cancel(), look(self, positions))[1])
        with pytest.raises(asyncio.CancelledError):
            await asking
        monkeypatch.setattr(Store, "state_only", look)

        def all_changed() -> bool:
            now = node.store.states(positions)
            return bool(((now.state != LEASED) | (now.lease_end_ms > node.clock.now_ms() + 1_000_000)).all())

        await until(all_changed)

    run_node(tmp_path / "n1", play)


def test_an_ack_whose_client_has_gone_is_counted_and_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked like the ack of a consumer that never answered."""

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, COUNT))
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(node.proposer._settles, "take", lambda now_ms: [])
            asking = asyncio.ensure_future(ASKS["acked"](node, receipts))
            await until(lambda: bool(node.proposer._settles._waiting))
            asking.cancel()
            await asyncio.sleep(0)
        node.proposer.kick()
        await until(lambda: node.store.open_units(node.clock.now_ms() // HOUR_MS) == 0)
        assert asking.cancelled()

    run_node(tmp_path / "n1", play)
    disk, directory = Disk(), tmp_path / "n1" / "deliveries"
    parts = [read_delivery_file(directory / file.name, disk) for file in delivery_files(directory, disk)]
    ends = [int(row["outcome"]) for part in parts for rows, _ in part for row in rows if row["kind"] == END]
    assert ends == [DELIVERED] * COUNT


@pytest.mark.parametrize("stays", [True, False])
def test_damage_that_is_found_ends_the_node_though_the_client_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """The look went on behind its request, and nobody heard what it raised."""
    monkeypatch.setattr("api.loop_turn.HELD_MAX_S", 0.0)
    monkeypatch.setattr(Store, "are_known", lambda self, positions: False)
    look, looks = Store.state_only, list[int]()

    async def play(node: Node) -> None:
        receipts, told = receipts_of(await handed_over(node, COUNT)), list[BaseException]()
        monkeypatch.setattr(node, "fatal", told.append)
        asking = asyncio.ensure_future(ASKS["acked"](node, receipts))

        def damaged(self: Store, positions: Any) -> Any:
            looks.append(len(positions))
            if len(looks) == 1:
                if not stays:
                    asking.cancel()
                return look(self, positions)
            raise Corrupt("settle", 0, "checksum", "1", "2")

        monkeypatch.setattr(Store, "state_only", damaged)
        with pytest.raises(Corrupt if stays else asyncio.CancelledError):
            await asking
        await until(lambda: bool(told))
        monkeypatch.setattr(Store, "state_only", look)
        assert isinstance(told[0], Corrupt)

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("done", ["nacked", "extended"])
def test_what_a_look_of_an_ended_reign_found_is_not_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """The next reign of the same node holds nothing of it: it handed units over beside their nack, and two hand-overs
    bore one attempt."""

    async def play(node: Node) -> None:
        receipts, old = receipts_of(await handed_over(node, FEW + 1)), node.reign

        async def looked(work: Any) -> Any:
            states = await in_turns(work)
            node.group.resign()
            await until(lambda: node.reign is not None and node.reign is not old)
            return states

        monkeypatch.setattr("node.settling.in_turns", looked)
        with pytest.raises(Problem) as refused:
            await ASKS[done](node, receipts)
        assert refused.value.code == "no-leader"
        monkeypatch.setattr("node.settling.in_turns", in_turns)
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
    pieces = _pieces(positions)
    rows = np.concatenate(pieces)
    assert sorted(rows.tolist()) == list(range(len(places)))
    assert (np.diff(positions[rows].astype(np.int64)) >= 0).all()
    for piece in pieces:
        assert 0 < len(piece) <= LOOK_UNITS
        assert len(set(hours_of(positions[piece]).tolist())) <= LOOK_HOURS
