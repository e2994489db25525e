"""The checker of shifts and releases can fail: each planted mistake is told, and a good history holds."""

from typing import Any

import pytest

from chaos.check.message.many_moves import CLOCKS_MS, check_many_moves
from chaos.history.event import MANY, Event, ManyMoved, Rescheduled, Standing
from chaos.history.history import History
from tests.chaos.check.message.test_operations import ANSWERED_MS, ASKED_MS, FROM_MS, RIGHT, TO_MS, WRONG, message
from tests.chaos.history.planted import EPOCH_MS, at, hand_over

LOOKED_MS = 1_500


def many(changed: int = 1, kind: str = "shift", by_ms: int = 3_000, **more: Any) -> ManyMoved:
    """The operation."""
    fields: dict[str, Any] = {"outcome": "begun", "operation": "op-7"}
    return ManyMoved(
        **at(ANSWERED_MS), topic="orders", from_ms=FROM_MS, to_ms=TO_MS, asked_wall_ms=EPOCH_MS + ASKED_MS,
        changed=changed, kind=kind, by_ms=by_ms, **(fields | more),
    )  # fmt: skip


def stands(number: int, due_ms: int, state: str = "scheduled", attempts: int = 0) -> list[Event]:
    """GET says so after its end. It counts as rescheduled alone, too."""
    about: dict[str, Any] = {"number": number, "message_id": f"id{number}", "asked_wall_ms": EPOCH_MS + ASKED_MS}
    standing = Standing(**at(LOOKED_MS), **about, state=state, due_ms=EPOCH_MS + due_ms, attempts=attempts)
    return [standing, Rescheduled(**at(LOOKED_MS), **about, outcome="unknown", detail=MANY)]


def told(*events: Event, right: bool = True) -> list[str]:
    """The faults of such a history, beside two messages that are as they should be."""
    good = [*message(1, 100, 12_000), *message(2, 100, 25_000), *stands(1, 15_000), *stands(2, 25_000)]
    return check_many_moves(History([*good, *events]), RIGHT if right else WRONG).faults


def test_a_good_history_holds() -> None:
    """One of the set, one behind its window, one that was sent later, and one that came first."""
    later = [*message(3, 2_000, 12_000), *stands(3, 12_000)]
    first = [*message(4, 100, 12_000), hand_over(4, 900, 1), *stands(4, 12_000)]
    assert told(*later, *first, many()) == []
    figure = check_many_moves(History([*message(1, 100, 12_000), *stands(1, 15_000), many()]), RIGHT).figure
    assert figure == {"operations": 1, "begun": 1, "inside": 1, "outside": 0, "wrong": 0}


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        (
            [*message(3, 100, 13_000), *stands(3, 13_000), many(2)],
            "message 3 was due 1800000013000, is due 1800000013000",
        ),
        ([*message(3, 100, 13_000), *stands(3, 17_000), many(2)], "which is neither the wanted time nor that"),
        ([*message(3, 100, 30_000), *stands(3, 33_000), many(2)], "message 3 of no set moved to 1800000033000"),
        ([*message(3, 2_000, 13_000), *stands(3, 16_000), many(2)], "message 3 of no set moved to 1800000016000"),
        ([many(0)], "said 0 moved, and 1 are"),
    ],
)
def test_a_mistake_is_told(planted: list[Event], says: str) -> None:
    """Left out, moved too far, too many, too late, and a wrong number."""
    (fault,) = told(*planted)
    assert says in fault


def test_a_release_brings_messages_to_its_time() -> None:
    """Where clocks are right, that is near the answer. Elsewhere it is only another time than before."""
    release = many(2, "release", 0)
    near = [*message(3, 100, 13_000), *stands(3, 1_100), release]
    assert check_many_moves(History(near), RIGHT).faults == []
    history = [*message(3, 100, 13_000), *stands(3, LOOKED_MS + CLOCKS_MS + 1), release]
    assert len(check_many_moves(History(history), RIGHT).faults) == 1
    assert check_many_moves(History(history), WRONG).faults == []
    left = [*message(3, 100, 13_000), *stands(3, 13_000), release]
    assert len(check_many_moves(History(left), RIGHT).faults) == 1


def test_what_is_not_sure_is_not_judged() -> None:
    """A message that ended, was tried, or was rescheduled alone, and an operation of unknown outcome."""
    alone = Rescheduled(
        **at(1_200), number=3, message_id="id3", asked_wall_ms=EPOCH_MS + 1_100, outcome="moved", due_ms=EPOCH_MS + 9
    )
    base = message(3, 100, 13_000)
    for more in (stands(3, 13_000, "cancelled"), stands(3, 13_000, attempts=1), [*stands(3, 13_000), alone]):
        assert told(*base, *more, many()) == []
    wrong = [*base, *stands(3, 13_000)]
    assert told(*wrong, many(outcome="unknown")) == told(*wrong, many(-1)) == []
