"""What is said of messages that may not be handed over again."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from node.handover.attempt_limit import Exhausted
from node.port.failure_code import MAX_AGE
from node.settle.attempt_policy import HAND_OVERS_MAX, Attempts
from replication.command.handover import DEAD
from storage.record.record import Record
from storage.tables.topic import subscription_of
from tests.node.record import record

OLD_MS = 2_000


class Aging:
    """A clock that goes on by 1 ms with each look at it."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Later than the last time."""
        self._now_ms += 1
        return self._now_ms


def attempts_at(clock: object, old: Record) -> Attempts:
    """Of units whose records are all like this one, in a topic without settings."""
    store = SimpleNamespace(
        records=lambda positions: [old] * len(positions),
        catalog=SimpleNamespace(topic_by_number=lambda number: None),
    )
    entropy = SimpleNamespace(id_bits=lambda count: np.zeros(count, np.uint64))
    return Attempts(cast(Any, store), cast(Any, clock), cast(Any, entropy))


def test_what_became_too_old_within_a_step_dies_of_its_age() -> None:
    """A retry due in the last millisecond of its max_age is found too old by a clock that went on since the step began;
    judged by the step's own time it died of `lease-ended`, with no lease to end."""
    step_ms = OLD_MS - 1
    attempts = attempts_at(Aging(step_ms), record(asked_due_ms=0, extension={"retry": {"max_age_ms": OLD_MS}}))
    position = np.array([7], np.uint64)
    assert attempts.over(subscription_of(1), position, np.array([2], np.uint16)).tolist() == [True]
    fail = attempts.give_up(Exhausted(subscription_of(1), position, np.array([0], np.uint32), np.array([1], np.uint16)))
    assert (fail.code.tolist(), fail.fate.tolist()) == ([MAX_AGE], [DEAD])


def test_b18_hand_overs_that_do_not_count_end_before_their_number_does() -> None:
    """After 65,535 the number stood still, the same came again, and receivers fenced it away."""
    given_back = record(asked_due_ms=1, attempt=59_999)  # all but one of its hand-overs did not count
    attempts = attempts_at(SimpleNamespace(now_ms=lambda: 1), given_back)
    numbers = np.array([HAND_OVERS_MAX, HAND_OVERS_MAX + 1], np.uint16)
    assert attempts.over(subscription_of(1), np.array([7, 8], np.uint64), numbers).tolist() == [False, True]
