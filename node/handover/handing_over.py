"""What a dispatcher offers to those who hand over: pulls, the pump of webhooks, and commands that hold units.

The dispatcher's other half (node/leader/dispatcher.py) brings units into the windows; this one lets them out.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.handover.attempt_limit import Exhausted
from node.handover.hand_over_builder import BYTES_MAX, Taking
from node.handover.lease_ahead import Planning
from node.handover.lease_book import HandOver, LeaseBook
from node.handover.outlet import Outlet
from node.handover.staged import StagedHandOver
from node.handover.strict import Strict
from storage.format.array import U64
from storage.format.tag_mask import TagFilter


class HandingOver:
    """The outlet of one term, and what strict hand-overs go through."""

    _outlet: Outlet
    _book: LeaseBook
    strict: Strict
    planning: Planning

    def waiting(self, topic: int, tags: TagFilter | None = None) -> bool:
        """Whether a hand-over of the topic is worth a try; with a filter, whether there is anything that it has not
        looked at. After a try that found nothing it is not, until something comes, or the clock that went back goes on.
        """
        return self._outlet.waiting(topic, tags)

    @property
    def ready_count(self) -> int:
        """Positions in all windows; what is ready beyond them is backlog."""
        return self._outlet.ready_count

    def ready_of(self, topic: int) -> int:
        """How many units are in the windows of this topic."""
        return self._outlet.ready_of(topic)

    def has_more(self, topic: int) -> bool:
        """Whether a step is worth it after a hand-over of the topic: there is more of it, or what it found over its
        limit is to be ended."""
        return self._outlet.has_more(topic)

    def hand_over(
        self,
        topic: int,
        max_units: int,
        lease_ms: int,
        now_ms: int,
        *,
        trusted: bool,
        max_bytes: int = BYTES_MAX,
        tags: TagFilter | None = None,
    ) -> HandOver:
        """Take up to `max_units` ready units of a topic, whose records have up to `max_bytes` (one always fits), under
        a lease that ends at now + lease_ms. With a filter, only those it wants; the others stay in place.

        Empty if nothing is ready, the topic is paused, leadership is not trusted, or the oldest uncommitted hand-over
        is `stop_ms` old. What is due now comes first, then what is overdue, as far as its pace allows. A filter looks
        through the windows, not through the backlog behind them.
        """
        return self._outlet.hand_over(
            topic, max_units, lease_ms, now_ms, trusted=trusted, max_bytes=max_bytes, tags=tags
        )

    def stage(self, topic: int, most: int, now_ms: int) -> U64:
        """Take up to `most` units of a topic out of its turn, to be handed over soon: their positions, in the order of
        a hand-over. They are claimed, not leased, and stay so until `hand_over_staged` or `unstage` names them."""
        return self._outlet.stage(topic, most, now_ms)

    def hand_over_staged(
        self, topic: int, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool
    ) -> StagedHandOver:
        """Hand over staged units of a topic under a lease that ends at now + lease_ms, as far as the records allow it
        now. Without trust, or against the stop rule, all are left staged.

        Those that are neither handed over nor left are not staged any more: they ended, or they are held by a command
        in flight, or they are back in the window, since the topic is paused or the clock has gone back before them.
        """
        return self._outlet.hand_over_staged(topic, positions, lease_ms, now_ms, trusted=trusted)

    def hand_over_first(self, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool) -> HandOver | None:
        """As `hand_over_staged`, of any topics in one look, where all may go and none went before: the usual case. None
        where not, and nothing is changed: to be asked topic by topic."""
        return self._outlet.hand_over_first(positions, lease_ms, now_ms, trusted=trusted)

    def unstage(self, topic: int, positions: U64) -> None:
        """Staged units of a topic are first in line again, in this order."""
        self._outlet.unstage(topic, positions)

    def look_again(self, topic: int, positions: U64, now_ms: int) -> None:
        """Staged units of a topic are not staged any more: those that ended are forgotten, the others are first in line
        again."""
        self._outlet.look_again(topic, positions, now_ms, Taking(0, BYTES_MAX))

    def take_ended(self) -> dict[int, int]:
        """How many staged units have ended, or stand elsewhere: of the topics in which more have since this was asked
        last."""
        return self._outlet.staged.take_ended()

    @property
    def has_ended(self) -> bool:
        """Whether there is something to take with `take_ended`."""
        return self._outlet.staged.has_ended

    def behind_ms(self, now_ms: int) -> int:
        """How far the clock has gone back, 0 if it has not: meanwhile of what is ready only some is due again, and to
        find it costs a look at all of it."""
        return max(0, (self.planning.latest_ms or 0) - now_ms)

    def blocked(self, now_ms: int) -> bool:
        """Whether a hand-over finds nothing now, whatever waits: against the stop rule, while too many units wait for
        the Fail that ends them, or while the clock has gone back. A step comes when that is over."""
        return self._outlet.blocked(now_ms)

    def allows(self, now_ms: int) -> bool:
        """Whether the stop rule lets units be handed over now; a pledge does not ask."""
        return self._book.allows(now_ms)

    @property
    def has_exhausted(self) -> bool:
        """Whether there is something to take with `take_exhausted`."""
        return bool(self._outlet.exhausted)

    def take_exhausted(self) -> list[Exhausted]:
        """Units that were to be handed over and are over their limit of attempts, each told of once. They are held
        until `release` names their positions, which is when the Fail that ends them has its result."""
        return self._outlet.take_exhausted()

    def unrecorded(self, position: int) -> bool:
        """Whether the unit was handed over, or a hand-over of it taken back, and the records do not say so yet."""
        return self._book.holds(position)

    def hold(self, positions: Iterable[int]) -> None:
        """Do not hand these over until they are released: a command that ends or moves them is on its way. They are
        named by home or place; if they are moved meanwhile, they are held where they stand then."""
        self._outlet.hold(positions)

    def release(self, positions: Iterable[int]) -> None:
        """The command, which held these by these names, has its result; what it left open is first in line again."""
        self._outlet.release(positions)
