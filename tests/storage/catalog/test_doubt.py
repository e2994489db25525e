"""What is in doubt after a change of leader: what was there, and due."""

from pathlib import Path

import numpy as np

from storage.catalog.doubt import NO_DOUBT, Doubt
from storage.format.array import I64, U64
from storage.format.position import HOUR_MS
from tests.replication.applied_log import GENESIS, T0, Log, placed, schedule


def doubted(log: Log, doubt: Doubt, places: list[int]) -> list[bool]:
    """Of units at these places."""
    at: U64 = np.array(places, np.uint64)
    due_ms: I64 = log.store.units(at)["due_ms"]
    return [bool(each) for each in doubt.of(at, due_ms)]


def test_what_was_there_and_due_is_in_doubt_and_what_came_later_is_not(tmp_path: Path) -> None:
    """On both sides of an hour's end, which lies between what is due and the bound."""
    log = Log(tmp_path)
    log.apply(GENESIS)
    until_ms = T0 + HOUR_MS + 300
    due_ms = (T0 + 5, T0 + HOUR_MS - 200, until_ms, until_ms + 1)
    before = placed(log.apply(schedule(*due_ms)))
    doubt = Doubt.at(log.store.span, until_ms)
    after = placed(log.apply(schedule(*due_ms, T0 + 3 * HOUR_MS)))
    assert doubted(log, doubt, before) == [True, True, True, False]
    assert doubted(log, doubt, after) == [False] * 5
    assert doubted(log, NO_DOUBT, before) == [False] * 4
    log.store.close()


def test_a_first_leader_finds_nothing_to_doubt(tmp_path: Path) -> None:
    """There was no hour, and what comes into it is new."""
    log = Log(tmp_path)
    log.apply(GENESIS)
    doubt = Doubt.at(log.store.span, T0 + 1_000)
    assert doubted(log, doubt, placed(log.apply(schedule(T0, T0 + 999)))) == [False, False]
    log.store.close()
