"""Services that a leader drives beside its dispatcher. They begin and end with the term, and say when they wake.

    begins ---> step, step, ... ---> ends        by the leader's loop, each step behind the dispatcher's
                  ^ applied                      by the machine, in the order of the log

A service keeps nothing from one term to the next, because what must last is in the log. It proposes by the parts that
its factory was given (node/group/leading.py has the list of factories), and asks `term.over` after each wait.
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
"""For a service that wakes only when it is told of something."""


class LeaderService(Protocol):
    """One job of a leader. All calls come from the loop's thread, and none may hold it. A class that derives from this
    one leaves out the methods that it does not need."""

    def begin(self, term: Term) -> None:
        """Begin the term. All entries of earlier terms are applied, and the dispatcher has made no step."""
        return

    def step(self, now_ms: int) -> int:
        """Do what is due. Return when the next step is, in milliseconds of the node clock, or NEVER_MS. Called in each
        step of the leader, so it must be cheap where nothing is due. `term.poke` asks for a step. A clock that has gone
        back does too."""
        return NEVER_MS

    def applied(self, changes: Changes) -> None:
        """Note that an entry was applied. All parts that it concerns know it already."""
        return

    def end(self) -> None:
        """End with the term, in the step of the loop in which leadership is lost. Nothing goes on."""
        return


RuleFactory = Callable[[LeaderParts], Rule]
ServiceFactory = Callable[[LeaderParts, Dispatcher], LeaderService]
"""Make a rule, or a service, of one term."""


class Services:
    """The services of one term, in the order of their factories."""

    def __init__(self, services: Sequence[LeaderService]) -> None:
        self._services = services

    def begin(self, term: Term) -> None:
        """Begin all. See LeaderService."""
        for service in self._services:
            service.begin(term)

    def step(self, now_ms: int) -> int:
        """Step all. Return when the first of them wakes."""
        return min((service.step(now_ms) for service in self._services), default=NEVER_MS)

    def applied(self, changes: Changes) -> None:
        """Tell all of them."""
        for service in self._services:
            service.applied(changes)

    def end(self) -> None:
        """End all of them."""
        for service in self._services:
            service.end()
