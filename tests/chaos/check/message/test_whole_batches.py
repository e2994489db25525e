"""The checker of atomic batches can fail: each planted mistake is told, and a good history holds."""

import pytest

from chaos.check.message.whole_batches import check_whole_batches
from chaos.history.bounds import Bounds
from chaos.history.event import BatchAnswered, Event
from chaos.history.history import History
from tests.chaos.history.planted import at, hand_over


def batched(first: int, ms: int, outcome: str, *replayed: bool) -> BatchAnswered:
    """A final answer at `ms` to a batch of three."""
    return BatchAnswered(**at(ms), numbers=(first, first + 1, first + 2), outcome=outcome, replayed=replayed)


GOOD: list[Event] = [
    batched(1, 100, "acknowledged", False, False, False),
    batched(4, 200, "acknowledged", True, True, True),
    batched(7, 300, "refused"),
    batched(10, 400, "unknown"),
    hand_over(1, 450, 1),
    hand_over(10, 450, 1),
]


def test_a_good_history_holds() -> None:
    """Written at once, written by an earlier request, refused, and unknown."""
    verdict = check_whole_batches(History(GOOD), Bounds())
    assert verdict.faults == []
    assert verdict.figure == {"batches": 4, "written": 2, "refused": 1, "unknown": 1, "replayed": 1, "wrong": 0}


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        (batched(20, 500, "acknowledged", True, False, False), "an earlier request wrote 1 of 3 lines"),
        (hand_over(8, 500, 1), "batch 7 to 9 was refused, and [8] were handed over"),
    ],
)
def test_a_mistake_is_told(planted: Event, says: str) -> None:
    """A part that was written before, and a line of a refused batch."""
    (fault,) = check_whole_batches(History([*GOOD, planted]), Bounds()).faults
    assert says in fault
