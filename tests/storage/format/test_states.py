"""The rows of states: what code and people are told, and rows that cannot be."""

from dataclasses import replace

import numpy as np
import pytest

from storage.format import states
from storage.format.array import Mask
from storage.format.level import LEVELS
from storage.format.registry import BadRow
from storage.format.states import (
    ENDED_STANDINGS,
    LEAVES,
    LIVE_STANDINGS,
    OPEN_STANDINGS,
    PLACE,
    STANDINGS,
    STATES,
    Answers,
    State,
    registered,
    words,
)
from tests.storage.new_state import COMMITTED, HALF, added

PENDING, LEASED, DELIVERED, CANCELLED, MOVED, DEAD, EXPIRED, RELEASED, FORWARDED = range(9)


@pytest.mark.parametrize(
    ("mask", "numbers"),
    [
        (states.IS_PENDING, [PENDING, RELEASED]),
        (states.IS_OPEN, [PENDING, LEASED, RELEASED]),
        (states.LIVES_HERE, [PENDING, LEASED, RELEASED]),
        (states.KEEPS_HOUR, [PENDING, LEASED, RELEASED, FORWARDED]),
        (states.IS_SETTLED, [DELIVERED, CANCELLED, MOVED, DEAD, EXPIRED]),
        (states.IS_HELD, []),
        (states.IS_WHAT, [LEASED, DELIVERED, CANCELLED, MOVED, DEAD, EXPIRED, RELEASED, FORWARDED]),
        (states.TELLS_FAILURE, [MOVED, DEAD, FORWARDED]),
        (states.LEADS_AWAY, [MOVED, FORWARDED]),
    ],
)
def test_todays_answers(mask: Mask, numbers: list[int]) -> None:
    """Of each of 256 numbers: no row, no answer."""
    assert mask.nonzero()[0].tolist() == numbers
    assert mask.dtype == np.bool_
    assert len(mask) == 256


def test_todays_words() -> None:
    """In the order in which they are shown."""
    assert list(STATES) == list(range(9))
    assert [row.name for row in STATES.values()] == [
        "pending", "leased", "delivered", "cancelled", "moved", "dead", "expired", "released", "forwarded"
    ]  # fmt: skip
    assert {row.name: row.event for row in STATES.values() if row.event != row.name} == {"forwarded": "moved"}
    assert words(OPEN_STANDINGS) == words(LIVE_STANDINGS) == ("scheduled", "ready", "leased")
    assert words(ENDED_STANDINGS) == ("delivered", "cancelled", "dead", "expired")
    assert tuple(STANDINGS) == (*words(LIVE_STANDINGS), *words(ENDED_STANDINGS))


def test_a_record_leaves_its_unit_in_its_own_state_but_for_a_release() -> None:
    """What has no row is left as it is: it is refused where it is read, and pending nowhere."""
    others = [number for number in range(256) if number != RELEASED]
    assert LEAVES[others].tolist() == others
    assert LEAVES[RELEASED] == PENDING
    assert LEAVES.dtype == states.COUNTED_AS.dtype == np.uint8
    assert states.COUNTED_AS[others].tolist() == others


def test_who_imported_a_table_sees_a_row_that_is_added() -> None:
    """And does not when it is taken out again."""
    before = {name: value.copy() for name, value in vars(states).items() if isinstance(value, np.ndarray)}
    tables = {name: getattr(states, name) for name in before}
    with added(HALF, COMMITTED):
        assert tables["IS_HELD"].nonzero()[0].tolist() == [HALF.number]
        assert tables["LIVES_HERE"][[HALF.number, COMMITTED.number]].all()
        assert not tables["IS_OPEN"][HALF.number]
        assert (tables["LEAVES"][HALF.number], tables["LEAVES"][COMMITTED.number]) == (HALF.number, PENDING)
        assert list(STANDINGS) == [*words(OPEN_STANDINGS), *words(ENDED_STANDINGS), "half"]
        assert words(LIVE_STANDINGS) == (*words(OPEN_STANDINGS), "half")
    assert all((tables[name] == was).all() for name, was in before.items())
    assert "half" not in STANDINGS


def test_two_states_may_have_one_word() -> None:
    """Counts add them up, and what is pending is told as such whatever it is called in the records."""
    stuck = Answers(is_pending=False, is_open=False, lives_here=False, keeps_hour=True)
    with added(
        State(20, "blocking", stuck, "dead"),
        State(21, "resumed", STATES[PENDING].answers, STATES[PENDING].word),
    ):
        assert STANDINGS["dead"] == {DEAD, 20}
        assert STANDINGS["scheduled"] == {PENDING}
        assert {DEAD, 20} <= ENDED_STANDINGS
        assert not states.IS_SETTLED[20]


OPEN, SETTLED = STATES[LEASED].answers, STATES[DEAD].answers
SHUT = replace(OPEN, is_pending=True, is_open=False)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (replace(HALF, name="dead"), "state dead stands here twice"),
        (replace(HALF, number=DEAD), "state half: the number 5 is that of dead"),
        (replace(HALF, number=PENDING), "state half: the number 0 is that of pending"),
        (replace(HALF, number=states.READY), "state half: a number is 0 to 253, got 254"),
        (replace(HALF, number=states.UNKNOWN), "state half: a number is 0 to 253, got 255"),
        (replace(HALF, name=""), "state 16 has no name"),
        (replace(HALF, since=LEVELS[1] + 1), "state half: this build reads levels"),
        (replace(HALF, word=""), "state half: it has no word for people"),
        (replace(HALF, answers=SETTLED, word=""), "state half: it has no word for people"),
        (replace(HALF, answers=SETTLED, when=PLACE), 'state half: it stands for no message, so nobody is told "half"'),
        (replace(COMMITTED, word="committed"), "state committed: it stands for no message"),
        (replace(HALF, word="ready"), 'state half: "ready" is what is pending and due'),
        (replace(HALF, answers=STATES[PENDING].answers), 'state half: what is pending is told as "scheduled"'),
        (
            replace(HALF, answers=SHUT, word="scheduled"),
            "state half: what is pending is open",
        ),
        (replace(HALF, answers=replace(OPEN, lives_here=False)), "state half: what is open has not ended"),
        (replace(HALF, answers=replace(OPEN, keeps_hour=False)), "state half: what has not ended keeps its hour"),
        (replace(HALF, word="", when=PLACE), "state half: its message cannot live here and at the place moved to"),
        (replace(COMMITTED, leaves=99), "state committed: it leaves its unit in 99, which is no state"),
        (replace(COMMITTED, leaves=RELEASED), "state committed: it leaves its unit in what is no state of a unit"),
        (replace(COMMITTED, answers=OPEN), "state committed: its answers are not those of the state"),
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(row: State, says: str) -> None:
    """When the registry is made: at import."""
    with pytest.raises(BadRow, match=f"^{says}"):
        registered([*STATES.values(), row])
