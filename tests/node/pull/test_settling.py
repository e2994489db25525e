"""Acks, nacks and extensions on a whole node: what holds whatever else happens meanwhile."""

import asyncio
from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from api.port.problem import Problem
from node.handover.delivery_log import DELIVERED, LATE
from node.node import Node
from node.pull.receipt_lookup import LOOK_UNITS
from node.pull.settling import FEW
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.file.disk import Disk
from storage.record.delivery_record import END
from storage.store import Store
from tests.calls import calls_of
from tests.node.single_node import run_node
from tests.waiting import until


def test_a_message_given_back_is_not_handed_over_before_that_is_known(tmp_path: Path) -> None:
    """Its lease ends while the nack waits for an entry: handed over then, it would bear the attempt that the hand-over
    after the nack bears too."""

    async def play(node: Node) -> None:
        await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        (first,) = await node.front.pull(PullIn("t", 1, 5_000, 1_000), ANONYMOUS)
        fails = node.group.proposer._fails
        take = fails.take
        fails.take = lambda now_ms: []  # type: ignore[method-assign]

        waiting = asyncio.ensure_future(node.front.pull(PullIn("t", 1, 20_000), ANONYMOUS))
        nacking = node.front.nack("t", [first.receipt], delay_ms=500, principal=ANONYMOUS)
        results = asyncio.ensure_future(nacking)
        # The entry is put together only when the lease has long ended.
        await until(lambda: node.group.clock.now_ms() > first.handed_over_ms + 1_600)
        fails.take = take  # type: ignore[method-assign]
        node.group.proposer.kick()
        (second,) = await waiting
        assert await results == ["nacked"]
        assert second.attempt == 2
        assert second.handed_over_ms >= second.due_ms
        view = await node.front.message(first.id, local=False, principal=ANONYMOUS)
        assert [event.event for event in view.history] == ["scheduled", "leased", "moved", "leased"]
        assert [event.attempt for event in view.history if event.event == "leased"] == [1, 2]

    run_node(tmp_path / "n1", play)


def test_who_changes_a_message_at_its_due_time_is_told_the_truth(tmp_path: Path) -> None:
    """Cancels and reschedules race the due time, beside consumers that pull and give back: after a 200 cancel no
    hand-over starts, none starts before the new due time, and a refusal names the hand-over there was."""
    count = 240

    async def play(node: Node) -> None:
        service = node.front
        due_ms = service.now_ms() + 700
        result = await service.schedule([MessageIn("t", b"1", due_ms=due_ms) for _ in range(count)], ANONYMOUS)
        ids = [bytes(id).decode() for id in result.ids]
        handed_over: dict[str, list[int]] = {id: [] for id in ids}
        fences: dict[str, list[int]] = {id: [] for id in ids}
        refused: list[tuple[str, bool]] = []
        over = False

        async def consume() -> None:
            while not over:
                pulled = await service.pull(PullIn("t", 3, 100, 1_000), ANONYMOUS)
                for each in pulled:
                    handed_over[each.id].append(each.handed_over_ms)
                    fences[each.id].append(each.attempt)
                if pulled:
                    receipts = [each.receipt for each in pulled]
                    await service.nack("t", receipts, delay_ms=20, principal=ANONYMOUS)

        promised: dict[str, tuple[str, int, int]] = {}  # what, since when, until when no hand-over starts

        async def change(row: int, id: str) -> None:
            try:
                if row % 2:
                    done = await service.cancel(id, if_match=None, principal=ANONYMOUS)
                    promised[id] = "cancel", service.now_ms(), 1 << 60
                    assert done.attempts_made == len(handed_over[id]), id
                else:
                    moved = await service.reschedule(id, due_ms=None, delay_ms=300, if_match=None, principal=ANONYMOUS)
                    promised[id] = "reschedule", service.now_ms(), moved.due_ms
            except Problem as problem:
                refused.append((problem.code, problem.extra["attempt"] in fences[id]))

        consumers = [asyncio.ensure_future(consume()) for _ in range(4)]
        changing = []
        for row, id in enumerate(ids):
            await until(lambda row=row: service.now_ms() >= due_ms - 50 + row * 100 / count)  # type: ignore[misc]
            changing.append(asyncio.ensure_future(change(row, id)))
        await asyncio.gather(*changing)
        again = {id: until_ms for id, (what, _, until_ms) in promised.items() if what == "reschedule"}
        await until(lambda: all(max(handed_over[id], default=0) >= until_ms for id, until_ms in again.items()))
        over = True
        await asyncio.gather(*consumers)
        assert set(refused) <= {("leased", True)}
        for id, (what, since_ms, until_ms) in promised.items():
            assert not [at_ms for at_ms in handed_over[id] if since_ms < at_ms < until_ms], (what, id)
        assert {what for what, _, _ in promised.values()} == {"cancel", "reschedule"}
        for attempts in fences.values():
            assert attempts == sorted(set(attempts)), "a later hand-over bears no higher attempt"

    run_node(tmp_path / "n1", play)


