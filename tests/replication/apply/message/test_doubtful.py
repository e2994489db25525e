"""What is said of hand-overs before: a doubt wins over what is known, goes along with every move, and ends with the
message. FOUND A12, D3, D4 and D10 as the log sees them."""

from collections.abc import Callable

import pytest

from replication.apply.message.running_sets import DOUBTFUL, KNOWN, NONE
from replication.apply.message.unheard import CODE_LEASE_ENDED, CODE_MAX_AGE, CODE_STOPPED
from replication.command.dispatch import HANDED_ON, Promotion
from replication.command.handover import Lease
from replication.command.topic import PutTopic
from storage.catalog.doubt import CLOCKS_MS
from storage.catalog.restored import Restored
from storage.format.position import INDEX_BITS
from tests.replication.applied_log import (
    T0,
    Log,
    cancel,
    fail,
    lease,
    placed,
    raise_to,
    redrive,
    release,
    reschedule,
    rise,
    schedule,
)

STRICT = PutTopic("default", "orders", {"handover": "strict", "mode": "push"}, replace=False)


@pytest.fixture
def risen(log: Log) -> Log:
    """A log of level 3."""
    rise(log)
    return log


def failover(log: Log, until_ms: int, term: int = 2) -> None:
    """A leader is elected; it knows that nothing later than `until_ms` was due before."""
    log.apply(Promotion(until_ms), term=term, now_ms=T0 + 500)


def told(log: Log, home: int, term: int = 2) -> tuple[int, int]:
    """(attempts made, prior) as a cancel says."""
    (answer,) = log.apply(cancel(home), term=term, now_ms=T0 + 3_600_000).results
    return int(answer.attempts[0]), int(answer.prior[0])


def planned(place: int, at_ms: int, attempt: int = 1) -> Lease:
    """A push that is to be sent at a time."""
    sent = lease(place, at_ms=at_ms, end_ms=at_ms + 15_000, attempt=attempt)
    return Lease(sent.position, sent.attempt, sent.lease_end_ms, sent.handed_over_ms, planned=True)


def test_a_hand_over_on_record_does_not_end_the_doubt(risen: Log) -> None:
    """D4, A12: attempt 1 is on record and was given back; attempt 2 may have gone out with a leader that died."""
    (home,) = placed(risen.apply(schedule(T0)))
    risen.apply(lease(home))
    risen.apply(fail((home, 1, 1), due_ms=T0 + 100))
    failover(risen, T0 + 100 + CLOCKS_MS)
    assert told(risen, home) == (1, DOUBTFUL)


LATER_MS = T0 + 2_000_000


def _retry(log: Log, home: int, *, dead: bool = False) -> None:
    log.apply(lease(home), term=2)
    log.apply(fail((home, 2, 1), due_ms=LATER_MS, dead=dead), term=2)


def _redrive(log: Log, home: int) -> None:
    _retry(log, home, dead=True)
    log.apply(redrive(home, due_ms=LATER_MS), term=2)


def _reschedule(log: Log, home: int) -> None:
    log.apply(reschedule((home, LATER_MS)), term=2)


MOVES: dict[str, Callable[[Log, int], None]] = {"retry": _retry, "redrive": _redrive, "reschedule": _reschedule}


def test_a_planned_push_whose_failure_a_later_leader_was_told_of_is_known(risen: Log) -> None:
    """Seed 28022: the outcome came with the leadership that was given. What was not told of before stays in doubt."""
    risen.apply(STRICT)
    one, other = placed(risen.apply(schedule(T0, T0)))
    risen.apply(planned(one, T0))
    risen.apply(planned(other, T0))
    risen.apply(Promotion(HANDED_ON), term=2)
    risen.apply(fail((one, 1, 1), due_ms=LATER_MS), term=2)
    risen.apply(lease(other, attempt=2), term=2)
    risen.apply(fail((other, 2, 2), due_ms=LATER_MS), term=2)
    assert [told(risen, home) for home in (one, other)] == [(1, KNOWN), (2, DOUBTFUL)]


def test_a_planned_push_that_its_leader_stopped_before_sending_stays_in_doubt(risen: Log) -> None:
    """It is on record, and was not sent."""
    risen.apply(STRICT)
    (one,) = placed(risen.apply(schedule(T0)))
    risen.apply(planned(one, T0))
    risen.apply(Promotion(HANDED_ON), term=2)
    risen.apply(fail((one, 1, 1), due_ms=LATER_MS, code=CODE_STOPPED), term=2)
    assert told(risen, one) == (1, DOUBTFUL)


@pytest.mark.parametrize("move", MOVES)
def test_the_doubt_goes_along_with_a_move(risen: Log, move: str) -> None:
    """To a time that no leader had reached when the other one died; and past another change of leader."""
    (home,) = placed(risen.apply(schedule(T0)))
    failover(risen, T0 + CLOCKS_MS)
    MOVES[move](risen, home)
    risen.apply(Promotion(HANDED_ON), term=3)
    attempts = 0 if move == "reschedule" else 1
    assert told(risen, home, term=3) == (attempts, DOUBTFUL)


