"""A client that schedules atomic batches: all lines, or none.

Each line has a key, so a batch of unknown outcome is sent again until its outcome is known. Then its answer says of
each line whether this request wrote it or an earlier one did. Some batches have a line with the key of another message.
Those are refused. The messages have numbers of their own. Other clients and the checkers deal with them as with any.
`BatchAnswered` has each final answer, for chaos/check/message/whole_batches.py.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from msgspec.structs import replace

from api.port.port import ANONYMOUS, MessageIn
from chaos.client.client import Offer
from chaos.client.repeated import Repeated
from chaos.history.event import Answered, BatchAnswered, Offered
from chaos.history.history import History
from chaos.simulator.load.client import caller_of, request_of
from chaos.simulator.load.load import PULL, PUSH, STRICT_PULL
from chaos.simulator.world.world import World
from storage.format.schedule_status import CONFLICT, FAILED, REPLAYED

#: The numbers of these messages begin here.
FIRST_NUMBER: Final = 1 << 21
EVERY_S: Final = 0.5
LINES: Final = (2, 6)
TOPICS: Final = (PULL, PUSH, STRICT_PULL)
#: A message is due so soon (ms).
SOON_MS: Final = (1, 3_000)
#: So many of the batches have a line with the key of an older message.
CONFLICT_SHARE: Final = 0.2
#: A batch of unknown outcome is sent again for so long, less than a key lasts.
RETRY_S: Final = 12.0


class WholeBatches(Repeated):
    """Schedules atomic batches while the load runs. `in_flight` counts those without a final outcome."""

    def __init__(self, world: World, history: History) -> None:
        self._caller = caller_of(world, "whole batches")
        super().__init__(self._caller, EVERY_S)
        self.in_flight = 0
        self._world, self._history = world, history
        self._number = FIRST_NUMBER
        self._taken: MessageIn | None = None  # a message that has its key

    async def _once(self) -> None:
        chance, now_ms = self._chance, self._history.now()[1]
        offers = []
        for _ in range(chance.randint(*LINES)):
            offers.append(Offer(self._number, chance.choice(TOPICS), now_ms + chance.randint(*SOON_MS), keyed=True))
            self._number += 1
        messages = [request_of(offer) for offer in offers]
        if chance.random() < CONFLICT_SHARE and self._taken is not None:
            mark = hashlib.blake2b(messages[-1].body, digest_size=16).digest()
            other = replace(messages[-1], topic=self._taken.topic, key=self._taken.key, fingerprint=mark)
            messages[-1], offers[-1] = other, Offer(offers[-1].number, other.topic, offers[-1].asked_due_ms, keyed=True)
        for offer in offers:  # told as one without a key, or other clients would send it again with its own
            self._history.record(
                Offered(
                    **self._history.stamp(), number=offer.number, keyed=False, asked_due_ms=offer.asked_due_ms,
                    strict=offer.topic == STRICT_PULL, topic=offer.topic,
                )
            )  # fmt: skip
        self._runner.start(self._send(offers, messages))
        self._next()

    async def _send(self, offers: list[Offer], messages: list[MessageIn]) -> None:
        self.in_flight += 1
        runner, history, leaps = self._runner, self._history, self._world.leaps
        deadline_s, doubtful = runner.now_s() + RETRY_S, False
        while True:
            client, sent_ms = self._caller.any(), history.now()[0]
            outcome = await client.call(lambda port: port.schedule_all(messages, ANONYMOUS), "atomic")
            doubtful = doubtful or outcome.kind == "unknown"
            if not outcome.may_go_again(True) or runner.now_s() >= deadline_s or self._world.leaps != leaps:
                break
            await self._caller.pause()
        self.in_flight -= 1
        result = outcome.value
        status = [] if result is None else result.status.tolist()
        written = bool(status) and not {FAILED, CONFLICT} & set(status)
        if written:
            self._taken = messages[0]
        kind = "acknowledged" if written else outcome.after(doubtful).kind if result is None else "refused"
        replayed = tuple(each == REPLAYED for each in status) if written else ()
        numbers = tuple(offer.number for offer in offers)
        history.record(BatchAnswered(**history.stamp(), numbers=numbers, outcome=kind, replayed=replayed))
        for row, number in enumerate(numbers):
            told: dict[str, Any] = {"number": number, "node": client.node, "sent_mono_ms": sent_ms, "outcome": kind}
            if written and result is not None:
                told |= {"message_id": result.ids[row].decode(), "due_ms": int(result.due_ms[row])}
            history.record(Answered(**history.stamp(), **told))