def test_a_nack_that_is_sent_again_says_so(tmp_path: Path) -> None:
    """Whatever became of the message since: moved, handed over and given back by another, acked, cancelled. It is stale
    only for a hand-over that was not given back."""

    async def play(node: Node) -> None:
        service = node.front

        async def one() -> Delivery:
            (delivery,) = await service.pull(PullIn("t", 1, 5_000, 60_000), ANONYMOUS)
            return delivery

        async def nack(*deliveries: Delivery, delay_ms: int = 0) -> list[str]:
            receipts = [each.receipt for each in deliveries]
            return [*await service.nack("t", receipts, delay_ms=delay_ms, principal=ANONYMOUS)]

        await service.schedule([MessageIn("t", b"1")], ANONYMOUS)
        first = await one()
        assert await nack(first) == ["nacked"]
        second = await one()
        assert await nack(second, first) == ["nacked", "nacked"]
        third = await one()
        assert await nack(first, second) == ["nacked", "nacked"]
        assert await service.ack("t", [third.receipt], ANONYMOUS) == ["acked"]
        assert await nack(first, second, third) == ["nacked", "nacked", "stale"]

        await service.schedule([MessageIn("t", b"2")], ANONYMOUS)
        moved = await one()
        assert await nack(moved, delay_ms=3_600_000) == ["nacked"]
        await service.reschedule(moved.id, due_ms=None, delay_ms=7_200_000, if_match=None, principal=ANONYMOUS)
        assert await nack(moved) == ["nacked"]
        assert await service.ack("t", [moved.receipt], ANONYMOUS) == ["stale"]
        await service.cancel(moved.id, if_match=None, principal=ANONYMOUS)
        assert await nack(moved) == ["nacked"]

    run_node(tmp_path / "n1", play)


def test_an_ack_after_the_lease_and_a_reschedule_is_stale_and_the_message_comes(tmp_path: Path) -> None:
    """Who gave it another due time was told that it comes then, and asked for that after the consumer had lost it."""

    async def play(node: Node) -> None:
        service = node.front
        await service.schedule([MessageIn("t", b"1")], ANONYMOUS)
        (first,) = await service.pull(PullIn("t", 1, 5_000, 1_000), ANONYMOUS)
        await until(lambda: node.group.clock.now_ms() > first.leased_until_ms)
        moved = await service.reschedule(first.id, due_ms=None, delay_ms=50, if_match=None, principal=ANONYMOUS)
        assert await service.ack("t", [first.receipt], ANONYMOUS) == ["stale"]
        (second,) = await service.pull(PullIn("t", 1, 5_000, 1_000), ANONYMOUS)
        assert (second.id, second.attempt) == (first.id, 2)
        assert second.handed_over_ms >= moved.due_ms

    run_node(tmp_path / "n1", play)


def test_an_ack_that_comes_too_late_leaves_a_trace(tmp_path: Path) -> None:
    """The answer is `stale`, and the node's own account says that the consumer did it all the same: without that nobody
    could tell it from one that never answered."""

    async def play(node: Node) -> None:
        await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        (first,) = await node.front.pull(PullIn("t", 1, 5_000, 1_000), ANONYMOUS)
        (second,) = await node.front.pull(PullIn("t", 1, 8_000), ANONYMOUS)
        assert await node.front.ack("t", [first.receipt], ANONYMOUS) == ["stale"]
        assert await node.front.ack("t", [second.receipt], ANONYMOUS) == ["acked"]

    run_node(tmp_path / "n1", play)
    disk, directory = Disk(), tmp_path / "n1" / "deliveries"
    parts = [read_delivery_file(directory / file.name, disk) for file in delivery_files(directory, disk)]
    rows = [row for part in parts for found, _ in part for row in found if row["kind"] == END]
    assert [(int(row["attempt"]), int(row["outcome"])) for row in rows] == [(1, LATE), (2, DELIVERED)]


