"""The term as leader, as far as hand-overs and changes of messages need to know it.

`node/leader/leader_term.py` implements it. A term ends in the step of the loop in which leadership is lost. Nothing of
it goes on after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
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
from storage.format.array import I64, U8, U64, Mask
from storage.record.record import Record


class Term(Protocol):
    """A term as leader. `term`: its number. `promoted_ms`: the node clock when it began. `handing_over`: makes its
    hand-overs. `holding`: holds units that commands in flight end or move."""

    term: int
    promoted_ms: int
    receipts: Receipts
    handing_over: HandingOver
    holding: CommandHolds

    @property
    def over(self) -> bool:
        """True if leadership is lost."""

    def trusted(self) -> bool:
        """True if this node may act as leader at this moment, and is not about to give leadership away."""

    async def sure(self) -> None:
        """Wait a short time for trust to come back, while this node leads and lacks it. The caller asks `trusted`
        afterwards."""

    def raise_if_over(self) -> None:
        """Raise `no-leader` if the term is over. Every caller calls this after it has waited."""

    def poke(self) -> None:
        """Let the dispatcher step at the end of this iteration of the loop, because something changed that it looks
        at."""

    def poke_by(self, at_ms: int) -> None:
        """Let the dispatcher step at `at_ms` or earlier, because something is due then."""

    def doubts(self, homes: U64, places: U64, records: Sequence[Record]) -> Mask:
        """[n], True where a former leader may have handed the message over without a committed Lease. `homes` and
        `places` are the positions of the messages, `records` their records."""

    def fail(self, fail: Fail) -> asyncio.Future[U8]:
        """Propose a Fail, which retries or ends units whose hand-overs failed. The units are held until its result is
        known. Return a future of the result, which has one value for each unit."""

    def give_up(self, fail: Fail) -> asyncio.Future[U8]:
        """Propose a Fail that ends units, and return its result as `fail` does. The dispatcher does not hand these
        units over anyway, so they need no hold."""

    async def leased(self, hand_over: HandOver) -> None:
        """Wait until the Lease of a strict hand-over is applied. Raises `no-leader` if the term ends before."""

    async def recorded(self, position: int) -> None:
        """Wait until the settle records show every hand-over of this unit that was made, and no lease ahead that was
        taken back. Raises `no-leader` if the term ends before."""

    async def pull(self, asked: PullAsked, gone: Gone) -> Deliveries:
        """Answer a pull with units under a lease. May wait for units until `gone` says that the client went away.
        Raises `no-leader`."""

    async def account(self, told: OpenHandOvers) -> TakeoverView:
        """Return how many leases this term took over from the leader before it, and how many of their hand-overs it
        repeated. `told` are the hand-overs without a known end that the earlier leader names."""

    def newest_hand_overs(self) -> tuple[U64, I64]:
        """Positions and lease ends (ms) of the newest hand-overs of this term, shape [n] each."""

    def level_rose(self) -> None:
        """Write or propose what the cluster's new level allows and this term could not say before: the mark in the
        delivery log and the Promotion. Raises DiskFailed."""


T_co = TypeVar("T_co", bound=Term, covariant=True, default=Term)


class Leadership(Generic[T_co]):
    """This node's leadership: the term that it leads, if any, and until when it may act as leader. `on_change` is
    called whenever `term` or `frozen` is set.

    - `term` is set while this node is the established leader. It is None from the step of the loop in which leadership
      is lost. Only node/group/leading.py sets it.
    - `frozen` is True while leadership is about to be given away. Nothing is handed over then.
    - `window` lets other parts see until when this node may act. It is closed in the step of the loop in which the node
      loses that right.
    """

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.on_change: Callable[[], None] = _nothing
        self.window = TrustWindow()
        self._term: T_co | None = None
        self._frozen = False
        self._until_s, self._ahead_s = NEVER, 0.0

    @property
    def term(self) -> T_co | None:
        """The term. None while this node does not lead."""
        return self._term

    @term.setter
    def term(self, term: T_co | None) -> None:
        self._term = term
        self._show()
        self.on_change()

    @property
    def frozen(self) -> bool:
        """True while leadership is about to be given away."""
        return self._frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._frozen = frozen
        self._show()
        self.on_change()

    def renew(self, until_s: float, ahead_s: float) -> None:
        """Let this node act as leader until `until_s` of the monotonic clock. The node clock is `ahead_s` ahead of that
        clock, and both are in seconds."""
        self._until_s, self._ahead_s = until_s, ahead_s
        self._show()

    def _show(self) -> None:
        if self._term is None or self._frozen:
            self.window.close()
        else:
            self.window.open(self._term.term, self._until_s, self._ahead_s)

    def require(self) -> T_co:
        """Return the term if this node may act as leader at this moment. The caller must call it again after every
        await. Raises `draining`, `no-leader`."""
        if self._life.draining:
            raise Problem("draining", "this node is shutting down; another one leads in a moment")
        if self._term is None or not self._term.trusted():
            raise Problem("no-leader", "this node is not sure to lead; nothing happened")
        return self._term

    async def sure(self) -> T_co:
        """Return the term as `require` does. If this node leads and lacks trust, wait a short time for it first."""
        term = self._term
        if term is not None:
            if term.trusted() and not self._life.draining:  # nearly always, and asked once for every request
                return term
            await term.sure()
        return self.require()


def _nothing() -> None:
    return None


Leads = Callable[[], Term]
"""Returns the term. Raises `Problem` unless this node may answer as leader at this moment."""
