"""The checker of keys can fail: each planted mistake is told, and a good history holds."""

from typing import Any

import pytest

from chaos.check.message.keys import check_keys
from chaos.history.bounds import Bounds
from chaos.history.event import Begun, Cancelled, Event, Offered, Wished
from chaos.history.history import History
from tests.chaos.check.message.test_operations import gone
from tests.chaos.history.planted import EPOCH_MS, at, hand_over


def wished(number: int, ms: int, outcome: str, id: int | None = None, previous: int | None = None) -> Wished:
    """An answer at `ms`, asked 5 ms before."""
    named: dict[str, Any] = {
        "message_id": "" if id is None else f"id{id}",
        "previous": "" if previous is None else f"id{previous}",
    }
    return Wished(
        **at(ms), number=number, name="orders k", extends=outcome == "extended", asked_mono_ms=float(ms - 5),
        outcome=outcome, **named,
    )  # fmt: skip


BEGUN = Begun(
    **at(348), node="n1", message_id="id3", term=1, attempt=1, at_ms=EPOCH_MS + 348, asked_due_ms=0, pushed=False
)
GOOD: list[Event] = [
    wished(1, 100, "created", 1),
    wished(2, 200, "extended", 1, 1),
    wished(3, 300, "replaced", 3, 1),
    BEGUN,
    hand_over(3, 350, 1),
    wished(4, 400, "created", 4),
]


def told(*events: Event) -> list[str]:
    """The faults of the good history and these events."""
    return check_keys(History([*GOOD, *events]), Bounds()).faults


def test_a_good_history_holds() -> None:
    """Created, extended, replaced, delivered, created."""
    verdict = check_keys(History(GOOD), Bounds())
    assert verdict.faults == []
    assert verdict.figure == {"wishes": 4, "created": 2, "replaced": 1, "extended": 1, "beside": 2, "wrong": 0}


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        ([wished(5, 500, "created", 5)], "message 5 was created beside the holder id4"),
        ([wished(5, 500, "replaced", 5, 1)], "id1 was replaced by 3 and by 5"),
        ([wished(5, 500, "extended", 1, 1)], "id1 was extended by 5, after 3 had replaced it"),
    ],
)
def test_a_mistake_is_told(planted: list[Event], says: str) -> None:
    """Two holders, a key lost twice, and one that was extended after it had lost its key."""
    (fault,) = told(*planted)
    assert says in fault


def test_what_is_not_sure_is_not_judged() -> None:
    """The holder may have been changed by a wish of unknown outcome, a cancel, an operation, or a hand-over."""
    created = wished(5, 500, "created", 5)
    asked: dict[str, Any] = {"message_id": "id4", "asked_wall_ms": EPOCH_MS + 470}
    for other in (
        wished(6, 490, "unknown"),
        Cancelled(**at(480), number=4, outcome="unknown", **asked),
        gone(4, asked_wall_ms=EPOCH_MS + 470, **at(480)),
        hand_over(4, 480, 1),
    ):
        assert told(other, created) == []


def test_leases_that_nobody_sees_are_not_judged() -> None:
    """A strict message is leased ahead, and real processes tell of no lease."""
    created = wished(5, 500, "created", 5)
    strict = Offered(**at(450), number=5, keyed=False, asked_due_ms=EPOCH_MS + 600, strict=True)
    assert told(strict, created) == []
    outside = [event for event in GOOD if event is not BEGUN]
    assert check_keys(History([*outside, created]), Bounds()).faults == []
