"""The load of a simulated cluster: its topics, and messages that are drawn from the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from api.port.port import RetryPolicy, TopicChange
from chaos.client.client import Offer
from chaos.client.sender import Sender
from chaos.history.event import Answered, Event
from chaos.history.history import History
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.load.client import caller_of
from chaos.simulator.world.world import World

RETRY_S: Final = 15.0
LEASE_MS: Final = 2_000
PUSH_TIMEOUT_MS: Final = 1_000
#: The lease of a push is this much longer than the attempt's timeout.
PUSH_LEASE_MORE_MS: Final = 5_000
ATTEMPTS_DEAD: Final = 3
HOUR_MS: Final = 3_600_000
#: Clients ask for round times. So many messages are due at one moment, as in the real world.
ROUND_MS: Final = 1_000
#: A request is sent on average 1 / SOON_PER_S seconds after the moment that `messages_per_s` gives it.
SOON_PER_S: Final = 5.0

#: Most messages of a request under an `Idempotency-Key`. They are sent one by one.
ONCE_MAX: Final = 3

PULL, PUSH, POISON, DEAD = "pull", "push", "poison", "dead"
STRICT_PULL, STRICT_PUSH = "strict-pull", "strict-push"
STRICT: Final = (STRICT_PULL, STRICT_PUSH)
#: A topic of runs with an asker. No consumer pulls it before the load ends.
IDLE = "idle"


@dataclass(frozen=True)
class Shape:
    """The amounts of a load. Shares are of messages, unless a comment says otherwise."""

    messages_per_s: float = 10.5  # kept on average, so that all runs have about as many messages
    messages_max: int = 14  # of a request: 1 to this many
    burst_share: float = 0.02  # of the requests: they have `burst` times as many messages
    burst: int = 8
    scattered_share: float = 0.15  # due at any millisecond, the others at a full second
    topics: tuple[tuple[str, float], ...] = (
        (PULL, 0.45),
        (PUSH, 0.25),
        (POISON, 0.05),
        (STRICT_PULL, 0.13),
        (STRICT_PUSH, 0.12),
    )
    far_share: float = 0.04  # due hours or days ahead, moved near when the load ends
    keyed_share: float = 0.5  # of the requests
    once_share: float = 0.0  # of the others: under an `Idempotency-Key`
    cancel_share: float = 0.1
    move_share: float = 0.08
    many_every_s: float = 3.0  # a cancel of many, on average
    moves_every_s: float = 3.0  # a shift or a release of many, on average


#: The load of runs with an asker. More messages die, and are redriven many at a time. Some wait in IDLE.
ASKED: Final = Shape(
    topics=((PULL, 0.36), (PUSH, 0.2), (POISON, 0.15), (STRICT_PULL, 0.12), (STRICT_PUSH, 0.13), (IDLE, 0.04)),
    once_share=0.5,
)


def shape_of(plan: FaultPlan) -> Shape:
    """The load of a plan. Older builds know no `Idempotency-Key`."""
    shape = ASKED if plan.skew else Shape()
    return replace(shape, once_share=0.0) if plan.older else shape


def topic_settings(world: World) -> dict[str, TopicChange]:
    """The topics of a load by name, each with its settings as in a PUT."""
    retry = RetryPolicy(max_attempts=1_000, min_backoff_ms=200, max_backoff_ms=1_000, max_age_ms=0)
    few = RetryPolicy(max_attempts=ATTEMPTS_DEAD, min_backoff_ms=100, max_backoff_ms=400, max_age_ms=0)

    def topic(
        mode: str, retry: RetryPolicy, receiver: str = "", dead: str | None = None, way: str = "fast"
    ) -> TopicChange:
        target = {"url": world.receivers.url(receiver), "timeout_ms": PUSH_TIMEOUT_MS} if receiver else None
        policy = {name: getattr(retry, name) for name in RetryPolicy.__struct_fields__}
        return TopicChange(
            mode=mode, lease_ms=LEASE_MS, handover=way, paused=False, target=target, retry=policy, dead_letter=dead
        )

    return {
        PULL: topic("pull", retry),
        DEAD: topic("pull", retry),
        PUSH: topic("push", retry, "mixed"),
        POISON: topic("push", few, "poison", DEAD),
        IDLE: topic("pull", retry),
        STRICT_PULL: topic("pull", retry, way="strict"),
        STRICT_PUSH: topic("push", retry, "strict", way="strict"),
    }


class Producer:
    """Draws messages and schedules them while the load runs. `in_flight` counts the requests without a final
    outcome."""

    def __init__(self, world: World, history: History, shape: Shape, topics: Sequence[tuple[str, float]]) -> None:
        self.in_flight = 0
        self.far: dict[int, str] = {}  # ids of the messages that are due far ahead
        self._world, self._history, self._shape = world, history, shape
        self._topics = topics
        caller = caller_of(world, "producer")
        self._runner, self._chance = caller.runner, caller.chance
        self._once = world.random("once")
        self._sender = Sender(caller, history, RETRY_S, lambda: world.leaps)
        self._number = 0
        self._far: set[int] = set()
        self._begun_s = 0.0
        self._over = True
        history.listen(self._see)

    def begin(self) -> None:
        """Start to offer messages."""
        self._over = False
        self._begun_s = self._world.now_s
        self._next()

    def end(self) -> None:
        """Offer no more messages."""
        self._over = True

    def _see(self, event: Event) -> None:
        if isinstance(event, Answered) and event.outcome == "acknowledged" and event.number in self._far:
            self.far[event.number] = event.message_id

    def _next(self) -> None:
        if self._over:
            return
        self.offer(self._draw())
        pace_s = self._begun_s + self._number / self._shape.messages_per_s
        self._world.after(max(0.0, pace_s - self._world.now_s) + self._chance.expovariate(SOON_PER_S), self._next)

    def _draw(self) -> list[Offer]:
        shape, chance = self._shape, self._chance
        count = chance.randint(1, shape.messages_max)
        if chance.random() < shape.burst_share:
            count *= shape.burst
        keyed = chance.random() < shape.keyed_share
        once = not keyed and self._once.random() < shape.once_share
        if once:
            count = min(count, ONCE_MAX)
        now_ms = self._history.now()[1]
        offers = []
        for _ in range(count):
            names, weights = zip(*self._topics, strict=True)
            topic = chance.choices(names, weights)[0]
            far = chance.random() < shape.far_share
            due_ms = now_ms + (self._far_ms() if far else self._near_ms())
            if chance.random() >= shape.scattered_share:
                due_ms -= due_ms % ROUND_MS
            if far:
                self._far.add(self._number)
            offers.append(Offer(self._number, topic, due_ms, keyed, once))
            self._number += 1
        return offers

    def _near_ms(self) -> int:
        chance = self._chance
        low, high = chance.choices([(-500, 0), (1, 60), (60, 1_500), (1_500, 9_000)], [1, 3, 8, 3])[0]
        return chance.randint(low, high)

    def _far_ms(self) -> int:
        return self._chance.choice([1, 2, 3, 30, 24 * 30]) * HOUR_MS + self._chance.randint(0, HOUR_MS)

    def offer(self, offers: Sequence[Offer]) -> None:
        """Send one request with these offers."""
        self._sender.offer(offers, STRICT)
        self._runner.start(self._send(offers))

    async def _send(self, offers: Sequence[Offer]) -> None:
        self.in_flight += 1
        await self._sender.send(offers)
        self.in_flight -= 1
