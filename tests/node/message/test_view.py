"""What GET says of hand-overs of which the log does not know all: FOUND D10, D11 and D12."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from api.port.message import Held, MessageView
from api.port.problem import Problem
from node.message.view import find, place_states, tell, view_message
from node.port.failure_code import LEASE_ENDED, MAX_AGE, STOPPED, TIMEOUT
from replication.command.dispatch import DispatchState
from replication.command.handover import Extend
from replication.command.topic import PutTopic
from replication.command.unlink import Unlink
from storage.catalog.doubt import CLOCKS_MS
from storage.format.message_id import encode_ids
from storage.format.pieces import at_once
from tests.replication.applied_log import (
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    fail,
    lease,
    placed,
    redrive,
    reschedule,
    risen_log,
    schedule,
)

END_MS = T0 + 30_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log of the newest level."""
    with risen_log(tmp_path) as log:
        yield log


def view(
    log: Log,
    home: int,
    *,
    term: int = 1,
    now_ms: int = T0 + 1_000,
    leads: bool = False,
    leased_ahead: tuple[int, int] | None = None,
) -> MessageView:
    """The message, as a node shows it in this term."""
    id = encode_ids(0, np.array([home], np.uint64), np.array([log.record(home).random], np.uint64))[0].decode()
    found = find(log.store, id)
    told, nodes = at_once(log.store.history(found.home)), ["n1", "n2", "n3"]
    stands = next(place_states(log.store, np.array([found.place], np.uint64), term))
    return view_message(
        log.store, found, id, stands=stands, topic=log.store.catalog.topic("orders"), now_ms=now_ms, term=term,
        nodes=nodes, told=told, leads=leads, leased_ahead=leased_ahead,
    )  # fmt: skip


def events(log: Log, home: int, term: int) -> list[tuple[str, int | None, str]]:
    """(event, when, node) of all but the first."""
    return [(event.event, event.at_ms, event.node) for event in view(log, home, term=term).history[1:]]


def test_a_planned_push_of_a_term_that_is_over_is_not_told_as_handed_over(log: Log) -> None:
    """D10: its leader may have died before. It is leased all the same, and told once an outcome is known."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(replace(lease(home), planned=True))
    assert view(log, home).handed_over_ms == T0
    found = view(log, home, term=2)
    assert (found.state, found.attempt, found.handed_over_ms, found.lateness_ms) == ("leased", 1, None, None)
    assert events(log, home, 2) == [("leased", None, "")]
    log.apply(ack((home, 1, 1)), term=2, now_ms=T0 + 5)
    assert view(log, home, term=2).handed_over_ms == T0
    assert events(log, home, 2) == [("leased", T0, "n1"), ("delivered", T0 + 5, "n1")]


def test_a_plan_of_a_leader_before_may_have_begun_whatever_this_ones_clock_shows(log: Log) -> None:
    """D1: a clock that is behind says that it is for later, and its receiver has it (seed 24032)."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(replace(lease(home), planned=True))
    early = [view(log, home, term=term, now_ms=T0 - 200) for term in (1, 2)]
    assert [(each.state, each.attempt) for each in early] == [("scheduled", 0), ("leased", 1)]


def test_a_leader_knows_what_it_has_begun_though_its_clock_went_back(log: Log) -> None:
    """Seed 19464: a leader's clock was held 4 s back after a strict push, and GET said attempt 0 to its receiver."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(replace(lease(home), planned=True))
    back_ms = T0 - 4_000
    begun = view(log, home, now_ms=back_ms, leads=True)
    assert (begun.state, begun.attempt, begun.handed_over_ms) == ("leased", 1, T0)
    waiting = view(log, home, now_ms=back_ms, leads=True, leased_ahead=(1, 1))
    assert (waiting.state, waiting.attempt, waiting.handed_over_ms) == ("scheduled", 0, None)


def test_a_planned_push_whose_lease_was_extended_was_made(log: Log) -> None:
    """Who extends it has it; and it may fail later."""
    one, two = placed(log.apply(schedule(T0, T0)))
    log.apply(replace(lease(one, two), planned=True))
    log.apply(extend(one, term=1, end_ms=END_MS + 5_000), term=2)
    log.apply(fail((two, 1, 1), due_ms=T0 + 900), term=2)
    assert [view(log, home, term=2).handed_over_ms for home in (one, two)] == [T0, T0]
    assert events(log, one, 2) == [("leased", T0, "n1")]


def extend(place: int, *, term: int, end_ms: int) -> Extend:
    """Of its first attempt."""
    return Extend(
        np.array([place], np.uint64), np.array([term], np.uint32), np.array([1], np.uint16), np.array([end_ms])
    )


def test_who_handed_over_and_when_is_not_made_up_from_an_extension(log: Log) -> None:
    """D11: the Lease was lost with its leader; the next one extends it 3.9 s later, and again."""
    (home,) = placed(log.apply(schedule(T0)))
    for end_ms in (END_MS, END_MS + 1_000):
        log.apply(extend(home, term=1, end_ms=end_ms), term=2, now_ms=T0 + 3_900)
    found = view(log, home, term=2)
    assert (found.state, found.attempt, found.handed_over_ms, found.lateness_ms) == ("leased", 1, None, None)
    assert events(log, home, 2) == [("leased", None, "")]


def test_lateness_is_of_the_due_time_that_the_hand_over_was_for(log: Log) -> None:
    """D12: a message that was put off by a day after its hand-over said -86401502 ms. After a retry it is as it was."""
    moved, retried, dead = placed(log.apply(schedule(T0, T0, T0)))
    log.apply(lease(moved, retried, dead, at_ms=T0 + 7, end_ms=T0 + 10))
    log.apply(fail((retried, 1, 1), due_ms=T0 + 2_000))
    log.apply(fail((dead, 1, 1), dead=True))
    log.apply(reschedule((moved, T0 + 86_400_000)), redrive(dead, due_ms=T0 + 5_000), now_ms=T0 + 500)
    assert [view(log, home).lateness_ms for home in (moved, retried, dead)] == [None, 7, None]
    assert [view(log, home).handed_over_ms for home in (moved, retried, dead)] == [T0 + 7] * 3


def test_a_lease_of_a_term_before_runs_until_it_has_ended_by_every_clock(log: Log) -> None:
    """D2: as the dispatcher has it."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(lease(home, end_ms=END_MS))
    shown = [view(log, home, term=2, now_ms=END_MS + later_ms).state for later_ms in (0, CLOCKS_MS - 1, CLOCKS_MS)]
    assert (view(log, home, now_ms=END_MS).state, shown) == ("ready", ["leased", "leased", "ready"])