def proposals(monkeypatch: pytest.MonkeyPatch, node: Node) -> list[list[int]]:
    """How many rows the acks, failures and extensions have that are proposed from now on."""
    names = ("settle", "fail", "extend")
    return [
        calls_of(monkeypatch, node.group.proposer, name, lambda command, *_: len(command.position)) for name in names
    ]


def test_many_receipts_of_what_has_ended_go_in_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent again, each may have its unit on a page of its own: every node read them all while it applied the entry."""
    count = 2 * LOOK_UNITS + 9

    async def play(node: Node) -> None:
        await node.front.schedule([MessageIn("t", b"1") for _ in range(count)], ANONYMOUS)
        given: list[Delivery] = []
        while len(given) < count:
            given += await node.front.pull(PullIn("t", 1_000, 5_000, 60_000), ANONYMOUS)
        receipts = [each.receipt for each in given]
        assert await node.front.nack("t", receipts[:5], delay_ms=60_000, principal=ANONYMOUS) == ["nacked"] * 5
        assert await node.front.ack("t", receipts[5:-1], ANONYMOUS) == ["acked"] * (count - 6)
        proposed = proposals(monkeypatch, node)
        assert await node.front.ack("t", receipts[:-1], ANONYMOUS) == ["stale"] * 5 + ["acked"] * (count - 6)
        assert await node.front.extend("t", receipts[:-1], lease_ms=None, principal=ANONYMOUS) == ["stale"] * (
            count - 1
        )
        assert await node.front.nack("t", receipts[:-1], delay_ms=0, principal=ANONYMOUS) == [
            *["nacked"] * 5,
            *["stale"] * (count - 6),
        ]
        assert proposed == [[], [], []]
        assert await node.front.extend("t", receipts, lease_ms=None, principal=ANONYMOUS) == [
            *["stale"] * (count - 1),
            "extended",
        ]
        assert await node.front.ack("t", receipts, ANONYMOUS) == ["stale"] * 5 + ["acked"] * (count - 5)
        assert proposed == [[1], [], [1]]

    run_node(tmp_path / "n1", play)


def test_many_small_requests_with_old_receipts_go_in_no_entry_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 of 128 made an entry of 5,120 pages, which every node read in one step."""

    async def play(node: Node) -> None:
        await node.front.schedule([MessageIn("t", b"1")] * (FEW + 1), ANONYMOUS)
        given = await node.front.pull(PullIn("t", 1_000, 5_000, 60_000), ANONYMOUS)
        receipts = [each.receipt for each in given]
        assert set(await node.front.ack("t", receipts, ANONYMOUS)) == {"acked"}
        proposed = proposals(monkeypatch, node)
        assert await node.front.ack("t", receipts, ANONYMOUS) == ["acked"] * (FEW + 1)
        assert proposed == [[], [], []]

    run_node(tmp_path / "n1", play)


def test_what_is_read_for_old_receipts_is_read_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that was started again has no state in memory: it read 5,120 pages in one step of 0.5 s."""
    monkeypatch.setattr("node.pull.receipt_lookup.LOOK_UNITS", 10)

    async def play(node: Node) -> None:
        await node.front.schedule([MessageIn("t", b"1")] * 100, ANONYMOUS)
        given = await node.front.pull(PullIn("t", 1_000, 5_000, 60_000), ANONYMOUS)
        receipts = [each.receipt for each in given]
        looks = calls_of(monkeypatch, Store, "state_only", lambda _, positions: len(positions))
        assert set(await node.front.extend("t", receipts, lease_ms=None, principal=ANONYMOUS)) == {"extended"}
        assert looks == [100]
        looks.clear()
        monkeypatch.setattr(Store, "are_known", lambda self, positions: False)
        assert set(await node.front.extend("t", receipts, lease_ms=None, principal=ANONYMOUS)) == {"extended"}
        assert set(await node.front.ack("t", receipts, ANONYMOUS)) == {"acked"}
        assert looks == [10] * 20
        states = calls_of(monkeypatch, Store, "states", lambda _, positions: len(positions))
        assert set(await node.front.ack("t", receipts, ANONYMOUS)) == {"acked"}
        assert max(states) == 10
        await node.front.nack("t", receipts, delay_ms=None, principal=ANONYMOUS)
        assert looks[30:40] == [10] * 10

    run_node(tmp_path / "n1", play)
