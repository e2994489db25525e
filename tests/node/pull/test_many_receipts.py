"""Requests of many receipts: what they cost others, what they leave behind, and what is known of them in the end."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from api.port import loop_turn
from api.port.port import ANONYMOUS, Delivery, MessageIn
from api.port.problem import Problem
from node.handover.delivery_log import DELIVERED, GIVEN_BACK, LATE
from node.leader.leader_term import LeaderTerm
from node.node import Node
from node.port.receipt import READ_AT_ONCE, Receipts
from node.pull.logged_ends import LoggedEnds
from node.pull.receipt_lookup import LOOK_UNITS
from node.pull.settling import FEW
from node.settle.in_parts import WAITING_PIECES
from storage.format.level import LEVELS
from storage.format.rows import Corrupt
from storage.format.states import LEASED
from storage.store import Store
from tests.calls import calls_of
from tests.node.consumers import ASKS, ends_logged, handed_over, leased, pulled, receipts_of
from tests.node.single_node import run_node
from tests.waiting import until

COUNT = 256


@pytest.mark.parametrize("done", ASKS)
def test_who_goes_away_during_the_look_leaves_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """The look went on as a task of its own, which no budget counted: a client that came and went filled the memory."""
    monkeypatch.setattr("api.port.loop_turn.HELD_MAX_S", 0.0)
    monkeypatch.setattr(Store, "are_known", lambda self, positions: False)

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, COUNT))
        await leased(node, receipts)
        await until(lambda: node.group.machine.level == LEVELS[1])  # until then the node begins tasks of its own
        works = asyncio.all_tasks()
        asking = asyncio.ensure_future(ASKS[done](node, receipts))
        with monkeypatch.context() as meanwhile:
            looks = calls_of(meanwhile, Store, "state_only", lambda *_: asking.cancel())
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert looks == [True]
        assert asyncio.all_tasks() <= works
        assert set(await ASKS[done](node, receipts)) == {done}

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize(("done", "outcome"), [("acked", DELIVERED), ("nacked", GIVEN_BACK)])
def test_what_was_proposed_is_noted_though_the_client_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str, outcome: int
) -> None:
    """It looked like a consumer that never answered."""

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, COUNT))
        positions = await leased(node, receipts)
        queue = node.group.proposer._settles if done == "acked" else node.group.proposer._fails
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(queue, "take", lambda now_ms: [])
            asking = asyncio.ensure_future(ASKS[done](node, receipts))
            await until(lambda: bool(queue._waiting))
            asking.cancel()
            await asyncio.wait([asking])
        node.group.proposer.kick()
        await until(lambda: bool((node.group.store.state_only(positions) > LEASED).all()))
        assert asking.cancelled()

    run_node(tmp_path / "n1", play)
    assert [int(row["outcome"]) for row in ends_logged(tmp_path / "n1")] == [outcome] * COUNT


@pytest.mark.parametrize("done", ASKS)
def test_a_refusal_that_nobody_waits_for_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """A node that stopped amid 376 of them logged as many tracebacks."""

    async def play(node: Node) -> None:
        told = list[dict[str, Any]]()
        receipts = receipts_of(await handed_over(node, COUNT))
        await leased(node, receipts)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        queues = (node.group.proposer._settles, node.group.proposer._fails, node.group.proposer._extends)
        with monkeypatch.context() as meanwhile:
            for queue in queues:
                meanwhile.setattr(queue, "take", lambda now_ms: [])
            asking = asyncio.ensure_future(ASKS[done](node, receipts))
            await until(lambda: any(queue._waiting for queue in queues))
            asking.cancel()
            await asyncio.wait([asking])
            node.group.raft.resign()
            await until(lambda: not any(queue._waiting for queue in queues))
        await asyncio.sleep(0)
        del asking
        gc.collect()
        assert not told

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("when", ["looked at", "noted"])
def test_damage_that_is_found_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Also where it is found behind the request, whose client may have gone."""

    async def play(node: Node) -> None:
        receipts, told = receipts_of(await handed_over(node, COUNT)), list[BaseException]()
        await leased(node, receipts)
        monkeypatch.setattr(node.group.life, "fatal", told.append)

        def damaged(*args: Any, **columns: Any) -> Any:
            raise Corrupt("settle", 0, "checksum", "1", "2")

        with monkeypatch.context() as meanwhile:
            if when == "looked at":
                meanwhile.setattr(Store, "state_only", damaged)
            else:
                meanwhile.setattr(node.group.delivery_log, "end", damaged)
            asking = asyncio.ensure_future(ASKS["acked"](node, receipts))
            await until(lambda: bool(told))
        await asyncio.wait([asking])
        assert isinstance(told[0], Corrupt)
        assert (asking.exception() is not None) == (when == "looked at")

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("done", ASKS)
def test_a_receipt_that_is_shown_many_times_is_one_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """10,000 copies were as many rows of an entry and of the delivery log, each time: a hundred such acks kept the
    ledger of their hour from everybody."""

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, FEW + 1))
        await leased(node, receipts)
        names = ("settle", "fail", "extend")
        rows = [
            calls_of(monkeypatch, node.group.proposer, name, lambda command, *_: len(command.position))
            for name in names
        ]
        texts = [*receipts, "A" * 67] * 1_000
        assert await ASKS[done](node, texts) == ([done] * (FEW + 1) + ["invalid"]) * 1_000
        assert [sum(each) for each in rows if each] == [FEW + 1]

    run_node(tmp_path / "n1", play)
    assert len(ends_logged(tmp_path / "n1")) == (0 if done == "extended" else FEW + 1)