def test_a_push_of_which_nobody_heard_before_its_lease_ended_is_not_told(log: Log) -> None:
    """Also to the leader that planned it: a cancel says `unknown` then (seed 35343)."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(replace(lease(home), planned=True))
    assert view(log, home, now_ms=END_MS - 1).handed_over_ms == T0
    found = view(log, home, now_ms=END_MS)
    assert (found.state, found.handed_over_ms, found.lateness_ms) == ("ready", None, None)


@pytest.mark.parametrize(("code", "at_ms"), [(LEASE_ENDED, None), (MAX_AGE, None), (STOPPED, None), (TIMEOUT, T0)])
def test_who_gives_a_message_up_heard_nothing_of_its_last_hand_over(log: Log, code: int, at_ms: int | None) -> None:
    """But where the failure itself was told."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(replace(lease(home), planned=True))
    log.apply(fail((home, 1, 1), due_ms=0, dead=True, code=code), term=2, now_ms=END_MS + 6_000)
    assert view(log, home, term=2, now_ms=END_MS + 7_000).handed_over_ms == at_ms


def test_b8_a_long_story_is_read_in_turns_and_as_of_one_moment(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was moved 10,000 times made every GET hold the loop for 110 ms. Others have it in between; what
    goes on meanwhile is read again."""
    (home,) = placed(log.apply(schedule(T0)))
    for number in range(100):
        log.apply(reschedule((home, T0 + number)))
    id = encode_ids(0, np.array([home], np.uint64), np.array([log.record(home).random], np.uint64))[0].decode()
    monkeypatch.setattr("api.port.loop_turn.HELD_MAX_S", 0.0)
    turns, moves = 0, 2

    async def others() -> None:
        nonlocal turns, moves
        while True:
            turns += 1
            if moves and turns % 10 == 0:
                moves -= 1
                log.apply(reschedule((home, T0 + 1_000 + turns)))
            await asyncio.sleep(0)

    async def play() -> None:
        beside = asyncio.ensure_future(others())
        found, told = await tell(log.store, id)
        assert told.tobytes() == at_once(log.store.history(home)).tobytes()
        assert (found.place, len(told)) == (log.store.last_place(home), 102)
        assert turns > 100
        beside.cancel()

    asyncio.run(play())


def test_9042_a_message_is_known_until_the_hour_where_it_ended_goes(log: Log) -> None:
    """Its home, which stays for others, tells of its first revision and due time, and of no doubt."""
    (home,) = placed(log.apply(schedule(T0 + 50 * HOUR_MS)))
    log.apply(reschedule((home, T0)))
    log.apply(fail((log.place(home), 1, 1), dead=True), DispatchState((T0 + HOUR_MS) // 1000, 0, 1))
    found = view(log, home)
    assert (found.state, found.revision, found.due_ms) == ("dead", 2, T0)
    log.apply(Unlink(np.array([T0 // HOUR_MS], np.int64)), now_ms=T0 + HOUR_MS + 60_001)
    with pytest.raises(Problem, match="no message has this id; it may be past its retention"):
        view(log, home)


def test_what_a_pause_holds_says_so(log: Log) -> None:
    """A message that is due says so, from its due time or the begin of the pause on. Nothing else is held: not what
    waits for its time, is leased, or has ended."""
    home, later, leased, ended = placed(log.apply(schedule(T0, T0 + 9_000, T0, T0)))
    log.apply(lease(leased))
    log.apply(cancel(ended))
    homes = (home, later, leased, ended)
    assert [view(log, each).held for each in homes] == [None] * 4
    log.apply(PutTopic("default", "orders", {"paused": True}, replace=False), now_ms=T0 + 500)
    assert [view(log, each).held for each in homes] == [Held("pause", T0 + 500), None, None, None]
    assert view(log, later, now_ms=T0 + 9_000).held == Held("pause", T0 + 9_000)
    assert view(log, leased, now_ms=END_MS).held == Held("pause", T0 + 500)
    log.apply(PutTopic("default", "orders", {"paused": False}, replace=False), now_ms=T0 + 600)
    assert view(log, home).held is None
