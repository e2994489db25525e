"""Clients who count: the open messages of a topic, at any moment; and at the end the ledger's sums.

What they are told goes into the history; chaos/check/message/sums.py holds it against what can have been.
"""

from __future__ import annotations

from typing import Final

from api.port.ledger import LedgerQuery, LedgerSummary
from api.port.port import ANONYMOUS
from api.port.queries import CountQuery
from chaos.history.event import Counted, Summed
from chaos.history.history import History
from chaos.load.account import tells_all
from chaos.simulator.load.load import IDLE, PULL, PUSH, STRICT_PULL, STRICT_PUSH, Caller
from chaos.simulator.world.client import Outcome
from chaos.simulator.world.world import World

#: On average one in so many seconds.
EVERY_S: Final = 1.5
#: No message of these is given up.
TOPICS: Final = (PULL, PUSH, STRICT_PULL, STRICT_PUSH, IDLE)
EVER: Final = LedgerQuery(from_ms=0, to_ms=1 << 42)
SUM_S: Final = 20.0


class Tally:
    """One for a run in which clients ask."""

    def __init__(self, world: World, history: History) -> None:
        self.in_flight = 0
        self._world, self._history = world, history
        self._caller = Caller(world, "tally")
        self._over = False

    def begin(self) -> None:
        """Count now and then."""
        if not self._over:
            self._count(self._caller.chance.choice(TOPICS))
            self._world.after(self._caller.chance.expovariate(1 / EVERY_S), self.begin)

    def end(self) -> None:
        """The load ends."""
        self._over = True

    def _count(self, topic: str) -> None:
        asked_ms, _ = self._history.now()

        def done(outcome: Outcome) -> None:
            if outcome.kind == "ok":
                mono_ms, wall_ms = self._history.now()
                told = {"topic": topic, "asked_mono_ms": asked_ms, "count": outcome.value}
                self._history.record(Counted(mono_ms=mono_ms, wall_ms=wall_ms, **told))

        query = CountQuery(topic=topic)
        self._caller.call(self._caller.node(), lambda port: port.count(query, principal=ANONYMOUS), done, "count")

    def sum_up(self) -> None:
        """Ask the ledger for its sums; `in_flight` is 0 once it has told."""
        self.in_flight += 1
        asked_ms, _ = self._history.now()

        def done(outcome: Outcome) -> None:
            self.in_flight -= 1
            found: LedgerSummary | None = outcome.value
            if found is None:
                return
            counts, sight = found.counts, found.sight
            mono_ms, wall_ms = self._history.now()
            flags = [flag for flag, count in counts["flags"].items() if count]
            self._history.record(
                Summed(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    asked_mono_ms=asked_ms,
                    lost=counts["classes"]["lost"],
                    strict_failover=counts["strict_failover"],
                    hand_overs=counts["hand_overs"],
                    complete=tells_all(sight, flags),
                )
            )

        self._caller.insist(lambda port: port.ledger_summary(EVER), done, "sums", for_s=SUM_S, again=True)