def test_receipts_are_read_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 that another leader made held the loop for 14 ms."""

    async def play(node: Node) -> None:
        assert node.group.leader_term is not None
        receipts = receipts_of(await handed_over(node, 2 * READ_AT_ONCE + 1))
        await leased(node, receipts)
        receipts[READ_AT_ONCE] = "A" * 67
        pieces = calls_of(monkeypatch, Receipts, "read", lambda _, texts: len(texts))
        expected = ["acked"] * READ_AT_ONCE + ["invalid"] + ["acked"] * READ_AT_ONCE
        assert await ASKS["acked"](node, receipts) == expected
        assert pieces == [READ_AT_ONCE, READ_AT_ONCE, 1]

    run_node(tmp_path / "n1", play)


def test_a_look_for_old_nacks_reads_each_story_once_and_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 10,000 receipts of one message had its story read at once, 2 to 9 ms, whether or not anybody waited."""

    async def play(node: Node) -> None:
        service, old = node.front, list[Delivery]()
        await service.schedule([MessageIn("t", b"1")], ANONYMOUS)
        for _ in range(FEW + 2):
            old += await pulled(node, 1)
            await service.nack("t", receipts_of(old[-1:]), delay_ms=0, principal=ANONYMOUS)
        last = await pulled(node, 1)
        assert set(await service.ack("t", receipts_of(last), ANONYMOUS)) == {"acked"}
        stories = calls_of(monkeypatch, Store, "history")
        in_turns = calls_of(monkeypatch, loop_turn, "in_turns", lambda work: work.__name__)
        monkeypatch.setattr("node.pull.settling.in_turns", loop_turn.in_turns)
        texts = receipts_of([*old, *last])
        assert await service.nack("t", texts, delay_ms=0, principal=ANONYMOUS) == ["nacked"] * len(old) + ["stale"]
        assert len(stories) == 1
        assert in_turns == ["states_of", "done_by", "_log_in_pieces", "given_back_before"]

    run_node(tmp_path / "n1", play)


