"""Strict pushes between the wheel and their time, and what leaders do with the plans of others. On the real machine."""

import numpy as np
import pytest

import node.handover.strict
from node.handover.lease_ahead import AHEAD_MS
from node.handover.lease_book import HandOver
from replication.command.topic import PutTopic
from storage.catalog.doubt import CLOCKS_MS
from storage.format.array import U64
from storage.format.states import LEASED, PENDING
from storage.tables.topic import Subscription
from tests.node.conftest import MakeLeader
from tests.node.one_leader import T0, Leader

PUSH_LEASE_MS = 15_000
STRICT_PUSH = {"handover": "strict", "mode": "push"}


def strict(leader: Leader, *, mode: str = "push") -> Subscription:
    """A strict topic; its subscription."""
    leader.propose(PutTopic("default", "orders", {"handover": "strict", "mode": mode}, replace=False))
    return leader.subscription()


def stage(leader: Leader, now_ms: int, most: int = 100) -> U64:
    """What is due soon, staged."""
    leader.run(now_ms)
    return leader.dispatcher.handing_over.lease_ahead.stage(leader.subscription(), most, now_ms)


def plan(leader: Leader, now_ms: int) -> list[HandOver]:
    """What is due soon, staged and planned."""
    staged = stage(leader, now_ms)
    planned = leader.dispatcher.handing_over.plan(leader.subscription(), staged, PUSH_LEASE_MS, now_ms, trusted=True)
    assert not len(planned.left)
    return planned.hand_overs


def begin(leader: Leader, made: HandOver, now_ms: int) -> list[int]:
    """What of it is handed over."""
    positions: list[int] = leader.dispatcher.handing_over.strict.begin(made, now_ms).position.tolist()
    return positions


def states(leader: Leader, *positions: int) -> list[int]:
    """By the records."""
    found: list[int] = leader.store.states(np.array(positions, np.uint64)).state.tolist()
    return found


