"""Services that a leader drives beside its dispatcher. They begin and end with the term. Each says when its next step
is.

    begins ---> step, step, ... ---> ends        called by the leader's loop, each step after the dispatcher's
                  ^ applied                      called by the state machine, in the order of the Raft log

A service keeps nothing from one term to the next. What must outlast a term has to be replicated. A service proposes
through the parts that its factory was given, and asks `term.over` after each wait. node/group/leading.py has the list
of factories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from node.handover.term import Term
from node.leader.dispatcher import Dispatcher
from node.leader.leader_parts import LeaderParts
from node.ready.rule import Rule
from replication.apply.apply_notifier import Changes

NEVER_MS: Final = (1 << 63) - 1
"""The answer of a service that has no next step until it is told of something."""


class LeaderService(Protocol):
    """One job of a leader. All calls come from the loop's thread, and each must return quickly. A subclass leaves out
    the methods that it does not need."""

    def begin(self, term: Term) -> None:
        """Begin work in this term. When it is called, all entries of earlier terms are applied, and the dispatcher has
        made no step."""
        return

    def step(self, now_ms: int) -> int:
        """Do what is due. Return the time of the next step, in milliseconds of the node clock, or NEVER_MS.

        This is called in each step of the leader, so it must be cheap where nothing is due. It may be called earlier
        than the service asked: after `term.poke`, for other services, or because the clock has gone back.
        """
        return NEVER_MS

    def applied(self, changes: Changes) -> None:
        """Note that an entry made these changes. The other parts of the term were told of them before this call."""
        return

    def end(self) -> None:
        """Stop, in the step of the loop in which leadership is lost. The service does nothing after this."""
        return


RuleFactory = Callable[[LeaderParts], Rule]
ServiceFactory = Callable[[LeaderParts, Dispatcher], LeaderService]
"""Both factories are called once for each term."""


class Services:
    """The services of one term, in the order of their factories."""

    def __init__(self, services: Sequence[LeaderService]) -> None:
        self._services = services

    def begin(self, term: Term) -> None:
        """Begin each service."""
        for service in self._services:
            service.begin(term)

    def step(self, now_ms: int) -> int:
        """Step each service. Return the earliest time at which one of them has its next step, or NEVER_MS."""
        return min((service.step(now_ms) for service in self._services), default=NEVER_MS)

    def applied(self, changes: Changes) -> None:
        """Tell each service that an entry was applied."""
        for service in self._services:
            service.applied(changes)

    def end(self) -> None:
        """End all of them."""
        for service in self._services:
            service.end()
