"""The term of leadership that hand-overs, and changes of what is handed over, are made in, as far as they need to know.

`node/leader/leader_term.py` is one. It is over in the same step of the loop in which leadership is lost, and nothing of
it goes on after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol

from typing_extensions import TypeVar

from api.port.leadership import OpenHandOvers, TakeoverView
from api.port.problem import Problem
from node.handover.command_holds import CommandHolds
from node.handover.handing_over import HandingOver
from node.handover.lease_book import HandOver
from node.port.pull_port import Deliveries, Gone, PullAsked
from node.port.receipt import Receipts
from node.port.trust_window import NEVER, TrustWindow
from node.runtime.lifecycle import Lifecycle
from replication.command.handover import Fail
from storage.format.array import I64, U8, U64
from storage.record.record import Record
from storage.tables.topic import Topic


class Term(Protocol):
    """`term` is its number, `promoted_ms` the node clock when it began. `handing_over`: where its hand-overs leave.
    `holding`: units that commands in flight end or move."""

    term: int
    promoted_ms: int
    receipts: Receipts
    handing_over: HandingOver
    holding: CommandHolds

    @property
    def over(self) -> bool:
        """Whether leadership is lost."""

    def trusted(self) -> bool:
        """Whether this node may act as leader at this moment, and is not about to give that away."""

    async def sure(self) -> None:
        """Wait a moment while this node leads and is not sure to."""

    def raise_if_over(self) -> None:
        """Raises `no-leader`: who waited asks this before it goes on."""

    def poke(self) -> None:
        """Something changed: step at the end of this loop iteration."""

    def poke_by(self, at_ms: int) -> None:
        """Something will be due then: step no later."""

    def doubts(self, home: int, place: int, record: Record) -> bool:
        """Whether a leader before may have handed this message over, or not, though nothing tells of it."""

    def fail(self, fail: Fail) -> asyncio.Future[U8]:
        """Propose what becomes of failed hand-overs; their units are held till the result is known."""

    def give_up(self, fail: Fail) -> asyncio.Future[U8]:
        """Propose the end of messages that the dispatcher leaves alone."""

    async def leased(self, hand_over: HandOver) -> None:
        """Until the Lease of a strict hand-over is applied. Raises `no-leader`."""

    async def recorded(self, position: int) -> None:
        """Until the records hold every hand-over of this unit that was made. Raises `no-leader`."""

    async def pull(self, topic: Topic, asked: PullAsked, gone: Gone) -> Deliveries:
        """Hand over to a consumer that asks, and may wait. Raises `no-leader`."""

    async def account(self, told: OpenHandOvers) -> TakeoverView:
        """Of a leader that leadership was given to: what it took over, and whether it repeated any of it."""

    def newest_hand_overs(self) -> tuple[U64, I64]:
        """Places and lease ends of what was handed over last."""

    def level_rose(self) -> None:
        """Say what a leader of this level says. Raises DiskFailed."""


T_co = TypeVar("T_co", bound=Term, covariant=True, default=Term)


class Leadership(Generic[T_co]):
    """Whether this node leads. `term`: while it is the established leader; gone in the step in which that is lost.
    `frozen`: leadership is about to be given away, so nothing is handed over. Only node/group/leading.py sets the term.
    `window` tells others: it is open while this node may act, and closed in the step in which it may not.
    `on_change` is called where term or frozen is set."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.on_change: Callable[[], None] = _nothing
        self.window = TrustWindow()
        self._term: T_co | None = None
        self._frozen = False
        self._until_s, self._ahead_s = NEVER, 0.0

    @property
    def term(self) -> T_co | None:
        """None while this node does not lead."""
        return self._term

    @term.setter
    def term(self, term: T_co | None) -> None:
        self._term = term
        self._show()
        self.on_change()

    @property
    def frozen(self) -> bool:
        """Whether it is about to be given away."""
        return self._frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._frozen = frozen
        self._show()
        self.on_change()

    def renew(self, until_s: float, ahead_s: float) -> None:
        """The group may act as leader until this monotonic second; the node clock is so far ahead of that clock."""
        self._until_s, self._ahead_s = until_s, ahead_s
        self._show()

    def _show(self) -> None:
        if self._term is None or self._frozen:
            self.window.close()
        else:
            self.window.open(self._term.term, self._until_s, self._ahead_s)

    def require(self) -> T_co:
        """The term, if this node may act as leader at this moment: asked again after every await. Raises `draining`,
        `no-leader`."""
        if self._life.draining:
            raise Problem("draining", "this node is shutting down; another one leads in a moment")
        if self._term is None or not self._term.trusted():
            raise Problem("no-leader", "this node is not sure to lead; nothing happened")
        return self._term

    async def sure(self) -> T_co:
        """As `require`; a leader that is not sure to lead waits for a moment until it is."""
        term = self._term
        if term is not None:
            if term.trusted() and not self._life.draining:  # nearly always: asked once, for every request
                return term
            await term.sure()
        return self.require()


def _nothing() -> None:
    return None


Leads = Callable[[], Term]
"""Raises `Problem` unless this node may answer as leader at this moment."""
