"""Open proposals by themselves: each is answered once, from the log or by the deadline."""

from __future__ import annotations

from replication.raft.proposal import NOT_LEADER, UNKNOWN, Outcome, Pending


def test_answers_come_from_the_log() -> None:
    """The same term at the index is its result; another term is a loss; an index nobody waits for is nothing."""
    pending, told = Pending(5.0), list[Outcome]()
    pending.add(7, 3, 100, 1.0, told.append)
    pending.add(8, 3, 50, 1.0, told.append)
    assert (len(pending), pending.bytes) == (2, 150)
    pending.applied(6, 3, "nobody's")
    pending.applied(7, 3, "done")
    pending.applied(8, 4, "another's")
    assert told == [Outcome("done", None, 7), Outcome(None, NOT_LEADER, 8)]
    assert (len(pending), pending.bytes) == (0, 0)


def test_a_place_taken_twice() -> None:
    """Leader again, and its log begins anew below an open proposal: that one is gone, and told so at once."""
    pending, told = Pending(5.0), list[Outcome]()
    pending.add(7, 3, 100, 1.0, told.append)
    pending.add(7, 5, 10, 2.0, told.append)
    assert told == [Outcome(None, NOT_LEADER, 7)]
    pending.applied(7, 5, "new")
    assert told[1:] == [Outcome("new", None, 7)]
    assert pending.bytes == 0


def test_an_entry_of_a_later_term_ends_all_of_earlier_ones() -> None:
    """Terms never fall along a log: what an earlier term proposed and stands behind an applied entry is gone, what was
    proposed in that entry's own term is not."""
    pending, told = Pending(5.0), list[Outcome]()
    for index in (7, 8, 9):
        pending.add(index, 3, 10, 1.0, told.append)
    pending.applied(7, 3, "done")
    pending.add(12, 5, 10, 2.0, told.append)
    pending.applied(8, 4, "another's")
    assert told == [Outcome("done", None, 7), Outcome(None, NOT_LEADER, 8), Outcome(None, NOT_LEADER, 9)]
    assert (len(pending), pending.bytes) == (1, 10)
    pending.applied(9, 5, "first")
    pending.applied(12, 5, "second")
    assert told[3:] == [Outcome("second", None, 12)]


def test_the_deadline() -> None:
    """After the deadline a proposal is unknown, in order, and its late result is nobody's."""
    pending, told = Pending(5.0), list[Outcome]()
    pending.add(7, 3, 1, 1.0, told.append)
    pending.add(8, 3, 1, 2.0, told.append)
    pending.expire(5.9)
    assert not told
    pending.expire(6.0)
    assert told == [Outcome(None, UNKNOWN, 7)]
    pending.applied(7, 3, "late")
    assert len(told) == 1
    pending.close()
    assert told[1:] == [Outcome(None, UNKNOWN, 8)]
