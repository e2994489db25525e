"""The checker of operations can fail: each planted mistake is told, and a good history holds."""

from typing import Any

import pytest
from msgspec.structs import replace

from chaos.check.message.operations import check_operations
from chaos.history.bounds import Bounds
from chaos.history.event import Answered, Cancelled, Event, Gone, HandedOver, ManyCancelled, Offered
from chaos.history.history import History
from tests.chaos.history.planted import EPOCH_MS, at, hand_over

ASKED_MS, ANSWERED_MS = 1_000, 1_005
SURE_MS = 3_000
RIGHT, WRONG = Bounds(clocks_right=True, lease_ahead_ms=SURE_MS), Bounds()
FROM_MS, TO_MS = EPOCH_MS + 10_000, EPOCH_MS + 20_000


def message(number: int, sent_ms: int, due_ms: int, topic: str = "orders") -> list[Event]:
    """One that is scheduled at `sent_ms`."""
    offered = Offered(**at(sent_ms), number=number, keyed=False, asked_due_ms=EPOCH_MS + due_ms, topic=topic)
    answered = Answered(
        **at(sent_ms + 2), number=number, node="n1", outcome="acknowledged", sent_mono_ms=float(sent_ms),
        message_id=f"id{number}", due_ms=EPOCH_MS + due_ms,
    )  # fmt: skip
    return [offered, answered]


def gone(number: int, **more: Any) -> Gone:
    """Cancelled by the operation, as GET says."""
    fields: dict[str, Any] = {"asked_wall_ms": EPOCH_MS + ASKED_MS, "attempts_made": 0, "sure": True}
    return Gone(number=number, message_id=f"id{number}", **(at(ANSWERED_MS) | fields | more))


def many(changed: int, **more: Any) -> ManyCancelled:
    """The operation."""
    fields: dict[str, Any] = {"outcome": "begun", "operation": "op-7", "from_ms": FROM_MS}
    return ManyCancelled(
        **at(ANSWERED_MS), topic="orders", to_ms=TO_MS, asked_wall_ms=EPOCH_MS + ASKED_MS, changed=changed,
        **(fields | more),
    )  # fmt: skip


def told(*events: Event, right: bool = True) -> list[str]:
    """The faults of such a history, beside two messages that are as they should be."""
    good = [*message(1, 100, 12_000), *message(2, 100, 25_000), gone(1)]
    return check_operations(History([*good, *events]), RIGHT if right else WRONG).faults


def test_a_good_history_holds() -> None:
    """One of the set, one behind its window, one of another topic, one that was sent later."""
    more = [*message(3, 100, 12_000, "bills"), *message(4, 2_000, 12_000)]
    assert told(*more, many(1)) == []
    history = History([*message(1, 100, 12_000), gone(1), many(1)])
    figure = check_operations(history, RIGHT).figure
    assert figure == {"operations": 1, "begun": 1, "cancelled": 1, "sure": 1, "wrong": 0}


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        ([*message(3, 100, 13_000), many(1)], "message 3, due 1800000013000, was left out"),
        ([*message(3, 100, 13_000), hand_over(3, 13_000, 1), many(1)], "message 3, due 1800000013000, was left out"),
        ([gone(2), many(2)], "message 2 is cancelled, due 1800000025000, not in its window"),
        ([*message(3, 2_000, 13_000), gone(3), many(2)], "message 3 is cancelled, and was sent after its answer"),
        ([many(0)], "said 0 cancelled, and 1 are"),
    ],
)
def test_a_mistake_is_told(planted: list[Event], says: str) -> None:
    """Left out, too many, too late, and a wrong number."""
    (fault,) = told(*planted)
    assert says in fault


def test_1520_a_batch_may_be_written_by_an_earlier_try() -> None:
    """An atomic batch was sent again after the operation's answer, and replayed. The first try was sent before."""
    offered, answered = message(3, 500, 13_000)
    assert isinstance(answered, Answered)
    again = replace(answered, mono_ms=2_002.0, sent_mono_ms=2_000.0)
    assert told(offered, again, gone(3), many(2)) != []
    assert told(offered, replace(again, detail="replayed"), gone(3), many(2)) == []


def test_what_is_not_sure_is_not_judged() -> None:
    """A message that was handed over may have been leased, and one that is due soon too. One that was cancelled alone,
    or by an operation of unknown outcome, proves nothing."""
    soon_ms = ANSWERED_MS + SURE_MS - 1
    handed = [*message(3, 100, 13_000), hand_over(3, 900, 1)]
    alone = Cancelled(
        **at(900), number=4, message_id="id4", asked_wall_ms=EPOCH_MS + 890, outcome="cancelled", prior="none",
        attempts_made=0,
    )  # fmt: skip
    assert told(*handed, *message(4, 100, 30_000), alone, gone(4), many(1)) == []
    assert told(*message(5, 100, soon_ms), many(1, from_ms=EPOCH_MS)) == []
    assert told(*message(6, 100, 13_000), many(-1)) == told(*message(6, 100, 13_000), many(1), right=False) == []
    assert told(*message(7, 100, 13_000), many(-1, outcome="unknown", operation="")) == []
    assert isinstance(handed[-1], HandedOver)
