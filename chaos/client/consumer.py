"""A consumer of the load: it makes long polls at one node, and draws for each message what it does with it, its fate.

It acks most messages soon. These acks are collected and sent together at the next beat, a moment that comes every
`beat_s`. It acks some messages late or twice, nacks some, extends the lease of some, and forgets some, as if it had
crashed. Real consumers do all of this, and the contract has a promise for each. A message that is nacked or forgotten
comes again. A late ack is refused or does no harm.

A consumer always stays with its node, because the promises about terms need polls at a leader that is paused or killed.
An ack without an answer is sent again to any node, as the contract allows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from api.port.port import Delivery
from chaos.client.caller import Caller
from chaos.client.client import Client
from chaos.client.outcome import Outcome
from chaos.history.event import Acked, DeadLettered, Event, Extended, HandedOver, Nacked, Pulled
from chaos.history.history import History

Fate = Literal["ack", "give back", "extend", "late", "twice", "forget"]
Fates = tuple[tuple[Fate, float], ...]
Answer = Awaitable[Outcome[Sequence[str]]]

#: The acks of this share of responses do not wait for a beat: they are sent within 0.2 s.
ALONE_SHARE: Final = 0.1
#: A nack or an extension that was not carried out is repeated for this long.
ONCE_S: Final = 3.0
#: The delay of a nack of all messages of one response. That nack is sent once and not repeated.
ALL_BACK_MS: Final = 700
#: Nacks and double acks are sent at most this long after the delivery.
SOON_S: Final = 0.3


@dataclass(frozen=True)
class ConsumerBehaviour:
    """How a consumer treats its messages. `fates` has each fate with its weight in the draw. A pair of floats is the
    least value, and the most that chance adds to it."""

    fates: Fates
    lease_ms: int  # of the topic
    pulled: tuple[int, ...]  # `max` of a pull: chance takes one of these
    nack_delays_ms: tuple[int | None, ...]  # chance takes one of these
    beat_s: float  # the time between two beats
    wait_ms: int
    rest_s: tuple[float, float] = (0.0, 0.0)  # between two polls
    refused_s: float = 0.25  # after a refused poll, times 0.5 to 1.5
    late: tuple[float, float] = (1.0, 0.2)  # a late ack is sent this many leases after the delivery
    extend_ms: int = 3_000
    ack_s: float = 12.0  # an ack without an answer is repeated for this long
    all_back_share: float = 0.0  # share of responses that are given back as a whole


def no_begin(_: Delivery) -> int:
    """The default of `begun_ms`: 0, because no observer sees the hand-overs of real nodes."""
    return 0


class Consumer:
    """Polls one topic at the node of `client`. Its acks, nacks and extensions go to any member, by `caller`. `begun_ms`
    returns the moment of a hand-over by the simulator's own clock, 0 if that is not known. `letters` is True for a
    topic of dead letters: the consumer acks them all."""

    def __init__(
        self,
        client: Client,
        caller: Caller[Client],
        history: History,
        topic: str,
        behaviour: ConsumerBehaviour,
        name: str,
        *,
        begun_ms: Callable[[Delivery], int] = no_begin,
        letters: bool = False,
    ) -> None:
        self.calm = False  # True: it acks everything at once, without other fates
        self.acks = 0  # ack requests that have no answer yet
        self._client, self._caller, self._history, self._topic = client, caller, history, topic
        self._behaviour, self._name, self._begun_ms, self._letters = behaviour, name, begun_ms, letters
        self._runner, self._chance = caller.runner, caller.chance
        self._responses = 0
        self._together: dict[str, list[Delivery]] = {}  # fate: messages to ack at the next beat
        self._alone = 0  # acks that go alone, a moment later

    async def answered(self) -> None:
        """Return when no ack is without an answer, and none waits to be sent."""
        while self.acks or self._together or self._alone:
            await self._runner.sleep(self._behaviour.beat_s)

    async def run(self) -> None:
        """Poll for ever. While the node is no member, wait."""
        behaviour, chance = self._behaviour, self._chance
        while True:
            if not self._caller.is_member(self._client.node):
                await self._runner.sleep(behaviour.refused_s)
                continue
            asked_ms = self._history.now()[0]
            outcome = await self._client.pull(self._topic, chance.choice(behaviour.pulled), behaviour.wait_ms)
            if outcome.value is None:
                self._brought_nothing(outcome, asked_ms)
                await self._runner.sleep(behaviour.refused_s * (0.5 + chance.random()))
                continue
            self._receive(outcome.value)
            low_s, more_s = behaviour.rest_s
            await self._runner.sleep(low_s + more_s * chance.random())

    def _brought_nothing(self, outcome: Outcome[Any], asked_ms: float) -> None:
        self._history.record(
            Pulled(
                **self._history.stamp(),
                topic=self._topic,
                node=self._client.node,
                asked_mono_ms=asked_ms,
                outcome="unknown" if outcome.kind == "unknown" else "refused",
                detail=outcome.code,
            )
        )

    def _receive(self, deliveries: Sequence[Delivery]) -> None:
        behaviour, chance = self._behaviour, self._chance
        stamp = self._history.stamp()
        self._responses += 1
        fates: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            if self._letters:
                self._history.record(_letter(delivery, stamp))
                fates.setdefault("ack letter", []).append(delivery)
                continue
            self._history.record(self._handed_over(delivery, stamp))
            fate = "ack" if self.calm else chance.choices(*zip(*behaviour.fates, strict=True))[0]
            fates.setdefault(fate, []).append(delivery)
        odd = behaviour.all_back_share and not self.calm and not self._letters
        if odd and chance.random() < behaviour.all_back_share:
            fates = {"give all back": list(deliveries)}
        for fate, several in sorted(fates.items()):
            self._meet(fate, several)

    def _handed_over(self, delivery: Delivery, stamp: dict[str, Any]) -> HandedOver:
        return HandedOver(
            **stamp,
            number=int(delivery.body),
            message_id=delivery.id,
            term=delivery.term,
            attempt=delivery.attempt,
            due_ms=delivery.due_ms,
            asked_due_ms=delivery.asked_due_ms,
            handed_over_ms=delivery.handed_over_ms,
            leased_until_ms=delivery.leased_until_ms,
            node=self._client.node,
            connection=self._name,
            response=self._responses,
            begun_wall_ms=self._begun_ms(delivery),
        )

    # -- the fates

    def _meet(self, fate: str, deliveries: list[Delivery]) -> None:
        behaviour, chance, after = self._behaviour, self._chance, self._runner.after
        lease_s = behaviour.lease_ms / 1000
        match fate:
            case "ack" | "ack letter" if chance.random() < ALONE_SHARE:
                self._alone += 1
                after(0.2 * chance.random() ** 2, self._ack_alone, deliveries, fate == "ack")
            case "ack" | "ack letter":
                self._ack_together(fate, deliveries)
            case "late":
                low, more = behaviour.late
                after(lease_s * (low + more * chance.random()), self._ack, deliveries)
            case "twice":
                for _ in range(2):
                    after(SOON_S * chance.random(), self._ack, deliveries)
            case "give all back":
                after(SOON_S * chance.random(), self._give_back, deliveries, ALL_BACK_MS, 0.0)
            case "give back":
                after(SOON_S * chance.random(), self._give_back, deliveries, chance.choice(behaviour.nack_delays_ms))
            case "extend":
                after(lease_s * chance.random(), self._extend, deliveries)
                after((behaviour.lease_ms + behaviour.extend_ms) / 1000 * chance.random(), self._ack, deliveries)

    def _ack_together(self, fate: str, deliveries: list[Delivery]) -> None:
        together = self._together.setdefault(fate, [])
        if not together:
            beat_s = self._behaviour.beat_s
            self._runner.after(beat_s - self._runner.now_s() % beat_s, self._beat, fate)
        together += deliveries

    async def _beat(self, fate: str) -> None:
        await self._ack(self._together.pop(fate), fate == "ack")

    async def _ack_alone(self, deliveries: list[Delivery], told: bool) -> None:
        self._alone -= 1
        await self._ack(deliveries, told)

    async def _ack(self, deliveries: list[Delivery], told: bool = True) -> None:
        self.acks += 1
        kind, for_s, topic = Acked if told else None, self._behaviour.ack_s, self._topic
        await self._ask(kind, deliveries, lambda client, receipts: client.ack(topic, receipts), for_s, again=True)
        self.acks -= 1

    async def _give_back(self, deliveries: list[Delivery], delay_ms: int | None, for_s: float = ONCE_S) -> None:
        topic = self._topic
        await self._ask(Nacked, deliveries, lambda client, receipts: client.nack(topic, receipts, delay_ms), for_s)

    async def _extend(self, deliveries: list[Delivery]) -> None:
        topic, ms = self._topic, self._behaviour.extend_ms
        await self._ask(
            Extended, deliveries, lambda client, receipts: client.extend(topic, receipts, ms), ONCE_S, lease_ms=ms
        )

    async def _ask(
        self,
        kind: Callable[..., Event] | None,
        deliveries: list[Delivery],
        ask: Callable[[Client, list[str]], Answer],
        for_s: float,
        again: bool = False,
        **more: int,
    ) -> None:
        """Send the receipts to a member with the call `ask`, and repeat it as `Caller.insist` does. Record the result
        of each message as an event of this `kind`; None records nothing."""
        asked_ms, receipts = self._history.now()[1], [delivery.receipt for delivery in deliveries]
        outcome = await self._caller.insist(lambda client: ask(client, receipts), for_s=for_s, again=again)
        if kind is None:
            return
        stamp = self._history.stamp()
        results = [outcome.kind] * len(deliveries) if outcome.value is None else outcome.value
        for delivery, result in zip(deliveries, results, strict=True):
            self._history.record(
                kind(
                    **stamp,
                    number=int(delivery.body),
                    message_id=delivery.id,
                    term=delivery.term,
                    attempt=delivery.attempt,
                    result=result,
                    asked_wall_ms=asked_ms,
                    **more,
                )
            )


def _letter(delivery: Delivery, stamp: dict[str, Any]) -> DeadLettered:
    assert delivery.dead is not None, "a dead letter that does not say of what"
    return DeadLettered(
        **stamp,
        number=int(delivery.body),
        message_id=delivery.dead["id"],
        letter_id=delivery.id,
        reason=str(delivery.dead["reason"]),
    )
