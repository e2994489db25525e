"""The services of one term: all are called, in their order, and the first to wake counts."""

from typing import Any, cast

from node.handover.term import Term
from node.leader.service import NEVER_MS, LeaderService, Services
from replication.apply.apply_notifier import Changes

TERM = cast(Term, object())
CHANGES = Changes(7, 2, 1_000, (), ())


class Noting(LeaderService):
    """Notes what it is told, and wakes then."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]], wake_ms: int) -> None:
        self._name, self._calls, self._wake_ms = name, calls, wake_ms

    def begin(self, term: Term) -> None:
        """See LeaderService; likewise the others."""
        self._calls.append((self._name, "begin", term))

    def step(self, now_ms: int) -> int:
        """Note it."""
        self._calls.append((self._name, "step", now_ms))
        return self._wake_ms

    def applied(self, changes: Changes) -> None:
        """Note it."""
        self._calls.append((self._name, "applied", changes))

    def end(self) -> None:
        """Note it."""
        self._calls.append((self._name, "end"))


class Idle(LeaderService):
    """Needs nothing."""


def test_all_are_called_in_their_order() -> None:
    """Whatever each of them answers."""
    calls: list[tuple[Any, ...]] = []
    services = Services([Noting("a", calls, 90), Idle(), Noting("b", calls, 50)])
    services.begin(TERM)
    assert services.step(10) == 50
    services.applied(CHANGES)
    services.end()
    told = [("begin", TERM), ("step", 10), ("applied", CHANGES), ("end",)]
    assert calls == [(name, *each) for each in told for name in "ab"]


def test_without_a_service_that_wakes_there_is_no_time_to_wake() -> None:
    """None at all, or one that needs nothing."""
    assert Services([]).step(10) == Services([Idle()]).step(10) == NEVER_MS