def test_what_was_not_due_or_came_later_is_known(risen: Log) -> None:
    """D3: by the clocks' bound and by its place in the log, not by times of creation."""
    early, late = placed(risen.apply(schedule(T0 + 400, T0 + 400 + CLOCKS_MS), now_ms=T0 + 450))
    failover(risen, T0 + 300 + CLOCKS_MS)
    (born,) = placed(risen.apply(schedule(T0 + 400), term=2, now_ms=T0))
    risen.apply(lease(born), term=2)
    assert [told(risen, home) for home in (early, late, born)] == [(0, DOUBTFUL), (0, NONE), (1, KNOWN)]


def test_leadership_that_was_given_leaves_no_doubt_and_keeps_the_old_one(risen: Log) -> None:
    """D14. The doubt of an election before it stays."""
    (old,) = placed(risen.apply(schedule(T0)))
    failover(risen, T0 + CLOCKS_MS)
    (new,) = placed(risen.apply(schedule(T0), term=2))
    risen.apply(Promotion(HANDED_ON), term=3)
    assert risen.store.doubt.term == 3
    assert [told(risen, home, 3) for home in (old, new)] == [(0, DOUBTFUL), (0, NONE)]


def test_a_later_election_forgets_nothing_and_takes_no_doubt_back(risen: Log) -> None:
    """Its clock may be behind that of the leader before."""
    (first,) = placed(risen.apply(schedule(T0 + 600)))
    failover(risen, T0 + CLOCKS_MS)
    (second,) = placed(risen.apply(schedule(T0 + 700), term=2))
    failover(risen, T0, term=3)
    assert [told(risen, home, 3) for home in (first, second)] == [(0, DOUBTFUL)] * 2


def test_strict_is_in_doubt_only_for_what_was_before(risen: Log) -> None:
    """By the doubt that there was when the topic became strict; changed again, that stays."""
    (old,) = placed(risen.apply(schedule(T0)))
    failover(risen, T0 + 100)
    risen.apply(STRICT, term=2)
    (new,) = placed(risen.apply(schedule(T0 + 200), term=2))
    failover(risen, T0 + 10_000, term=3)
    risen.apply(PutTopic("default", "orders", {"handover": "strict", "paused": True}, replace=True), term=3)
    assert [told(risen, home, 3) for home in (old, new)] == [(0, DOUBTFUL), (0, NONE)]


def test_a_topic_that_becomes_strict_before_any_leader_has_said_what_it_doubts(log: Log) -> None:
    """As below level 3 then: in doubt is what is due until a while after."""
    topic = PutTopic("default", "orders", {}, replace=False)
    log.apply(topic)
    rise(log)
    (old,) = placed(log.apply(schedule(T0 + 300)))
    log.apply(STRICT)
    failover(log, T0 + 10_000)
    assert told(log, old) == (0, DOUBTFUL)


def test_what_an_earlier_leader_doubted_is_not_what_this_one_does(risen: Log) -> None:
    """A topic becomes strict as the second leader's first word is on its way."""
    risen.apply(PutTopic("default", "orders", {}, replace=False))
    failover(risen, T0, term=1)
    (old,) = placed(risen.apply(schedule(T0 + 300)))
    risen.apply(STRICT, term=2)
    failover(risen, T0 + 10_000, term=2)
    assert told(risen, old) == (0, DOUBTFUL)


def test_a_topic_that_is_strict_from_its_first_message_is_never_in_doubt(risen: Log) -> None:
    """Not of what was due before the election that came right before it, either."""
    failover(risen, T0 + 10_000)
    risen.apply(PutTopic("default", "jobs", {"handover": "strict"}, replace=False), term=2)
    (home,) = placed(risen.apply(schedule(T0, topic="jobs"), term=2))
    failover(risen, T0 + 20_000, term=3)
    assert told(risen, home, 3) == (0, NONE)


def test_a_push_that_was_planned_by_a_leader_that_died_may_not_have_been_sent(risen: Log) -> None:
    """D10. Also when the message went out again since, and when that came to nothing; not once its outcome is known."""
    risen.apply(STRICT)
    homes = placed(risen.apply(schedule(*[T0] * 4)))
    kept, again, released, moved = homes
    for home in homes:
        risen.apply(planned(home, T0))
    failover(risen, T0 + CLOCKS_MS)
    for home in (again, released):
        risen.apply(planned(home, T0 + 20_000, attempt=2), term=2)
    risen.apply(release((released, 2, 2)), term=2)
    risen.apply(fail((moved, 1, 1), due_ms=T0 + 5), term=2)
    answers = [told(risen, home) for home in (kept, again, released, moved)]
    assert answers == [(1, DOUBTFUL), (2, DOUBTFUL), (1, DOUBTFUL), (1, KNOWN)]