def test_when_each_is_due_is_known_without_the_records(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Due times come with the units from the wheel, and rows of the index that were read when they were staged are not
    read again: of two units one is due when it is planned, the other is not."""
    strict(leader)
    one, two = leader.schedule(T0 + 500, T0 + 510)
    with monkeypatch.context() as patch:
        patch.setattr(leader.store, "units", lambda positions: 1 / 0)
        found = stage(leader, T0 + 450)
    leader.dispatcher.handing_over.read_staged(found)
    monkeypatch.setattr(leader.store, "units", lambda positions: 1 / 0)
    made = leader.dispatcher.handing_over.plan(
        leader.subscription(), found, PUSH_LEASE_MS, T0 + 505, trusted=True
    ).hand_overs
    assert [each.position.tolist() for each in made] == [[one], [two]]
    assert [each.due_ms.tolist() for each in made] == [[T0 + 500], [T0 + 510]]


def test_planned_100_ms_ahead_for_the_due_millisecond(leader: Leader) -> None:
    """Not earlier; one hand-over per millisecond, leased from there; the loop wakes for it. It begins once."""
    strict(leader)
    one, two, later = leader.schedule(T0 + 500, T0 + 510, T0 + 900)
    leader.run(T0)
    assert stage(leader, T0 + 500 - AHEAD_MS - 1).tolist() == []
    assert leader.run(T0 + 500 - AHEAD_MS - 1) == 1
    made = plan(leader, T0 + 510 - AHEAD_MS)
    assert [(each.position.tolist(), each.handed_over_ms) for each in made] == [([one], T0 + 500), ([two], T0 + 510)]
    assert [each.lease_end_ms for each in made] == [T0 + 500 + PUSH_LEASE_MS, T0 + 510 + PUSH_LEASE_MS]
    assert states(leader, one) == [PENDING]
    leader.commit(T0 + 420)
    assert states(leader, one, two, later) == [LEASED, LEASED, PENDING]
    leader.run(T0 + 505)
    assert leader.dispatcher.handing_over.ready_count == 0, "what is on its way does not go through a window"
    assert begin(leader, made[0], T0 + 505) == [one]
    assert begin(leader, made[0], T0 + 505) == []


def test_what_is_early_is_never_handed_over_early(leader: Leader) -> None:
    """Staged and given back, held, or its topic fast again: the wheel gives it at its time."""
    number = strict(leader)
    one, two, three = leader.schedule(T0 + 500, T0 + 500, T0 + 500)
    staged = stage(leader, T0 + 450)
    assert staged.tolist() == [one, two, three]
    leader.dispatcher.handing_over.unstage(number, staged[:1])
    leader.propose(PutTopic("default", "orders", {"handover": "fast"}, replace=False))
    given = leader.dispatcher.handing_over.hand_over_staged(number, staged[1:], PUSH_LEASE_MS, T0 + 460, trusted=True)
    assert len(given.hand_over) == 0
    assert leader.hand_over(T0 + 499).position.tolist() == []
    leader.run(T0 + 500)
    assert sorted(leader.hand_over(T0 + 500).position.tolist()) == [one, two, three]


def test_a_held_unit_is_withdrawn_and_comes_when_released(leader: Leader) -> None:
    """A command that ends it may have no effect after all: then it is planned again, with the same attempt."""
    strict(leader)
    (one,) = leader.schedule(T0 + 500)
    (made,) = plan(leader, T0 + 410)
    leader.commit(T0 + 415)
    leader.dispatcher.handing_over.hold([one])
    assert leader.dispatcher.entry_due_ms() == 0, "its release waits for nothing"
    leader.commit(T0 + 420)
    assert states(leader, one) == [PENDING]
    assert begin(leader, made, T0 + 500) == []
    assert stage(leader, T0 + 430).tolist() == []
    leader.dispatcher.handing_over.release([one])
    (again,) = plan(leader, T0 + 440)
    assert (again.position.tolist(), again.attempt.tolist()) == ([one], [1])


def test_a_release_after_the_due_time_is_ready_again(leader: Leader) -> None:
    """Withdrawn late, it is found by the next look, once."""
    strict(leader)
    (one,) = leader.schedule(T0 + 500)
    (made,) = plan(leader, T0 + 410)
    leader.commit(T0 + 415)
    leader.run(T0 + 700)
    leader.dispatcher.handing_over.strict.withdraw(made)
    leader.commit(T0 + 705)
    leader.run(T0 + 710)
    assert leader.dispatcher.handing_over.stage(leader.subscription(), 9, T0 + 710).tolist() == [one]


def test_a_new_leader_waits_for_the_leases_of_what_a_dead_one_planned(make_leader: MakeLeader) -> None:
    """Also of what its own clock says is to be sent seconds later: whose clock is right nobody knows."""
    leader = make_leader()
    strict(leader)
    later, sent = leader.schedule(T0 + 3_000, T0 + 1_000)
    leader.promote(T0)
    plan(leader, T0 + 950)
    leader.commit(T0 + 960)
    plan(leader, T0 + 2_990)
    leader.commit(T0 + 2_995)
    now_ms = T0 + 1_600  # of a clock that is 1.4 s behind
    leader.promote(now_ms)
    leader.run(now_ms)
    leader.commit(now_ms)
    assert states(leader, later, sent) == [LEASED, LEASED]
    end_ms = T0 + 3_000 + PUSH_LEASE_MS + CLOCKS_MS
    leader.run(end_ms - 1)
    assert leader.dispatcher.handing_over.stage(leader.subscription(), 9, end_ms - 1).tolist() == [sent]
    leader.run(end_ms)
    assert leader.dispatcher.handing_over.stage(leader.subscription(), 9, end_ms).tolist() == [later]


def test_leadership_that_moves_releases_everything(leader: Leader) -> None:
    """Leased, or in no entry yet: all of it is pending behind the entry that the successor has."""
    strict(leader)
    one, two = leader.schedule(T0 + 500, T0 + 520)
    made = plan(leader, T0 + 405)
    leader.commit(T0 + 410)
    made += plan(leader, T0 + 425)
    leader.dispatcher.handing_over.strict.withdraw_all()
    leader.commit(T0 + 430)
    assert states(leader, one, two) == [PENDING, PENDING]
    assert [begin(leader, each, T0 + 520) for each in made] == [[], []]
    leader.promote(T0 + 700)
    leader.run(T0 + 700)
    assert leader.dispatcher.handing_over.stage(leader.subscription(), 9, T0 + 700).tolist() == [one, two]


def test_uncommitted_strict_hand_overs_stop_nothing(leader: Leader) -> None:
    """A crash repeats none of them: however old the oldest is, fast topics and strict ones go on."""
    strict(leader, mode="pull")
    first, second = leader.schedule(T0, T0)
    (fast,) = leader.schedule(T0, topic="fast")
    leader.run(T0)
    assert leader.hand_over(T0, 1).position.tolist() == [first]
    assert leader.hand_over(T0 + 900, 1).position.tolist() == [second]
    assert leader.hand_over(T0 + 900, topic="fast").position.tolist() == [fast]


def test_nothing_begins_before_it_is_due_by_a_clock_that_went_back(leader: Leader) -> None:
    """Between the Lease and the hand-over the clock may go back; the unit comes when it is due again."""
    strict(leader, mode="pull")
    (one,) = leader.schedule(T0 + 100)
    leader.run(T0 + 100)
    made = leader.hand_over(T0 + 100)
    leader.commit(T0 + 100)
    assert begin(leader, made, T0 + 99) == []
    leader.dispatcher.handing_over.strict.withdraw(made)
    leader.commit(T0 + 99)
    leader.run(T0 + 101)
    assert leader.hand_over(T0 + 101).position.tolist() == [one]


def test_a_lease_that_ended_before_it_was_begun_belongs_to_the_next(leader: Leader) -> None:
    """A node that stood still: the unit is leased anew, and only the newer hand-over begins."""
    strict(leader, mode="pull")
    (one,) = leader.schedule(T0)
    leader.run(T0)
    old = leader.hand_over(T0, lease_ms=1_000)
    leader.commit(T0)
    leader.run(T0 + 1_100)
    new = leader.hand_over(T0 + 1_100)
    leader.commit(T0 + 1_100)
    assert begin(leader, old, T0 + 1_110) == []
    assert begin(leader, new, T0 + 1_110) == [one]


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_48457_what_is_being_taken_back_is_handed_over_when_the_log_has_it(leader: Leader, mode: str) -> None:
    """Its Release was on its way when its lease ended. The next hand-over had attempt 2, and the answers to who asked
    said that two were made, and known; there was one."""
    strict(leader, mode=mode)
    (one,) = leader.schedule(T0)
    leader.run(T0)
    old = leader.hand_over(T0, lease_ms=1_000)
    leader.commit(T0)
    leader.dispatcher.handing_over.strict.withdraw(old)
    release = leader.dispatcher.collect(T0 + 900)
    for now_ms in (T0 + 1_100, T0 + 1_200):
        assert not plan(leader, now_ms)
        assert not len(leader.hand_over(now_ms))
    leader.propose(*release.commands(), now_ms=T0 + 1_200)
    leader.dispatcher.committed()
    leader.run(T0 + 1_210)
    new = leader.hand_over(T0 + 1_210)
    assert (new.position.tolist(), new.attempt.tolist()) == ([one], [1])
    leader.commit(T0 + 1_210)
    assert begin(leader, new, T0 + 1_220) == [one]


def test_a_topic_about_to_be_strict_hands_over_strictly(leader: Leader) -> None:
    """From the proposal on, so that the log has every fast hand-over in the entry of the change at the latest."""
    fast, strictly = leader.schedule(T0, T0)
    leader.run(T0)
    assert not leader.hand_over(T0, 1).strict
    leader.dispatcher.handing_over.strict.expect(leader.subscription())
    made = leader.hand_over(T0 + 1, 1)
    assert (made.position.tolist(), bool(made.strict)) == ([strictly], True)
    riding = leader.dispatcher.collect(T0 + 1)
    assert riding.lease is not None
    assert riding.lease.position.tolist() == [fast, strictly]
    leader.propose(PutTopic("default", "orders", {"handover": "strict"}, replace=False), *riding.commands())
    (leased_ahead,) = leader.dispatcher.committed()
    assert begin(leader, leased_ahead, T0 + 2) == [strictly]
    leader.propose(PutTopic("default", "orders", {"handover": "fast"}, replace=False))
    leader.schedule(T0 + 3)
    leader.run(T0 + 3)
    assert not leader.hand_over(T0 + 3).strict


def test_a_leader_leases_ahead_no_more_than_its_bound(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the book has a bound; a step after the commit goes on."""
    monkeypatch.setattr(node.handover.strict, "LEASED_AHEAD_MAX", 2)
    strict(leader, mode="pull")
    leader.schedule(T0, T0, T0)
    leader.run(T0)
    made = leader.hand_over(T0, 2)
    assert len(leader.hand_over(T0)) == 0
    assert leader.dispatcher.handing_over.blocked(T0)
    leader.commit(T0)
    assert len(begin(leader, made, T0)) == 2
    assert len(leader.hand_over(T0)) == 1


def test_what_was_taken_back_is_not_recorded_until_its_release_is(leader: Leader) -> None:
    """Seed 28029: a GET beside a cancel waits for that, and does not tell of a hand-over that never was."""
    strict(leader)
    (one,) = leader.schedule(T0 + 500)
    plan(leader, T0 + 450)
    leader.commit(T0 + 450)
    assert not leader.dispatcher.handing_over.unrecorded(one)
    leader.dispatcher.handing_over.strict.withdraw_places(np.array([one], np.uint64))
    assert states(leader, one) == [LEASED]
    assert leader.dispatcher.handing_over.unrecorded(one)
    leader.commit(T0 + 500)
    assert states(leader, one) == [PENDING]
    assert not leader.dispatcher.handing_over.unrecorded(one)
