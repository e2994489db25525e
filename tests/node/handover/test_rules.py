"""What a rule holds: it waits, in nobody's way, is asked again, and is first in line when the rule lets go."""

from __future__ import annotations

import numpy as np
import pytest

import node.handover.ready_units
from node.handover.ready_units import PARKED_MS
from replication.command.topic import DropTopic, PutTopic
from storage.format.array import U64, Mask
from storage.format.hold_reasons import HoldReason
from storage.format.predicate import TagFilter
from storage.wheel.slot import DueUnits
from tests.node.conftest import MakeLeader
from tests.node.one_leader import LEASE_MS, T0, Leader


class Some:
    """Holds what it is told to hold."""

    reason = HoldReason(200, "some", False, "a test says so")
    leaves_out = False

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.asked: list[int] = []
        self.topics: set[int] = set()

    def may_hold(self, positions: U64) -> bool:
        """See Rule."""
        return True

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """See Rule."""
        self.asked += units.position.tolist()
        self.topics |= set(units.topic.tolist())
        return np.isin(units.position, np.array(self.positions, np.uint64))


@pytest.fixture
def some() -> Some:
    """The rule."""
    return Some()


@pytest.fixture
def ruled(make_leader: MakeLeader, some: Some) -> Leader:
    """A leader that asks it."""
    return promoted(make_leader(), some)


def promoted(leader: Leader, some: Some) -> Leader:
    """One that asks the rule, promoted at T0."""
    leader.rules = (some,)
    assert leader.promote(T0) is None
    leader.run(T0)
    leader.commit(T0)
    return leader


def parked(leader: Leader) -> int:
    """How many units are; all that is claimed is there or in windows."""
    ready = leader.dispatcher._ready
    assert len(leader.dispatcher._claims) == ready.parked.count + ready.count
    return ready.parked.count


def test_it_waits_in_nobodys_way_and_is_first_when_let_go(ruled: Leader, some: Some) -> None:
    """One pull passes over what is held; when the rule lets go, and somebody says so, the next has it before others."""
    units = ruled.schedule(*range(T0 + 1, T0 + 7))
    some.positions = units[:4]
    assert ruled.pull(T0 + 10, 1) == units[4:5]
    assert ruled.pull(T0 + 11) == units[5:]
    assert (parked(ruled), ruled.dispatcher.handing_over.ready_count) == (4, 0)
    assert some.topics == {ruled.topic()}
    later = ruled.schedule(T0 + 20)
    some.positions = units[1:2]
    ruled.dispatcher.handing_over.ask_again()
    assert ruled.pull(T0 + 30) == [units[0], *units[2:4], *later]
    assert parked(ruled) == 1


def test_it_is_asked_again_though_nobody_says_so(ruled: Leader, some: Some) -> None:
    """The loop wakes for it."""
    (one,) = ruled.schedule(T0 + 1)
    some.positions = [one]
    assert ruled.pull(T0 + 10) == []
    some.positions = []
    assert ruled.dispatcher.handing_over.has_more(ruled.subscription()), "a step sets the alarm"
    asked_ms = T0 + 10 + PARKED_MS
    assert ruled.run(T0 + 20) == asked_ms - (T0 + 20)
    assert ruled.pull(asked_ms - 1) == []
    assert ruled.pull(asked_ms) == [one]


def test_the_alarm_of_what_stays_held_is_set_anew(ruled: Leader, some: Some) -> None:
    """And by a clock that has gone back."""
    (one,) = ruled.schedule(T0 + 1)
    some.positions = [one]
    assert ruled.pull(T0 + 10) == []
    some.asked.clear()
    assert ruled.run(T0 + 10 + PARKED_MS) == PARKED_MS
    assert some.asked == [one]
    some.positions = []
    assert ruled.pull(T0 + 5) == [one]


def test_what_ends_meanwhile_is_forgotten(ruled: Leader, some: Some) -> None:
    """Cancelled, or moved: there it is asked about anew."""
    gone, moved = some.positions = ruled.schedule(T0 + 1, T0 + 1)
    assert ruled.pull(T0 + 10) == []
    assert parked(ruled) == 2
    ruled.cancel(gone)
    place = ruled.reschedule(moved, T0 + 50, now_ms=T0 + 20)
    assert ruled.pull(T0 + 10 + PARKED_MS) == [place]
    ruled.run(T0 + 10 + PARKED_MS)
    assert parked(ruled) == 0


