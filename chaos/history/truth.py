"""The truth of a run: the views of a history that the answers are compared with."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Final

from chaos.history.bounds import Bounds
from chaos.history.event import (
    Applied,
    Begun,
    Cancelled,
    Extended,
    HandedOver,
    Led,
    Nacked,
    Offered,
    Promoted,
    Settled,
    Sure,
    Transferred,
)
from chaos.history.history import History
from chaos.history.repeats import Repeat, repeats
from node.port.failure_code import NACKED
from storage.format.level import LEVELS
from storage.format.rows import CODE_REDRIVEN
from storage.format.states import DELIVERED

Name = tuple[str, int, int]  # (message id, term, attempt)

#: A doubt covers messages that are due this shortly after a change of leader (storage/catalog/doubt.py). Clocks may be
#: apart.
DOUBT_MS: Final = 3_000
#: A leader is seen to lead at most this long after its begin: inside a simulated node, or by asking a real one.
INSIDE_MS: Final = 20
ASKED_MS: Final = 2_000
#: A lease may seem to end this much early: times are floored, crystals run wrong.
EARLY_MS: Final = 10
#: A node that misses the request to lead is elected at least this much later. A node that gets it leads at once.
ELECTED_MS: Final = 100


class Truth:
    """The truth of one history, as answers are compared with it. `tells_begun` and `tells_settled` say if nodes
    recorded what only the simulator sees."""

    def __init__(self, history: History, bounds: Bounds) -> None:
        self.history, self.bounds = history, bounds
        self.hand_overs = history.hand_overs()
        self.repeats = repeats(history, bounds)
        self.received = history.of(HandedOver)
        self._handed_over_ms = {(each.number, each.term, each.attempt): each.handed_over_ms for each in self.received}
        self.begun: dict[Name, Begun] = {}
        for event in history.of(Begun):
            self.begun.setdefault((event.message_id, event.term, event.attempt), event)
        self._begun_ms: dict[str, list[float]] = {}
        for (message_id, _, _), event in self.begun.items():
            self._begun_ms.setdefault(message_id, []).append(event.mono_ms)
        settled = history.of(Settled)
        self.tells_begun, self.tells_settled = bool(self.begun), bool(settled)
        self.nacked = {(each.message_id, each.term, each.attempt) for each in settled if each.code == NACKED}
        self.delivered = {(each.message_id, each.term, each.attempt) for each in settled if each.what == DELIVERED}
        redriven = [each for each in settled if each.code == CODE_REDRIVEN]
        self.redriven = history.redriven()
        terms = {event.index: event.term for event in history.of(Applied)}
        self._redriven = sorted(
            {(each.message_id, each.index): (each.mono_ms, terms.get(each.index, 0)) for each in redriven}.values()
        )  # a move has a record at the new position and one at the original
        acknowledged = history.acknowledged()
        self._acknowledged = acknowledged
        self.number_of = {event.message_id: number for number, event in acknowledged.items()}
        self._offered: dict[int, Offered] = history.offered()
        self._changes = _changes(history)
        self.transfer_to = {event.term_after: event for event in history.of(Transferred)}
        self._sealed = _sealed(history)
        self._risen_ms = _risen_ms(history)
        asked: list[Extended | Nacked] = [*history.of(Extended), *history.of(Nacked)]
        self._prolonged = {(event.number, event.term, event.attempt) for event in asked}

    def is_strict(self, number: int) -> bool:
        """True if message `number` is of a strict topic."""
        return number in self._offered and self._offered[number].strict

    def keeps_doubt(self, number: int) -> bool:
        """True if a doubt about this message stays until the message ends. Below the newest level a cluster forgets
        doubts."""
        return number in self._acknowledged and self._acknowledged[number].mono_ms >= self._risen_ms

    def topic(self, number: int) -> str:
        """The name of the topic of message `number`, empty if unknown."""
        return self._offered[number].topic if number in self._offered else ""

    def pushed(self, number: int) -> bool:
        """True if the topic of message `number` pushes."""
        return self.topic(number) in ("push", "strict-push", "poison")

    def received_before(self, number: int, mono_ms: float) -> set[tuple[int, int]]:
        """(term, attempt) of the hand-overs of message `number` that were received before `mono_ms`."""
        hand_overs = self.hand_overs.get(number, ())
        return {(event.term, event.attempt) for event in hand_overs if event.mono_ms < mono_ms}

    def begun_before(self, message_id: str, mono_ms: float) -> int | None:
        """How many hand-overs of a message nodes had begun by `mono_ms`. None without events from inside nodes."""
        if not self.tells_begun:
            return None
        return sum(each <= mono_ms for each in self._begun_ms.get(message_id, ()))

    def handed_over_ms(self, name: tuple[int, int, int]) -> int | None:
        """When a hand-over, named by (number, term, attempt), was made: its `handed_over_ms`, by the leader's clock.
        None if it was not received, or its node's account is gone."""
        return self._handed_over_ms.get(name) or None

    def redriven_between(self, from_ms: float, until_ms: float) -> list[int]:
        """One element for each redrive of a message in this time: the term of the leader that proposed it, 0 if
        unknown."""
        first, end = (bisect.bisect_left(self._redriven, (at_ms, 0)) for at_ms in (from_ms, until_ms))
        return [term for _, term in self._redriven[first:end]]

    def newest_term(self, mono_ms: float) -> int:
        """The newest term that an observer had seen by `mono_ms`."""
        return max((term for at_ms, term in self._changes if at_ms <= mono_ms), default=0)

    def nobody_died(self, number: int, cancel: Cancelled) -> bool:
        """True if no leader died from shortly before a message was sent until its cancel was answered. Each leader of
        that time led on, or transferred its leadership when all of its work was in the log.

        False if all clocks were set back. Then a message may always be in doubt if it is due before a time that the
        clocks had shown.
        """
        answered = self._acknowledged.get(number)
        if answered is None or not self._changes or self.bounds.clocks_set_back:
            return False
        from_ms = answered.written_after_ms(self._offered[number]) - DOUBT_MS
        if self._changes[0][0] > from_ms:
            return False  # the first leader was elected, so its messages are in doubt for a moment
        until_ms = cancel.mono_ms + (INSIDE_MS if self.tells_begun else ASKED_MS)
        within = [term for at_ms, term in self._changes if from_ms <= at_ms <= until_ms]
        return all(term in self._sealed for term in within)

    def early_repeats(self) -> Iterable[tuple[Repeat, int]]:
        """Each repeat in a later term that came before the earlier lease had run by true time, with the ms by which it
        was early. None unless all clocks are right. Messages whose consumer asked for another end of the lease are left
        out."""
        if not self.bounds.clocks_right:
            return
        for repeat in self.repeats:
            before, after = repeat.before, repeat.after
            told = before.begun_wall_ms and after.begun_wall_ms and before.handed_over_ms
            asked = (before.number, before.term, before.attempt) in self._prolonged
            if repeat.cause not in ("after_lease", "failover") or not told or asked or after.term == before.term:
                continue
            runs_ms = before.leased_until_ms - before.handed_over_ms
            early_ms = before.begun_wall_ms + runs_ms - after.begun_wall_ms
            if early_ms > EARLY_MS + runs_ms // 1000:
                yield repeat, early_ms


