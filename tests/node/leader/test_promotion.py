"""What a leader doubts that was elected, by the clocks of those it heard; and one that was given leadership."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from node.leader.promotion import Promoted, latest_due_ms
from replication.command.dispatch import HANDED_ON, Promotion
from storage.catalog.doubt import CLOCKS_MS
from storage.format.position import HOUR_MS
from tests.replication.applied_log import T0, Log, placed, risen_log, schedule


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log of level 3 whose first leader has said that it leads."""
    with risen_log(tmp_path) as log:
        log.apply(Promotion(0), term=1)
        yield log


def promoted(
    log: Log, own_ms: int, *, right_ms: float = 0.0, term: int = 2, given: bool = False, founds: bool = False
) -> Promoted:
    """The leader of a term, whose clock shows `own_ms` and some right one so much more."""
    clock: Any = SimpleNamespace(own_ms=lambda: own_ms)
    latest_ms = latest_due_ms(clock, log.machine, right_ms)
    return Promoted(term, log.store, cast(Any, None), latest_ms, founds=founds, given=given)


def doubted(log: Log, leader: Promoted, homes: list[int]) -> list[bool]:
    """Of messages that stand where they were born."""
    at = np.array(homes, np.uint64)
    doubts: list[bool] = leader.doubts(at, at, log.store.records(at)).tolist()
    return doubts


def test_a_clock_that_is_behind_doubts_what_a_right_one_had_reached(log: Log) -> None:
    """FOUND D1: 10 s behind, with a majority of clocks right. And D3: within the bound, ahead here and behind there."""
    homes = placed(log.apply(schedule(T0 + 10_000, T0 + 10_000 + CLOCKS_MS, T0 + 10_001 + CLOCKS_MS), now_ms=T0 - 450))
    assert doubted(log, promoted(log, T0, right_ms=10_000), homes) == [True, True, False]
    assert doubted(log, promoted(log, T0 + 10_000 - 900), homes) == [True, False, False]


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ((), (False, False, False)),
        ((T0 + 1_000,), (False, False, False)),
        ((T0 + 1_000, T0 + HOUR_MS), (False, False, False)),
        ((T0 + 2 * HOUR_MS,), (True, False, False)),  # a doubt knows the ends of two hours (docs/guarantees.md)
    ],
)
def test_what_comes_after_a_clock_that_is_hours_ahead_was_heard_is_new(
    log: Log, there: tuple[int, ...], new: tuple[bool, ...]
) -> None:
    """Found by the scenario `clock`: of two clocks one was two hours ahead, and each message of these hours that came
    later was in doubt. What was there is; what is new is not, up to an hour before the last one that had a message."""
    before = placed(log.apply(schedule(*there), now_ms=T0 - 450)) if there else []
    leader = promoted(log, T0, right_ms=2 * HOUR_MS)
    log.apply(Promotion(leader.until_ms), term=2)
    came = placed(log.apply(schedule(T0 + 1_000, T0 + HOUR_MS, T0 + 2 * HOUR_MS), term=2, now_ms=T0))
    assert doubted(log, leader, [*before, *came]) == [*[True] * len(there), *new]


def test_a_stamp_of_the_log_says_what_time_it_was_for_the_leader_before(log: Log) -> None:
    """Its clock may have been ahead of all that are left; so may the tick."""
    (home,) = placed(log.apply(schedule(T0 + 5_000), now_ms=T0 + 5_000))
    assert doubted(log, promoted(log, T0), [home]) == [True]


def test_who_was_given_leadership_doubts_nothing_new(log: Log) -> None:
    """By a leader that had said how it came to lead. One that had not, as it never reigned, may have hidden a doubt."""
    (home,) = placed(log.apply(schedule(T0)))
    assert doubted(log, promoted(log, T0 + 60_000, given=True), [home]) == [False]
    assert doubted(log, promoted(log, T0 + 60_000, given=True, term=3), [home]) == [True]
    log.apply(Promotion(HANDED_ON), term=2)
    assert doubted(log, promoted(log, T0 + 60_000, given=True, term=3), [home]) == [False]


def test_who_founds_a_cluster_doubts_nothing(tmp_path: Path) -> None:
    """Nobody led before, though it was not given leadership."""
    with risen_log(tmp_path) as log:
        (home,) = placed(log.apply(schedule(T0)))
        assert doubted(log, promoted(log, T0 + 60_000, term=1, founds=True), [home]) == [False]


def test_what_came_to_this_leader_is_not_in_doubt(log: Log) -> None:
    """However early it is due."""
    leader = promoted(log, T0 + 500)
    (home,) = placed(log.apply(schedule(T0), term=2, now_ms=T0 - 2_000))
    assert doubted(log, leader, [home]) == [False]