def test_a_filter_finds_what_stands_behind(ruled: Leader, some: Some) -> None:
    """And what it wants of what the rule let go, though it had passed over it."""
    units = ruled.schedule(*[T0 + 1] * 4, tags=[["eu"], ["us"], ["eu"], ["us"]])
    some.positions = units[:2]
    eu = TagFilter.of([["eu"]])
    ruled.run(T0 + 1)
    assert ruled.hand_over(T0 + 1, tags=eu).position.tolist() == units[2:3]
    assert not ruled.dispatcher.handing_over.waiting(ruled.subscription(), eu)
    some.positions = []
    ruled.dispatcher.handing_over.ask_again()
    ruled.run(T0 + 2)
    assert ruled.dispatcher.handing_over.waiting(ruled.subscription(), eu)
    assert ruled.hand_over(T0 + 2, tags=eu).position.tolist() == units[:1]
    assert ruled.hand_over(T0 + 2).position.tolist() == [units[1], units[3]]


def test_a_push_is_asked_about_when_it_would_be_sent(ruled: Leader, some: Some) -> None:
    """What is held leaves the lane; the others go at the second asking, topic by topic."""
    held, free = ruled.schedule(T0 + 1, T0 + 1)
    handing_over, subscription = ruled.dispatcher.handing_over, ruled.subscription()
    ruled.run(T0 + 1)
    staged = handing_over.stage(subscription, 10, T0 + 1)
    handing_over.read_staged(staged)
    some.positions = [held]
    assert handing_over.hand_over_first(staged, LEASE_MS, T0 + 2, trusted=True) is None
    made = handing_over.hand_over_staged(subscription, staged, LEASE_MS, T0 + 2, trusted=True)
    assert (made.hand_over.position.tolist(), made.left.tolist()) == ([free], [])
    assert ruled.dispatcher._ready.parked.count == 1
    assert handing_over.stage(subscription, 10, T0 + 3).tolist() == []
    some.positions = []
    ruled.dispatcher.handing_over.ask_again()
    ruled.run(T0 + 4)
    staged = handing_over.stage(subscription, 10, T0 + 4)
    handing_over.read_staged(staged)
    first = handing_over.hand_over_first(staged, LEASE_MS, T0 + 4, trusted=True)
    assert first is not None
    assert first.position.tolist() == [held]


def test_what_is_held_is_not_leased_ahead(ruled: Leader, some: Some) -> None:
    """Neither staged before its time, nor planned if the rule took it meanwhile; when it is due it is asked about as
    any other."""
    ruled.propose(PutTopic("default", "orders", {"handover": "strict", "mode": "push"}, replace=False))
    one, two = ruled.schedule(T0 + 500, T0 + 500)
    handing_over, subscription = ruled.dispatcher.handing_over, ruled.subscription()
    some.positions = [one]
    ruled.run(T0 + 450)
    staged = handing_over.lease_ahead.stage(subscription, 10, T0 + 450)
    assert staged.tolist() == [two]
    some.positions = [one, two]
    planned = handing_over.plan(subscription, staged, LEASE_MS, T0 + 460, trusted=True)
    assert (planned.hand_overs, planned.left.tolist()) == ([], [])
    assert parked(ruled) == 0
    ruled.run(T0 + 500)
    staged = handing_over.stage(subscription, 10, T0 + 500)
    assert handing_over.plan(subscription, staged, LEASE_MS, T0 + 500, trusted=True).hand_overs == []
    assert parked(ruled) == 2
    some.positions = []
    ruled.dispatcher.handing_over.ask_again()
    ruled.run(T0 + 510)
    staged = handing_over.stage(subscription, 10, T0 + 510)
    (made,) = handing_over.plan(subscription, staged, LEASE_MS, T0 + 510, trusted=True).hand_overs
    assert made.position.tolist() == [one, two]


