"""What a new leader says of what it took over: counted, not assumed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.leadership import OpenHandOvers
from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from node.leader import backlog as sweep
from node.leader.takeover import HANDED_MAX, NEWEST_S, WATCH_S, Takeover
from node.node import Node
from replication.command.handover import Lease
from storage.catalog.doubt import CLOCKS_MS
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.states import DELIVERED, LEASED
from storage.store import Store
from tests.node.pushing import LOOPBACK, put, schedule, view
from tests.node.receiver import Request, answer, answering, receiver
from tests.node.three_nodes import leader_of, run_nodes
from tests.storage.workload import HOUR, batch_of, found
from tests.waiting import until

B = 10_000
"""Some time, ms."""


def lease(*rows: tuple[int, int, int]) -> Lease:
    """Of (position, lease end, handed over)."""
    position, end_ms, at_ms = zip(*rows, strict=True)
    return Lease(
        np.array(position, np.uint64),
        np.ones(len(rows), np.uint16),
        np.array(end_ms, np.int64),
        np.array(at_ms, np.int64),
    )


def told(takeover: Takeover, *rows: tuple[int, int]) -> None:
    """The former leader handed these over, under leases that have ended by every clock at these times."""
    positions, ends_ms = zip(*rows, strict=True)
    takeover.told(np.array(positions, np.uint64), np.array(ends_ms, np.int64) - CLOCKS_MS)


@pytest.mark.parametrize("pieces_before", [0, 1, 2, 5])
def test_what_former_leaders_leased_is_noted_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces_before: int
) -> None:
    """Between two pieces this term leases two units of the former leader's again, wrongly, and one of them is settled:
    both are counted, wherever the look has come to, and each lease once. A third one's former lease was over."""
    monkeypatch.setattr(sweep, "LEASED_LOOK_ROWS", 10)
    store = Store.open(tmp_path, disk=Disk())
    found(store)
    positions = store.append(batch_of(np.arange(40) + HOUR * HOUR_MS))
    store.append(batch_of([(HOUR + 1) * HOUR_MS]))
    store.settle(SettleBatch.of(positions, what=LEASED, at_ms=1, when=B + 900 - CLOCKS_MS, term=6, attempt=1))
    over_ms = B + 90 - CLOCKS_MS  # before
    store.settle(SettleBatch.of(positions[30:], what=LEASED, at_ms=1, when=over_ms, term=6, attempt=2))
    store.settle(SettleBatch.of(positions[:5], what=DELIVERED, at_ms=2, term=6, attempt=1))
    takeover = Takeover(7, 0.0)
    takeover.begin(store.open_hours())
    for _ in range(pieces_before):
        takeover.carry(store, B + 100)
    again = positions[[28, 8, 35]]
    takeover.leases(store, again, B + 100)
    takeover.handed_over(lease(*((int(position), B + 999, B + 200) for position in again)), 0.2)
    store.settle(SettleBatch.of(again, what=LEASED, at_ms=B + 200, when=B + 999, term=7, attempt=3))
    store.settle(SettleBatch.of(again[1:2], what=DELIVERED, at_ms=B + 210, term=7, attempt=3))
    steps = 0
    while takeover.carrying:
        takeover.carry(store, B + 100)
        steps += 1
    assert (takeover.repeated, takeover.in_flight, steps + pieces_before) == (2, 25, 5)
    takeover.leases(store, again, B + 100)
    assert takeover.in_flight == 25
    store.close()


def test_a_unit_handed_over_while_its_former_lease_ran_is_a_repeat_and_counts_once() -> None:
    """In whatever order the two sides are learned; one whose lease had ended, and one of its own, are none."""
    takeover = Takeover(7, 0.0)
    takeover.handed_over(lease((5, 900, 100), (6, 900, 200), (9, 900, 100)), 0.1)
    told(takeover, (5, 150), (6, 150), (7, 150))
    takeover.handed_over(lease((5, 900, 140), (7, 900, 149)), 0.2)
    assert takeover.repeated == 2
    told(takeover, (9, 101))
    assert takeover.repeated == 3


def test_what_was_released_is_no_repeat_when_it_is_handed_over() -> None:
    """A strict hand-over was leased ahead and taken back: neither counted here, nor told to the next leader."""
    takeover = Takeover(7, 0.0)
    told(takeover, (5, 150), (6, 150))
    takeover.released(np.array([5], np.uint64))
    takeover.handed_over(lease((5, 900, 100), (6, 900, 100)), 0.1)
    assert takeover.repeated == 1
    takeover.released(np.array([6], np.uint64))
    assert takeover.newest()[0].tolist() == []


def test_the_watch_ends_and_what_it_found_stays() -> None:
    """After WATCH_S, or past so many hand-overs, nothing more is remembered."""
    for rows, now_s in ((1, WATCH_S), (HANDED_MAX, 0.2)):
        takeover = Takeover(7, 0.0)
        told(takeover, (5, 150), (6, 150))
        takeover.handed_over(lease((5, 900, 100)), 0.1)
        many = np.arange(100, 100 + rows, dtype=np.uint64)
        ends = np.zeros(rows, np.int64)
        takeover.handed_over(Lease(many, np.ones(rows, np.uint16), ends, ends), now_s)
        takeover.handed_over(lease((6, 900, 100)), now_s)
        assert takeover.repeated == 1