def test_a_push_whose_lease_ended_before_anybody_heard_of_it_may_not_have_been_sent(risen: Log) -> None:
    """Seed 35343: by the leader that planned it, which led on. A later lease keeps that, and one more of whose outcome
    somebody heard takes nothing back; where nobody doubts the newest is known."""
    risen.apply(STRICT)
    once, again, heard = placed(risen.apply(schedule(T0, T0, T0)))
    for home in (once, again, heard):
        risen.apply(planned(home, T0))
    risen.apply(planned(again, T0 + 20_000, attempt=2))
    risen.apply(fail((again, 1, 2), due_ms=LATER_MS))
    risen.apply(fail((heard, 1, 1), due_ms=LATER_MS))
    answers = [told(risen, home, term=1) for home in (once, again, heard)]
    assert answers == [(1, DOUBTFUL), (2, DOUBTFUL), (1, KNOWN)]


@pytest.mark.parametrize(
    ("code", "prior"), [(CODE_LEASE_ENDED, DOUBTFUL), (CODE_MAX_AGE, DOUBTFUL), (500, KNOWN)], ids=str
)
def test_a_message_that_was_given_up_unheard_and_redriven_is_in_doubt(risen: Log, code: int, prior: int) -> None:
    """It died as its last lease ended, in its leader's own term; 500 came from its receiver."""
    risen.apply(STRICT)
    (home,) = placed(risen.apply(schedule(T0)))
    risen.apply(planned(home, T0))
    risen.apply(fail((home, 1, 1), due_ms=0, dead=True, code=code), now_ms=T0 + 15_000)
    risen.apply(redrive(home, due_ms=LATER_MS))
    assert told(risen, home, term=1) == (1, prior)


def test_what_nobody_heard_of_is_in_doubt_though_a_later_hand_over_failed_for_good(risen: Log) -> None:
    """The message died of one that was heard of, and was redriven."""
    risen.apply(STRICT)
    (home,) = placed(risen.apply(schedule(T0)))
    risen.apply(planned(home, T0))
    failover(risen, T0 + CLOCKS_MS)
    risen.apply(planned(home, T0 + 20_000, attempt=2), term=2)
    risen.apply(fail((home, 2, 2), due_ms=0, dead=True, code=500), term=2)
    risen.apply(redrive(home, due_ms=LATER_MS), term=2)
    assert told(risen, home) == (2, DOUBTFUL)


def test_a_topic_that_becomes_fast_keeps_the_doubt_about_its_plans(risen: Log) -> None:
    """Of the newest hand-over, and of one before it."""
    risen.apply(STRICT)
    once, again = placed(risen.apply(schedule(T0, T0)))
    risen.apply(planned(once, T0))
    risen.apply(planned(again, T0))
    risen.apply(planned(again, T0 + 20_000, attempt=2))
    risen.apply(PutTopic("default", "orders", {"handover": "fast"}, replace=True))
    risen.apply(fail((again, 1, 2), due_ms=LATER_MS, code=500))
    assert [told(risen, home, term=1) for home in (once, again)] == [(1, DOUBTFUL), (2, DOUBTFUL)]


def test_below_the_level_all_is_as_it_was(log: Log) -> None:
    """The older builds among the members must come to the same bytes: what is known wins, no move tells of a doubt."""
    raise_to(log, 2)
    known, moved = placed(log.apply(schedule(T0, T0)))
    failover(log, T0 + CLOCKS_MS)
    log.apply(lease(known, moved), term=2)
    log.apply(fail((moved, 2, 1), due_ms=T0 + 5), term=2)
    assert log.store.doubt.term == 0
    assert "doubtful" not in log.record(log.place(moved)).extension
    (answer,) = log.apply(cancel(known, doubtful=True), term=2, now_ms=T0 + 3_600_000).results
    assert (int(answer.attempts[0]), int(answer.prior[0])) == (1, KNOWN)


def test_all_that_was_in_a_backup_is_in_doubt_in_strict_too(risen: Log) -> None:
    """FOUND D8: the old cluster handed over, acked and moved after the backup. What came to the new one is its own, and
    the doubt goes along with a move."""
    risen.apply(STRICT)
    old, moved, far = placed(risen.apply(schedule(T0, T0, T0 + 86_400_000), now_ms=T0 + 5))
    had = {old >> INDEX_BITS: 2, far >> INDEX_BITS: 1}
    risen.store.catalog.set_restored(Restored(T0 + 9, had))
    (new,) = placed(risen.apply(schedule(T0), now_ms=T0 + 4))  # its leader's clock is behind
    risen.apply(reschedule((moved, LATER_MS)))
    answers = [told(risen, home) for home in (old, moved, far, new)]
    assert answers == [(0, DOUBTFUL), (0, DOUBTFUL), (0, DOUBTFUL), (0, NONE)]
