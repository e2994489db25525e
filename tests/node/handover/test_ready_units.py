"""Filtered hand-overs: what each filter takes, what it leaves in place, and what it looks at again."""

from __future__ import annotations

import pytest

from storage.format.array import U64
from storage.format.rows import Units
from tests.node.one_leader import T0, Leader
from tests.storage.format.test_predicate import filter_of, masks


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        (["tag-151"], "tag-281"),  # two tags that set the same bits
        (["tag-4", "tag-173"], "eu"),  # two that together set the bits of a third
    ],
)
def test_a_collision_of_hashes_hands_over_nothing_else(leader: Leader, tags: list[str], wanted: str) -> None:
    """The mask says that it may match, the record that it does not: it stays in place, for others."""
    like = filter_of([wanted])
    assert like.may_match(masks(*tags)).all(), "a collision"
    collides, matches, plain = leader.schedule(*[T0 + 10] * 3, tags=[tags, [*tags, wanted], []])
    leader.run(T0 + 10)
    assert leader.hand_over(T0 + 10, tags=like).position.tolist() == [matches]
    assert not leader.dispatcher.handing_over.waiting(leader.subscription(), like)
    assert leader.hand_over(T0 + 10).position.tolist() == [collides, plain]


def test_filtered_pulls_take_their_own_and_leave_the_rest_in_order(leader: Leader) -> None:
    """Any of the groups, all tags of a group; the others are there for whoever comes, in the order of their due time.
    What comes later is found; what the filter has looked at does not wake it again."""
    either, both = filter_of(["eu"], ["us", "vip"]), filter_of(["us", "vip"])
    tags = [["us"], ["eu"], ["vip", "us"], [], ["eu", "vip"], ["vip"]]
    units = leader.schedule(*range(T0 + 1, T0 + 7), tags=tags)
    leader.run(T0 + 10)
    topic = leader.subscription()
    assert leader.dispatcher.handing_over.waiting(topic, either)
    assert leader.hand_over(T0 + 10, 1, tags=both).position.tolist() == [units[2]]
    assert leader.hand_over(T0 + 10, 1, tags=either).position.tolist() == [units[1]]
    assert leader.dispatcher.handing_over.waiting(topic, either), "it took no more than it was asked for"
    assert leader.hand_over(T0 + 10, tags=either).position.tolist() == [units[4]]
    assert leader.hand_over(T0 + 10, tags=either).position.tolist() == []
    assert not leader.dispatcher.handing_over.waiting(topic, either)
    assert leader.dispatcher.handing_over.waiting(topic)
    (late,) = leader.schedule(T0 + 11, tags=[["eu"]])
    leader.run(T0 + 11)
    assert leader.dispatcher.handing_over.waiting(topic, either)
    assert leader.hand_over(T0 + 11, tags=either).position.tolist() == [late]
    leader.commit(T0 + 11)
    assert leader.pull(T0 + 11) == [units[0], units[3], units[5]]


def test_what_refuses_a_hand_over_for_a_moment_does_not_make_a_filter_miss_it(leader: Leader) -> None:
    """Without trust, against the stop rule, while held, before a clock that went back: the filter looks again."""
    like = filter_of(["eu"])
    first, second, third = leader.schedule(T0 + 10, T0 + 20, T0 + 300, tags=[["eu"]] * 3)
    leader.run(T0 + 20)
    topic, handing_over = leader.subscription(), leader.dispatcher.handing_over
    assert len(handing_over.hand_over(topic, 9, 1_000, T0 + 20, trusted=False, tags=like)) == 0
    assert handing_over.waiting(topic, like)
    handing_over.hold([first])
    assert leader.hand_over(T0 + 20, tags=like).position.tolist() == [second]
    assert not handing_over.waiting(topic, like)
    handing_over.release([first])
    assert len(leader.hand_over(T0 + 70, tags=like)) == 0, "the stop rule"
    assert handing_over.waiting(topic, like)
    leader.commit(T0 + 70)
    leader.run(T0 + 300)
    assert leader.hand_over(T0 + 200, tags=like).position.tolist() == [first]
    assert handing_over.waiting(topic, like)
    assert leader.hand_over(T0 + 200, tags=like).position.tolist() == []
    leader.commit(T0 + 200)
    assert leader.hand_over(T0 + 300, tags=like).position.tolist() == [third]


def test_cancelled_units_are_no_end_for_a_filter(leader: Leader) -> None:
    """Behind thousands that ended there is one; they are forgotten on the way."""
    like = filter_of(["eu"])
    units = leader.schedule(*[T0 + 10] * 3_000, tags=[["eu"]] * 3_000)
    leader.run(T0 + 10)
    leader.cancel(*units[:-1])
    found: list[int] = []
    while leader.dispatcher.handing_over.waiting(leader.subscription(), like):
        found += leader.hand_over(T0 + 10, 1, tags=like).position.tolist()
    assert found == units[-1:]
    assert leader.dispatcher.handing_over.ready_count == 0


def test_one_look_reads_a_bounded_number_of_records(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand collisions cost one hand-over a few thousand records; the next goes on, and none is read twice."""
    like = filter_of(["tag-281"])
    leader.schedule(*[T0 + 10] * 10_000, tags=[["tag-151"]] * 10_000)
    (last,) = leader.schedule(T0 + 10, tags=[["tag-281"]])
    leader.run(T0 + 10)
    read: list[int] = []
    records_of = leader.store.records

    def counted(positions: U64, units: Units) -> object:
        read.append(len(positions))
        return records_of(positions, units)

    monkeypatch.setattr(leader.store, "records", counted)
    found: list[int] = []
    while leader.dispatcher.handing_over.waiting(leader.subscription(), like):
        before = sum(read)
        found += leader.hand_over(T0 + 10, 1, tags=like).position.tolist()
        assert sum(read) - before <= 4_000
    assert found == [last]
    assert sum(read) == 10_001