def test_the_newest_hand_overs_are_told_to_the_next_leader() -> None:
    """Those of the last moments, the newest first."""
    takeover = Takeover(7, 0.0)
    takeover.handed_over(lease((1, 900, 100)), 20.0)
    takeover.handed_over(lease((2, 901, 100)), 20.0 + NEWEST_S)
    takeover.handed_over(lease((3, 902, 100)), 20.1 + NEWEST_S)
    assert [column.tolist() for column in takeover.newest()] == [[3, 2], [902, 901]]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 20)), max_size=12),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=12),
)
def test_repeats_are_what_two_lists_say(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
    """As counted by hand: of the first word on each unit, by unit."""
    takeover = Takeover(7, 0.0)
    ends: dict[int, int] = {}
    for position, end_ms in before:
        told(takeover, (position, end_ms))
        ends.setdefault(position, end_ms)
    for position, at_ms in after:
        takeover.handed_over(lease((position, 900, at_ms)), 0.1)
    assert takeover.repeated == len({position for position, at_ms in after if at_ms < ends.get(position, -1)})


def test_leases_of_consumers_are_carried_over_and_counted(tmp_path: Path) -> None:
    """Three are handed out, one of them acked, when leadership moves: two are carried, none comes twice."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await leader.front.schedule([MessageIn("t", b"1")] * 3, ANONYMOUS)
        deliveries = await leader.front.pull(PullIn("t", 3, 2_000, 30_000), ANONYMOUS)
        assert len(deliveries) == 3
        await leader.front.ack("t", [deliveries[0].receipt], ANONYMOUS)
        moved = await leader.front.transfer(None, principal=ANONYMOUS)
        assert (moved.in_flight_carried, moved.repeated) == (2, 0)
        assert moved.gap_ms is not None
        assert 0 < moved.gap_ms < 5_000
        new = await leader_of(nodes, term_above=moved.term_before)
        results = await new.front.ack("t", [each.receipt for each in deliveries[1:]], ANONYMOUS)
        assert results == ["acked", "acked"]

    run_nodes(tmp_path, scene)


def test_a_broken_rule_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader gives leadership away and its last Leases are lost on the way to the log: what it handed over last is
    handed over again by the next one, and the answer says so."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        term = leader.group.raft.term
        (id,) = [each.decode() for each in (await leader.front.schedule([MessageIn("t", b"1")], ANONYMOUS)).ids]
        leader_term = leader.group.leader_term
        assert leader_term is not None
        collect = leader_term.collect

        def losing(now_ms: int, *, going: bool):  # type: ignore[no-untyped-def]
            return collect(now_ms, going=going)._replace(lease=None)

        monkeypatch.setattr(leader_term, "collect", losing)
        waiting = []
        for node in nodes:
            if node is not leader:  # a consumer that takes what is ready as soon as its node leads

                async def pull(node: Node = node) -> None:
                    await until(lambda: node.group.leader_term is not None and node.group.leader_term.trusted(), 20)
                    await node.front.pull(PullIn("t", 1, 2_000, 30_000), ANONYMOUS)

                waiting.append(leader.life.spawn(pull()))
        assert await leader.front.pull(PullIn("t", 1, 2_000, 30_000), ANONYMOUS)
        moved = await leader.front.transfer(None, principal=ANONYMOUS)
        assert (moved.term_before, moved.repeated) == (term, 1)
        new = await leader_of(nodes, term_above=term)
        assert (await view(new, id)).attempt == 1
        for task in waiting:
            task.cancel()

    run_nodes(tmp_path, scene)


def test_only_a_leader_gives_an_account(tmp_path: Path) -> None:
    """A follower refuses; a leader that was elected and took nothing over counts nothing."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        nothing = OpenHandOvers(0, b"", b"")
        with pytest.raises(Problem, match="no-leader"):
            await follower.front.takeover(nothing, principal=ANONYMOUS)
        view = await leader.front.takeover(nothing, principal=ANONYMOUS)
        assert (view.node, view.term) == (leader.config.node_id, leader.group.raft.term)
        assert (view.in_flight_carried, view.repeated) == (0, 0)
        assert view.ready_us >= 100_000

    run_nodes(tmp_path, scene)


def test_strict_pushes_that_were_leased_ahead_are_no_repeats(tmp_path: Path) -> None:
    """Leadership moves three times while strict messages come due: what was leased ahead and not sent is released, sent
    once by whoever leads then, and not counted as handed over twice."""
    seen: list[Request] = []

    async def scene(nodes: list[Node]) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            leader = await leader_of(nodes)
            await put(leader, "orders", url, handover="strict")
            for begun in (0, 50, 100):
                leader = await leader_of(nodes)
                await schedule(leader, *(MessageIn("orders", b"{}", "", None, each * 4) for each in range(50)))
                await until(lambda begun=begun: len(seen) > begun + 10)  # type: ignore[misc]
                moved = await leader.front.transfer(None, principal=ANONYMOUS)
                assert moved.repeated == 0
            await until(lambda: len({each.headers["webhook-id"] for each in seen}) == 150)
        assert len(seen) == 150

    run_nodes(tmp_path, scene, push=LOOPBACK)
