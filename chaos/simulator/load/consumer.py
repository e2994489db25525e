"""Simulated consumers: long polls at every node; what becomes of each message is drawn.

Most are acked soon, together with what else came within a beat. Some are acked late, or twice, given back, kept longer,
or forgotten, as if their consumer had crashed: those come again when their lease ends. When the load is over consumers
are well behaved, so that all ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from api.port.port import ANONYMOUS, Delivery, PullIn
from chaos.history.event import Acked, DeadLettered, Event, Extended, GaveBack, HandedOver, Pulled
from chaos.history.history import History
from chaos.simulator.load.load import DEAD, LEASE_MS, Caller, code_of
from chaos.simulator.load.probe import Probe
from chaos.simulator.world.client import Outcome
from chaos.simulator.world.world import World

WAIT_MS: Final = 3_000
#: After a poll that was refused.
AFTER_S: Final = 0.25
#: Acks go together once in so many seconds; of so many responses one is acked by itself, at any moment.
BEAT_S: Final = 0.5
ALONE_SHARE: Final = 0.1
MAX: Final = 50
ACK_S: Final = 12.0
EXTEND_MS: Final = 3_000
#: A nack or an extension that was not carried out is asked for again for so long.
ONCE_S: Final = 3.0
#: So many responses are given back as a whole; that is asked once.
ALL_BACK_SHARE: Final = 0.08
GIVE_BACK_ONCE_S: Final = 0.0
#: What is done with a message, and how often: the rest is forgotten.
ASKED_FATES: Final = (
    ("ack", 0.6),
    ("give back", 0.1),
    ("extend", 0.15),
    ("late", 0.05),
    ("twice", 0.05),
    ("forget", 0.05),
)
FATES: Final = (("ack", 0.8), ("give back", 0.05), ("extend", 0.04), ("late", 0.03), ("twice", 0.03), ("forget", 0.05))


class Consumer:
    """Polls one topic at one node. `asks`: some responses are given back as a whole, asked once."""

    def __init__(
        self, world: World, history: History, probe: Probe, node_id: str, topic: str, asks: bool = False
    ) -> None:
        self.calm = False
        self._asks, self._fates = asks, ASKED_FATES if asks else FATES
        self._asked_ms = 0.0
        self.acks = 0  # under way
        self._world, self._history, self._probe = world, history, probe
        self._node, self._topic = node_id, topic
        self._caller = Caller(world, f"consumer {node_id} {topic}")
        self._chance = self._caller.chance
        self._responses = 0
        self._together: dict[str, list[Delivery]] = {}  # fate: what is acked at the next beat

    def begin(self) -> None:
        """Poll for ever."""
        self._asked_ms = self._history.now()[0]
        most = self._chance.choice([1, 5, MAX, MAX])
        request = PullIn(self._topic, max=most, wait_ms=WAIT_MS, lease_ms=None)
        self._caller.call(
            self._node,
            lambda port: port.pull(request, ANONYMOUS),
            self._answered,
            f"pull {self._topic}",
            pulls=True,
            timeout_s=WAIT_MS / 1000 + 3,
        )

    def _answered(self, outcome: Outcome) -> None:
        if outcome.kind != "ok":
            self._brought_nothing(outcome)
            self._world.after(AFTER_S * (0.5 + self._chance.random()), self.begin)
            return
        self._receive(outcome.value)
        self._world.after(0.001 + 0.02 * self._chance.random(), self.begin)

    def _brought_nothing(self, outcome: Outcome) -> None:
        mono_ms, wall_ms = self._history.now()
        self._history.record(
            Pulled(
                mono_ms=mono_ms,
                wall_ms=wall_ms,
                topic=self._topic,
                node=self._node,
                asked_mono_ms=self._asked_ms,
                outcome="unknown" if outcome.kind == "unknown" else "refused",
                detail=code_of(outcome.problem),
            )
        )

    def _receive(self, deliveries: Sequence[Delivery]) -> None:
        mono_ms, wall_ms = self._history.now()
        self._responses += 1
        fates: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            number = int(delivery.body)
            if self._topic == DEAD:
                assert delivery.dead is not None, "a dead letter that does not say of what"
                letter = DeadLettered(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    number=number,
                    message_id=delivery.dead["id"],
                    letter_id=delivery.id,
                    reason=str(delivery.dead["reason"]),
                )
                self._history.record(letter)
                fates.setdefault("ack letter", []).append(delivery)
                continue
            begun = self._probe.begun.get((delivery.id, delivery.term, delivery.attempt))
            self._history.record(
                HandedOver(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    number=number,
                    message_id=delivery.id,
                    term=delivery.term,
                    attempt=delivery.attempt,
                    due_ms=delivery.due_ms,
                    asked_due_ms=delivery.asked_due_ms,
                    handed_over_ms=delivery.handed_over_ms,
                    leased_until_ms=delivery.leased_until_ms,
                    node=self._node,
                    connection=f"{self._node}/{self._topic}",
                    response=self._responses,
                    begun_wall_ms=begun.wall_ms if begun else 0,
                )
            )
            fate = "ack" if self.calm else self._chance.choices(*zip(*self._fates, strict=True))[0]
            fates.setdefault(fate, []).append(delivery)
        if self._asks and not self.calm and self._topic != DEAD and self._chance.random() < ALL_BACK_SHARE:
            fates = {"give all back": list(deliveries)}
        for fate, several in sorted(fates.items()):
            self._meet(fate, several)

    def _meet(self, fate: str, deliveries: list[Delivery]) -> None:
        world, chance = self._world, self._chance
        match fate:
            case "ack" | "ack letter" if chance.random() < ALONE_SHARE:
                world.after(0.2 * chance.random() ** 2, self._ack, deliveries, fate == "ack")
            case "ack" | "ack letter":
                self._ack_together(fate, deliveries)
            case "late":
                world.after(LEASE_MS / 1000 * (0.9 + 0.2 * chance.random()), self._ack, deliveries, True)
            case "twice":
                for _ in range(2):
                    world.after(0.3 * chance.random(), self._ack, deliveries, True)
            case "give all back":
                world.after(0.3 * chance.random(), self._give_back, deliveries, 700, GIVE_BACK_ONCE_S)
            case "give back":
                world.after(0.3 * chance.random(), self._give_back, deliveries, chance.choice([None, 0, 700]))
            case "extend":
                world.after(LEASE_MS / 1000 * chance.random(), self._extend, deliveries)
                world.after((LEASE_MS + EXTEND_MS) / 1000 * chance.random(), self._ack, deliveries, True)

    def _ack_together(self, fate: str, deliveries: list[Delivery]) -> None:
        together = self._together.setdefault(fate, [])
        if not together:
            self._world.after(BEAT_S - self._world.now_s % BEAT_S, self._beat, fate)
        together += deliveries

    def _beat(self, fate: str) -> None:
        self._ack(self._together.pop(fate), fate == "ack")

    def _ack(self, deliveries: list[Delivery], told: bool) -> None:
        self.acks += 1
        asked_ms = self._history.now()[1]
        receipts = [delivery.receipt for delivery in deliveries]

        def done(outcome: Outcome) -> None:
            self.acks -= 1
            if told:
                self._record(Acked, deliveries, outcome, asked_ms)

        topic = self._topic
        self._caller.insist(lambda port: port.ack(topic, receipts, ANONYMOUS), done, "ack", for_s=ACK_S, again=True)

    def _give_back(self, deliveries: list[Delivery], delay_ms: int | None, for_s: float = ONCE_S) -> None:
        asked_ms = self._history.now()[1]
        receipts = [delivery.receipt for delivery in deliveries]

        def done(outcome: Outcome) -> None:
            self._record(GaveBack, deliveries, outcome, asked_ms)

        topic = self._topic
        self._once(lambda port: port.nack(topic, receipts, delay_ms=delay_ms, principal=ANONYMOUS), done, "nack", for_s)

    def _extend(self, deliveries: list[Delivery]) -> None:
        asked_ms = self._history.now()[1]
        receipts = [delivery.receipt for delivery in deliveries]

        def done(outcome: Outcome) -> None:
            self._record(Extended, deliveries, outcome, asked_ms, lease_ms=EXTEND_MS)

        topic = self._topic
        self._once(lambda port: port.extend(topic, receipts, lease_ms=EXTEND_MS, principal=ANONYMOUS), done, "extend")

    def _record(
        self, kind: Callable[..., Event], deliveries: Sequence[Delivery], outcome: Outcome, asked_ms: int, **more: int
    ) -> None:
        """What each of these messages was answered."""
        mono_ms, wall_ms = self._history.now()
        for delivery, result in _rows(deliveries, outcome):
            self._history.record(
                kind(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    number=int(delivery.body),
                    message_id=delivery.id,
                    term=delivery.term,
                    attempt=delivery.attempt,
                    result=result,
                    asked_wall_ms=asked_ms,
                    **more,
                )
            )

    def _once(
        self, call: Callable[..., object], done: Callable[[Outcome], None], label: str, for_s: float = ONCE_S
    ) -> None:
        self._caller.insist(call, done, label, for_s=for_s, again=False)


def _rows(deliveries: Sequence[Delivery], outcome: Outcome) -> list[tuple[Delivery, str]]:
    """Each message with what its answer said."""
    results = outcome.value if outcome.kind == "ok" else [outcome.kind] * len(deliveries)
    return list(zip(deliveries, results, strict=True))
