"""The pushed half of the demo: a producer, a real receiver process, and a judge that reads the receiver's own log.

From the cluster the judge takes only the ids and due times of messages that were answered 201. The receiver's log says
which messages came, when and how often.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.client.receivers import Received, Receivers, firsts, repeats
from chaos.history.event import Answered, Event
from chaos.history.history import History
from chaos.history.verdict import percentiles
from chaos.load.producer import Producer
from chaos.load.workload import configure
from chaos.plan.load_plan import Plan
from cli.local.local_nodes import LocalNode

LOOK_S = 0.05
#: Short, because the demo waits for the pushes that were on the wire when the leader died. They come again when their
#: lease ends: timeout plus 5 s.
TARGET_TIMEOUT_S = 2.0
LEASE_S = TARGET_TIMEOUT_S + 5.0


@dataclass(frozen=True)
class Part:
    """The figures of the pulled or of the pushed half.

    - `replaced`: messages that a newer one with their key replaced before they were due. They are not delivered.
    - `duplicates`: messages that came again because the leader changed. Their first deliveries span
      `duplicate_span_ms`.
    - `after_lease`: messages that came again because the answer to their first delivery was lost with the leader.
    - `failover_gap_ms`: from kill -9 to the next delivery. None if no delivery came after it.
    """

    scheduled: int
    delivered: int
    replaced: int
    lost: int
    early: int
    duplicates: int
    duplicate_span_ms: float
    after_lease: int
    lateness_ms: dict[str, float]
    failover_gap_ms: float | None


def judge(acknowledged: dict[str, int], received: Sequence[Received], killed_ms: float | None) -> Part:
    """Judge the pushed half. `acknowledged` is id -> due_ms. A delivery is early if it came before that due time, or
    before the one in the request."""
    first = firsts(received)
    early = 0
    for one in received:
        due_ms = acknowledged.get(one.id or "", 0)
        early += one.received_ms < due_ms or one.late_ms < 0
    again = repeats(received, LEASE_S)
    gap_ms = None
    if killed_ms is not None:
        terms = [one.term or 0 for one in received if one.received_ms <= killed_ms]
        highest = max(terms, default=0)
        after = (one.received_ms - killed_ms for one in received if (one.term or 0) > highest)
        gap_ms = next((round(ms, 1) for ms in after), None)
    lateness = percentiles([one.late_ms for one in first.values()])
    return Part(
        scheduled=len(acknowledged),
        delivered=len(acknowledged.keys() & first.keys()),
        replaced=0,
        lost=len(acknowledged.keys() - first.keys()),
        early=early,
        duplicates=again.count,
        duplicate_span_ms=again.span_ms,
        after_lease=again.after_lease,
        lateness_ms={name: lateness[name] for name in ("p50", "p99") if name in lateness},
        failover_gap_ms=gap_ms,
    )


class Pushed:
    """A run of `plan` whose topic is pushed to `receivers`. `acknowledged` is id -> due_ms."""

    def __init__(self, nodes: Sequence[LocalNode], plan: Plan, receivers: Receivers) -> None:
        self._nodes, self._plan, self.receivers = list(nodes), plan, receivers
        self._history = History()
        self._history.listen(self._see)
        self._seen: set[str] = set()
        self._looked = 0
        self.acknowledged: dict[str, int] = {}

    def _see(self, event: Event) -> None:
        if isinstance(event, Answered) and event.outcome == "acknowledged":
            self.acknowledged[event.message_id] = event.due_ms

    @property
    def received_count(self) -> int:
        """Different messages in the receiver's log, as of the last read."""
        return len(self._seen)

    async def run(self) -> bool:
        """Offer everything. True when all acknowledged messages are in the log, False when `drain_s` went by first."""
        target = {"url": f"{self.receivers.urls[0]}/demo", "timeout": int(TARGET_TIMEOUT_S * 1000)}
        settings = {"mode": "push", "target": target}
        await configure(self._nodes, self._plan.topic, settings, self._plan.request_s)
        looking = asyncio.create_task(self._look())
        try:
            await Producer(self._nodes, self._plan, self._history).run()
            end_s = time.monotonic() + self._plan.drain_s
            while not self.acknowledged.keys() <= self._seen:
                if time.monotonic() > end_s:
                    return False
                await asyncio.sleep(LOOK_S)
            return True
        finally:
            looking.cancel()

    async def settled(self, killed_s: float) -> None:
        """Wait until the pushes on the wire at `killed_s` (time.monotonic) have come again. Their leader died then."""
        await asyncio.sleep(max(0.0, killed_s + LEASE_S + 1.0 - time.monotonic()))
        self.receivers.poll()

    async def _look(self) -> None:
        """Read the log as it grows, until cancelled."""
        while True:
            self.receivers.poll()
            new = self.receivers.received[self._looked :]
            self._looked += len(new)
            self._seen.update(one.id for one in new if one.id is not None)
            await asyncio.sleep(LOOK_S)
