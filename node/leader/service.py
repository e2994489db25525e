"""What a leader drives beside its dispatcher: services that begin and end with the term, and wake when they say.

    begins ---> step, step, ... ---> ends        by the leader's loop, each step behind what the dispatcher does
                  ^ applied                      by the machine, in the order of the log

A service keeps nothing from one term to the next: what must last stands in the log. It proposes by the parts that its
factory was given (node/group/leading.py has the list of factories), and asks `term.over` after each wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from node.handover.term import Term
from node.leader.dispatcher import Dispatcher
from node.leader.leader_parts import LeaderParts
from node.ready.rule import Rule
from replication.apply.told import Changes

NEVER_MS: Final = (1 << 63) - 1
"""A service that wakes only when it is told of something."""


class LeaderService(Protocol):
    """One thing that a leader does. All calls come from the loop's thread, and none may hold it. One that derives from
    this class leaves out what it does not need."""

    def begin(self, term: Term) -> None:
        """The term begins, all entries of earlier terms applied; before the dispatcher's first step."""
        return

    def step(self, now_ms: int) -> int:
        """Do what is due; returns when the next is, in milliseconds of the node clock, or NEVER_MS. Asked in each step
        of the leader, so cheap where nothing is due: `term.poke` asks for one. A clock that has gone back asks too."""
        return NEVER_MS

    def applied(self, changes: Changes) -> None:
        """An entry was applied, after all whom it concerns were told."""
        return

    def end(self) -> None:
        """The term is over, in the step of the loop in which leadership is lost: nothing goes on."""
        return


RuleFactory = Callable[[LeaderParts], Rule]
ServiceFactory = Callable[[LeaderParts, Dispatcher], LeaderService]
"""Make a rule, a service, of one term."""


class Services:
    """Those of one term, in the order of their factories."""

    def __init__(self, services: Sequence[LeaderService]) -> None:
        self._services = services

    def begin(self, term: Term) -> None:
        """See LeaderService; likewise the others."""
        for service in self._services:
            service.begin(term)

    def step(self, now_ms: int) -> int:
        """When the first of them wakes."""
        return min((service.step(now_ms) for service in self._services), default=NEVER_MS)

    def applied(self, changes: Changes) -> None:
        """One fan-out to all."""
        for service in self._services:
            service.applied(changes)

    def end(self) -> None:
        """All of them."""
        for service in self._services:
            service.end()
