"""What clients do to a simulated cluster: they schedule, cancel, move, pull, ack, give back, extend, and crash.

The same honesty as on real processes (chaos/load/producer.py): what may have been done is sent again only under its
key, and what nobody knows is recorded as unknown. Everything is drawn from the seed, so a load is a part of its run.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from api.port.port import ANONYMOUS, MessageIn, Port, RetryPolicy, ScheduleResult, TopicChange
from api.port.problem import Problem
from chaos.history.event import Answered, Offered
from chaos.history.history import History
from chaos.simulator.world.client import Outcome
from chaos.simulator.world.world import World
from storage.format.schedule_status import CONFLICT, FAILED

#: Codes that say that nothing was done: whoever gets one may send again.
NOT_DONE: Final = ("no-leader", "draining", "over-limit", "disk-full")
AGAIN_S: Final = 0.1
RETRY_S: Final = 15.0
TIMEOUT_S: Final = 5.0
LEASE_MS: Final = 2_000
PUSH_TIMEOUT_MS: Final = 1_000
#: What a push lease lasts beyond the attempt's timeout.
PUSH_LEASE_MORE_MS: Final = 5_000
ATTEMPTS_DEAD: Final = 3
HOUR_MS: Final = 3_600_000
#: What clients ask for is round; so many messages are due at one moment, as they are outside.
ROUND_MS: Final = 1_000
#: A request comes so soon, on average 1 / SOON_PER_S seconds, after it is due by the pace.
SOON_PER_S: Final = 5.0

PULL, PUSH, POISON, DEAD = "pull", "push", "poison", "dead"
STRICT_PULL, STRICT_PUSH = "strict-pull", "strict-push"
#: Where clients ask: nobody pulls it before the load ends.
IDLE = "idle"


@dataclass(frozen=True)
class Shape:
    """How much of what; shares of messages but where it says otherwise."""

    messages_per_s: float = 10.5  # the pace is kept, so that every run has about as many
    messages_max: int = 14  # of a request: 1 to this
    burst_share: float = 0.02  # of the requests: this many times as many messages
    burst: int = 8
    scattered_share: float = 0.15  # due at any millisecond; the rest when a second is full
    topics: tuple[tuple[str, float], ...] = (
        (PULL, 0.45),
        (PUSH, 0.25),
        (POISON, 0.05),
        (STRICT_PULL, 0.13),
        (STRICT_PUSH, 0.12),
    )
    far_share: float = 0.04  # due hours or days ahead; moved near when the load ends
    keyed_share: float = 0.5  # of the requests
    cancel_share: float = 0.1
    move_share: float = 0.08
    around_ms: int = 50  # a cancel or move comes so near to the due time


#: Where clients ask: more messages that die, which are redriven many at a time; some that wait.
ASKED: Final = Shape(
    topics=((PULL, 0.36), (PUSH, 0.2), (POISON, 0.15), (STRICT_PULL, 0.12), (STRICT_PUSH, 0.13), (IDLE, 0.04)),
)


@dataclass(frozen=True)
class Offer:
    """One message; its number is its body."""

    number: int
    topic: str
    asked_due_ms: int
    keyed: bool
    far: bool

    def message(self) -> MessageIn:
        """The request; the same for every try, so that its fingerprint is."""
        body = str(self.number).encode()
        key = f"k{self.number}" if self.keyed else None
        mark = hashlib.blake2b(f"{self.topic} {self.number} {self.asked_due_ms}".encode(), digest_size=16).digest()
        return MessageIn(
            topic=self.topic,
            body=body,
            deliver_at_ms=self.asked_due_ms,
            key=key,
            fingerprint=mark if self.keyed else None,
        )


def topic_settings(world: World) -> dict[str, TopicChange]:
    """The topics of a load, by name, each as a PUT fills it in."""
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


def is_not_done(outcome: Outcome) -> bool:
    """Whether a call surely had no effect, though it may have later."""
    return outcome.kind == "refused" and (outcome.problem is None or outcome.problem.code in NOT_DONE)


def code_of(problem: Problem | None) -> str:
    """The code of a refusal; "" where there was none."""
    return "" if problem is None else problem.code


class Caller:
    """Clients of every node, and calls that are tried at one node after the other."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._clients = {node_id: world.client(node_id) for node_id in sorted(world.processes)}
        self.chance: random.Random = world.random(name)

    def node(self) -> str:
        """Any node."""
        return self.chance.choice(list(self._clients))

    def call(
        self,
        node_id: str,
        call: Callable[[Port], Any],
        done: Callable[[Outcome], None],
        label: str,
        *,
        pulls: bool = False,
        leader: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Once, at this node; what needs no `leader` it answers itself."""
        self._clients[node_id].call(call, done, label=label, pulls=pulls, leader=leader, timeout_s=timeout_s)

    def insist(
        self, call: Callable[[Port], Any], done: Callable[[Outcome], None], label: str, *, for_s: float, again: bool
    ) -> None:
        """At one node after the other until it is done or refused for good; what is unknown is asked again if `again`,
        and counts as unknown from then on unless it is done."""
        deadline_s = self._world.now_s + for_s
        doubtful = False

        def answered(outcome: Outcome) -> None:
            nonlocal doubtful
            doubtful |= outcome.kind == "unknown"
            more = is_not_done(outcome) or (outcome.kind == "unknown" and again)
            if more and self._world.now_s < deadline_s:
                self._world.after(AGAIN_S * (0.5 + self.chance.random()), ask)
            elif doubtful and outcome.kind == "refused":
                done(Outcome("unknown", None, outcome.problem))
            else:
                done(outcome)

        def ask() -> None:
            self.call(self.node(), call, answered, label)

        ask()


class Producer:
    """Offers messages while the load runs."""

    def __init__(self, world: World, history: History, shape: Shape, topics: Sequence[tuple[str, float]]) -> None:
        self.in_flight = 0
        self.far: dict[int, str] = {}  # ids of the messages that are due far ahead
        self._world, self._history, self._shape = world, history, shape
        self._topics = topics
        self._caller = Caller(world, "producer")
        self._chance = self._caller.chance
        self._number = 0
        self._begun_s = 0.0
        self._over = True

    def begin(self) -> None:
        """Offer from now on."""
        self._over = False
        self._begun_s = self._world.now_s
        self._next()

    def end(self) -> None:
        """Nothing new is offered."""
        self._over = True

    def _next(self) -> None:
        if self._over:
            return
        self._send(self._draw())
        pace_s = self._begun_s + self._number / self._shape.messages_per_s
        self._world.after(max(0.0, pace_s - self._world.now_s) + self._chance.expovariate(SOON_PER_S), self._next)

    def _draw(self) -> list[Offer]:
        shape, chance = self._shape, self._chance
        count = chance.randint(1, shape.messages_max)
        if chance.random() < shape.burst_share:
            count *= shape.burst
        keyed = chance.random() < shape.keyed_share
        mono_ms, wall_ms = self._history.now()
        offers = []
        for _ in range(count):
            names, weights = zip(*self._topics, strict=True)
            topic = chance.choices(names, weights)[0]
            far = chance.random() < shape.far_share
            due_ms = wall_ms + (self._far_ms() if far else self._near_ms())
            if chance.random() >= shape.scattered_share:
                due_ms -= due_ms % ROUND_MS
            offer = Offer(self._number, topic, due_ms, keyed, far)
            self._number += 1
            offers.append(offer)
            self._history.record(
                Offered(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    number=offer.number,
                    keyed=keyed,
                    asked_due_ms=due_ms,
                    strict=topic in (STRICT_PULL, STRICT_PUSH),
                    topic=topic,
                )
            )
        return offers

    def _near_ms(self) -> int:
        chance = self._chance
        low, high = chance.choices([(-500, 0), (1, 60), (60, 1_500), (1_500, 9_000)], [1, 3, 8, 3])[0]
        return chance.randint(low, high)

    def _far_ms(self) -> int:
        return self._chance.choice([1, 2, 3, 30, 24 * 30]) * HOUR_MS + self._chance.randint(0, HOUR_MS)

    def _send(self, offers: list[Offer]) -> None:
        _Request(self._world, self._history, self._caller, offers, self.in_flight_ended, self.far)
        self.in_flight += 1

    def in_flight_ended(self) -> None:
        """A request has all its outcomes."""
        self.in_flight -= 1


class _Request:
    """One request until the outcome of each of its messages is final."""

    def __init__(
        self,
        world: World,
        history: History,
        caller: Caller,
        offers: list[Offer],
        ended: Callable[[], None],
        far: dict[int, str],
    ) -> None:
        self._world, self._history, self._caller = world, history, caller
        self._left = offers
        self._ended = ended
        self._far = far
        self._doubtful: set[int] = set()
        self._deadline_s = world.now_s + RETRY_S
        self._leaps = world.leaps
        self._node = ""
        self._sent_ms = 0.0
        self._ask()

    def _ask(self) -> None:
        if self._world.leaps != self._leaps:  # all clocks were set, and a key is as old as they say: maybe forgotten
            for offer in self._left:
                self._record(offer, "unknown" if offer.number in self._doubtful else "refused", "", 0, "")
            self._ended()
            return
        messages = [offer.message() for offer in self._left]
        self._node = self._caller.node()
        self._sent_ms = self._history.now()[0]
        self._caller.call(self._node, lambda port: port.schedule(messages, ANONYMOUS), self._answered, "schedule")

    def _answered(self, outcome: Outcome) -> None:
        final = self._world.now_s >= self._deadline_s
        again: list[Offer] = []
        for row, offer in enumerate(self._left):
            kind, name, due_ms, detail = _of_row(outcome, row)
            if kind == "unknown":
                self._doubtful.add(offer.number)
            if not final and (kind == "not-done" or (kind == "unknown" and offer.keyed)):
                again.append(offer)
                continue
            if kind != "acknowledged" and offer.number in self._doubtful:
                kind = "unknown"
            if kind == "acknowledged" and offer.far:
                self._far[offer.number] = name
            self._record(offer, "refused" if kind == "not-done" else kind, name, due_ms, detail)
        self._left = again
        if again:
            self._world.after(AGAIN_S * (0.5 + self._caller.chance.random()), self._ask)
        else:
            self._ended()

    def _record(self, offer: Offer, kind: Any, name: str, due_ms: int, detail: str) -> None:
        mono_ms, wall_ms = self._history.now()
        self._history.record(
            Answered(
                mono_ms=mono_ms,
                wall_ms=wall_ms,
                number=offer.number,
                node=self._node,
                outcome=kind,
                sent_mono_ms=self._sent_ms,
                message_id=name,
                due_ms=due_ms,
                detail=detail,
            )
        )


Kind = Literal["acknowledged", "refused", "unknown", "not-done"]


def _of_row(outcome: Outcome, row: int) -> tuple[Kind, str, int, str]:
    """(kind, id, due, code) of one message of a request."""
    if outcome.kind != "ok":
        kind: Kind = "not-done" if is_not_done(outcome) else outcome.kind
        return kind, "", 0, code_of(outcome.problem)
    result: ScheduleResult = outcome.value
    if result.status[row] == FAILED:
        code = result.problems[row].code
        return ("not-done" if code in NOT_DONE else "unknown"), "", 0, code
    if result.status[row] == CONFLICT:
        return "refused", "", 0, "key-conflict"
    return "acknowledged", result.ids[row].decode(), int(result.due_ms[row]), ""