def test_memory_is_bounded_and_the_rest_is_backlog(make_leader: MakeLeader, some: Some) -> None:
    """What is parked fills the subscription's share: no more is read until it goes. Another topic is not held up."""
    leader = promoted(make_leader(window_per_topic=10, window_total=40), some)
    units = leader.schedule(*[T0 + 1] * 20, *range(T0 + 2, T0 + 202, 5))
    others = leader.schedule(*[T0 + 1] * 30, topic="others")
    some.positions = units
    subscription = leader.subscription()
    for now_ms in range(T0 + 10, T0 + 400, 10):
        assert leader.pull(now_ms) == []
        assert parked(leader) + leader.dispatcher.handing_over.ready_of(subscription) <= 10
    assert len(some.asked) < 200, "the records are not read over and over"
    assert leader.drain(T0 + 400, topic="others") == others
    some.positions = []
    leader.dispatcher.handing_over.ask_again()
    assert leader.drain(T0 + 410) == units
    assert parked(leader) == 0


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_what_is_left_out_starves_nobody(make_leader: MakeLeader, some: Some, order: str) -> None:
    """Neither in memory nor in the reader of the backlog, which reads a piece in the order of due times: it once found
    the same first units of each piece again and again."""
    leader = promoted(make_leader(window_per_topic=10, window_total=40), some)
    due = np.arange(T0 + 1, T0 + 201)
    due = {"rising": due, "falling": due[::-1], "mixed": np.random.default_rng(1).permutation(due)}[order]
    units = np.array(leader.schedule(*due.tolist()), np.uint64)[np.argsort(due)].tolist()
    others = leader.schedule(*range(T0 + 210, T0 + 240))
    some.positions, some.leaves_out = units, True
    assert leader.pull(T0 + 300) == [], "the window had only what is left out"
    assert leader.drain(T0 + 300) == others
    assert len(some.asked) < 500, "each is found a few times at most"
    assert (parked(leader), len(leader.dispatcher._claims)) == (0, 0)
    some.positions, elsewhere = [], leader.schedule(T0 + 301, topic="others")
    leader.dispatcher.handing_over.ask_again({leader.topic("others")})
    assert (leader.drain(T0 + 310), leader.drain(T0 + 310, topic="others")) == ([], elsewhere)
    leader.dispatcher.handing_over.ask_again({leader.topic()})
    assert sorted(leader.drain(T0 + 310)) == sorted(units)


def test_many_are_parked_and_asked_a_piece_at_a_time(
    ruled: Leader, some: Some, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hand-over and no step looks at all of them; a pull that found nothing asks for another step."""
    monkeypatch.setattr(node.handover.ready_units, "PARKED_ROWS", 3)
    units = ruled.schedule(*[T0 + 1] * 11)
    some.positions = units[:10]
    ruled.run(T0 + 1)
    handed: list[int] = []
    for _ in range(4):
        before = len(some.asked)
        handed += ruled.hand_over(T0 + 1, 3).position.tolist()
        assert len(some.asked) - before <= 6
    assert (handed, ruled.dispatcher._ready.parked.count) == (units[10:], 10)
    some.positions, some.asked = [], []
    ruled.dispatcher.handing_over.ask_again()
    for asked in (3, 6, 9, 10):
        assert ruled.dispatcher.handing_over.wake_ms() == 0
        ruled.dispatcher.step(T0 + 2)
        assert len(some.asked) == asked
    assert ruled.hand_over(T0 + 2).position.tolist() == units[:10]


def test_with_the_topic_it_goes(ruled: Leader, some: Some) -> None:
    """Nothing of it stays claimed."""
    (one,) = some.positions = ruled.schedule(T0 + 1)
    assert ruled.pull(T0 + 10) == []
    ruled.cancel(one)
    ruled.propose(DropTopic("default", "orders", ruled.machine.applied_index + 1, ruled.store.unit_count))
    assert ruled.store.catalog.topic("orders") is None
    assert (ruled.dispatcher._ready.parked.count, len(ruled.dispatcher._claims)) == (0, 0)


def test_a_leader_without_rules_reads_nothing_for_them(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a row, nor an array."""
    monkeypatch.setattr(node.handover.ready_units, "ask_rules", lambda *_: 1 / 0)
    monkeypatch.setattr(node.handover.ready_units, "held_by", lambda *_: 1 / 0)
    units = leader.schedule(*[T0 + 1] * 3)
    assert leader.pull(T0 + 10) == units
    assert leader.dispatcher.handing_over.wake_ms() is None
