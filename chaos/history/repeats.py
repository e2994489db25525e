"""The repeated hand-overs of a history, and their causes."""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from chaos.history.bounds import Bounds
from chaos.history.event import Applied, Ended, Extended, HandedOver, Nacked
from chaos.history.history import History

Name = tuple[int, int, int]  # (number, term, attempt)
A = TypeVar("A", Nacked, Extended)
#: Why a message came again. `retried`: its receiver had not taken it, as far as its node could know. `after_lease`: the
#: lease of the earlier hand-over had ended. While that lease ran: `failover` in a later term, `unnamed` in the same
#: term. `same_name`: the later hand-over has the term and attempt of the earlier one.
Cause = Literal["retried", "after_lease", "failover", "same_name", "unnamed"]


@dataclass(frozen=True)
class Repeat:
    """Two hand-overs of one message that follow each other by (term, attempt), and the cause of the later one.

    A repeat with the cause `retried` is no duplicate, because the receiver had not taken the earlier hand-over.
    `lease_end_ms` is the end of the earlier one's lease. `failed`: by its node's account the earlier one had failed
    before the later one. Or it may have failed, because the receiver got the push after the attempt had timed out. A
    node that stands still notices a timeout late.
    """

    before: HandedOver
    after: HandedOver
    cause: Cause
    lease_end_ms: int
    failed: bool


def repeats(history: History, bounds: Bounds) -> list[Repeat]:
    """Every repeat with its cause, by number, then by (term, attempt).

    A repeat in a later term while the earlier lease still ran is a failover duplicate: the log did not hold the earlier
    hand-over. A repeat after that lease has its cause in the consumer, which let the lease end. A push whose node's
    account is gone may have begun, and have been given up, long before its receiver saw it.
    """
    found: list[Repeat] = []
    given_back, extended, stamps = _by_name(history, Nacked), _by_name(history, Extended), _Stamps(history)
    failed_ms = {(event.message_id, event.term, event.attempt): event.wall_ms for event in history.of(Ended)}
    for number, events in history.hand_overs().items():
        for before, after in itertools.pairwise(events):
            name = (number, before.term, before.attempt)
            lease_end_ms = _lease_end_ms(before, after, extended.get(name, ()), stamps, bounds)
            ended_ms = failed_ms.get((before.message_id, before.term, before.attempt))
            late = before.pushed and before.wall_ms >= before.gives_up_ms
            failed = late or (ended_ms is not None and ended_ms <= _at_ms(after))
            cause: Cause
            if (after.term, after.attempt) == (before.term, before.attempt):
                cause = "same_name"
            elif not before.taken or _given_back(after, given_back.get(name, ())):
                cause = "retried"
            elif max(after.handed_over_ms, after.begun_wall_ms) >= lease_end_ms:
                cause = "after_lease"  # it had ended, though perhaps not yet by the leader's clock
            elif bounds.clocks_set_back and name not in extended and _lease_had_run(before, after):
                cause = "after_lease"
            elif before.pushed and after.handed_over_ms >= before.gives_up_ms:
                cause = "retried"  # the node heard nothing in time: it may have been paused
            elif failed:
                cause = "retried"  # the connection broke before the answer came
            else:
                cause = "failover" if after.term > before.term else "retried" if before.by_receipt else "unnamed"
            found.append(Repeat(before, after, cause, lease_end_ms, failed))
    return found


def _by_name(history: History, kind: type[A]) -> dict[Name, list[A]]:
    found: dict[Name, list[A]] = defaultdict(list)
    for event in history.of(kind):
        found[event.number, event.term, event.attempt].append(event)
    return found


def _given_back(after: HandedOver, answers: Sequence[Nacked]) -> bool:
    """True if the consumer may have given the earlier hand-over back before the message came again."""
    return any(event.result in ("nacked", "unknown") and event.asked_wall_ms <= _at_ms(after) for event in answers)


def _at_ms(event: HandedOver) -> int:
    """When a hand-over was made, for comparison with earlier events. If its begin was not seen, when it was received:
    the nodes' clocks may be behind."""
    return event.begun_wall_ms or max(event.handed_over_ms, event.wall_ms)


def _lease_had_run(before: HandedOver, after: HandedOver) -> bool:
    """True if a lease had run for its whole length by true time. Where clocks were set back, its end by the clock that
    gave it may be far ahead (seed 1281)."""
    runs_ms = before.leased_until_ms - before.handed_over_ms
    return before.begun_wall_ms > 0 and after.begun_wall_ms >= before.begun_wall_ms + runs_ms


class _Stamps:
    """The stamps of entries, by when their leaders applied them. Empty without events from inside nodes."""

    def __init__(self, history: History) -> None:
        stamped = sorted((event.wall_ms, event.stamp_ms) for event in history.of(Applied) if event.stamp_ms)
        self._applied_ms, self._stamp_ms = [at for at, _ in stamped], [stamp for _, stamp in stamped]

    def earliest_ms(self, event: Extended) -> int:
        """The earliest time that the leader's clock may have shown when it took this extension."""
        first = bisect.bisect_left(self._applied_ms, event.asked_wall_ms)
        last = bisect.bisect_right(self._applied_ms, event.wall_ms)
        return min([event.asked_wall_ms, *self._stamp_ms[first:last]])


def _lease_end_ms(
    before: HandedOver, after: HandedOver, answers: Sequence[Extended], stamps: _Stamps, bounds: Bounds
) -> int:
    """The earliest possible end of the lease of `before`, by the answers about extensions. A leader whose clock was
    behind made an extended lease end earlier by as much."""
    ends_ms = [before.leased_until_ms]
    for event in answers:
        end_ms = stamps.earliest_ms(event) + event.lease_ms - bounds.skew_ms
        if event.result == "extended" and event.wall_ms <= after.began_ms:
            ends_ms = [end_ms]
        elif event.result in ("extended", "unknown") and event.asked_wall_ms <= after.began_ms:
            ends_ms.append(end_ms)
    return min(ends_ms)