def _changes(history: History) -> list[tuple[float, int]]:
    """(mono_ms, term) of the first sign of each term's leader, in the order of time."""
    first_ms: dict[int, float] = {}
    for event in history.events:
        if isinstance(event, Begun | Led | Promoted | Sure):
            first_ms[event.term] = min(event.mono_ms, first_ms.get(event.term, event.mono_ms))
    return sorted((at_ms, term) for term, at_ms in first_ms.items())


def _risen_ms(history: History) -> float:
    """The moment from which the cluster is known to stand at the newest level of this build."""
    applied = history.of(Applied)
    risen = (event.mono_ms for event in applied if event.version >= LEVELS[1])
    return next(risen, float("inf")) if applied else 0.0


def _sealed(history: History) -> set[int]:
    """Terms whose leader was given the leadership by the one before, with all of its work in the log.

    This is known only from inside nodes, and only once an entry has the newest version of the history. The level never
    goes back, though a later entry that needs no newer version has an older one. Two leaders do not count, because they
    were elected:

    - another node than the one that was asked for;
    - the node that was asked for, if it missed the request: it waited for an election.
    """
    elected = {event.term for event in history.of(Promoted) if not event.given}
    newest = max((event.version for event in history.of(Applied)), default=0)
    found: set[int] = set()
    risen = False
    for event in history.events:
        if isinstance(event, Applied):
            risen |= event.version == newest
        elif isinstance(event, Transferred) and risen:
            given = event.term_after == event.term_before + 1 and event.asked in ("", event.target)
            given &= event.term_after not in elected or event.took_ms < ELECTED_MS
            found |= {event.term_after} if given else set()
    return found