def test_a_small_request_stands_behind_few_pieces_of_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nack stood behind all that 16 clients had asked for, for 15 s."""
    monkeypatch.setattr("node.pull.settling.ENTRY_MOVES_MAX", 8)

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, 20 * 8))
        await leased(node, receipts)
        fails = node.group.proposer._fails
        waiting = calls_of(monkeypatch, fails, "add", lambda *_: len(fails._waiting))
        assert set(await ASKS["nacked"](node, receipts)) == {"nacked"}
        assert len(waiting) == 20
        assert max(waiting) < WAITING_PIECES

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("done", ["nacked", "extended"])
def test_of_a_request_whose_reign_ends_in_the_middle_a_part_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """The rest is not proposed, and may be asked again."""
    monkeypatch.setattr("node.pull.settling.ENTRY_MOVES_MAX", 8)
    monkeypatch.setattr("node.pull.settling.EXTENDED_AT_ONCE", 8)

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, 10 * 8))
        await leased(node, receipts)
        old, asked = node.group.leader_term, list[int]()

        def look(leader_term: LeaderTerm) -> None:
            asked.append(1)
            if len(asked) == 4:
                raise Problem("no-leader", "the leader changed during the wait; ask again")

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(LeaderTerm, "raise_if_over", look)
            with pytest.raises(Problem) as refused:
                await ASKS[done](node, receipts)
        assert refused.value.code == "outcome-unknown"
        results = refused.value.extra["results"]
        assert [each["receipt"] for each in results] == receipts
        assert [each["result"] for each in results] == [done] * 24 + ["unknown"] * 56
        assert node.group.leader_term is old
        assert set(await ASKS[done](node, receipts)) == {done}

    run_node(tmp_path / "n1", play)


def test_what_another_leader_took_is_logged_where_it_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again and again they filled the disk. That one came too late is logged as long as there is room."""

    async def play(node: Node) -> None:
        receipts = receipts_of(await handed_over(node, FEW + 1))
        late = receipts_of(await handed_over(node, FEW + 1))
        assert set(await ASKS["acked"](node, receipts)) == {"acked"}
        assert set(await ASKS["nacked"](node, late)) == {"nacked"}
        logged = calls_of(
            monkeypatch, node.group.delivery_log, "end", lambda **row: row["outcome"] if len(row["home"]) else 0
        )
        assert set(await ASKS["acked"](node, receipts)) == {"acked"}
        assert not any(logged)
        assert set(await ASKS["nacked"](node, late)) == {"nacked"}
        assert not any(logged)
        assert set(await ASKS["acked"](node, late)) == {"stale"}
        assert [each for each in logged if each] == [LATE]
        logged.clear()
        monkeypatch.setattr(node.group.reserve, "low", True)
        monkeypatch.setattr(node.group.port._settling, "_noted", LoggedEnds())
        assert set(await ASKS["acked"](node, late)) == {"stale"}
        assert not any(logged)
        before = node.group.leader_term
        node.group.raft.resign()
        await until(lambda: node.group.leader_term is not None and node.group.leader_term is not before)
        assert set(await ASKS["acked"](node, receipts)) == {"acked"}
        assert [each for each in logged if each] == [DELIVERED]
        logged.clear()
        assert set(await ASKS["nacked"](node, late)) == {"nacked"}
        assert [each for each in logged if each] == [GIVEN_BACK]

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_what_is_told_again_is_logged_once(tmp_path: Path, count: int) -> None:
    """A thousand late acks, sent again and again, had rows each time: they filled the disk, and the ledger of their
    hour was refused to everybody. How many messages ended counts each once, how many acks were answered each time."""

    async def play(node: Node) -> None:
        acked = receipts_of(await handed_over(node, count))
        late = receipts_of(await handed_over(node, count))
        assert set(await ASKS["nacked"](node, late)) == {"nacked"}
        for _ in range(3):
            assert set(await ASKS["acked"](node, acked)) == {"acked"}
            assert set(await ASKS["acked"](node, late)) == {"stale"}
        assert (node.group.counters.acked, node.group.topic_metrics.of("t").acked) == (3 * count, count)

    run_node(tmp_path / "n1", play)
    outcomes = [int(row["outcome"]) for row in ends_logged(tmp_path / "n1")]
    assert sorted(outcomes) == sorted([DELIVERED, GIVEN_BACK, LATE] * count)


@pytest.mark.parametrize("done", ["acked", "nacked"])
def test_where_old_messages_were_born_is_read_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """Of 10,000 whose hour had cooled that was read in one step, 30 to 60 ms."""

    async def play(node: Node) -> None:
        late = receipts_of(await handed_over(node, 2 * LOOK_UNITS, lease_ms=1_000))
        newer = receipts_of(await pulled(node, 2 * LOOK_UNITS))
        assert set(await ASKS["acked"](node, newer)) == {"acked"}
        read = calls_of(monkeypatch, Store, "homes", lambda _, positions: len(positions))
        in_turns = calls_of(monkeypatch, loop_turn, "in_turns", lambda work: work.__name__)
        monkeypatch.setattr("node.pull.settling.in_turns", loop_turn.in_turns)
        assert set(await ASKS[done](node, late)) == {"stale"}
        assert sum(read) == 2 * LOOK_UNITS
        assert max(read) == LOOK_UNITS
        assert ("_log_in_pieces" if done == "acked" else "given_back_before") in in_turns

    run_node(tmp_path / "n1", play)
