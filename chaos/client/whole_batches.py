"""A client that schedules atomic batches: all lines, or none.

Each line has a key, so a batch of unknown outcome is sent again until its outcome is known. Then its answer says of
each line whether this request wrote it or an earlier one did. Some batches have a line with the key of another message.
Those are refused. The messages have numbers of their own. Other clients and the checkers deal with them as with any.
`BatchAnswered` has each final answer, for chaos/check/message/whole_batches.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from chaos.client.caller import Caller
from chaos.client.client import Client, Offer
from chaos.client.repeated import Repeated
from chaos.history.event import Answered, BatchAnswered, Offered, RequestAnswered
from chaos.history.history import History

#: The numbers of these messages begin here.
FIRST_NUMBER: Final = 1 << 25
EVERY_S: Final = 0.5
LINES: Final = (2, 6)
#: A message is due so soon (ms).
SOON_MS: Final = (1, 3_000)
#: So many of the batches have a line with the key of an older message.
CONFLICT_SHARE: Final = 0.2
#: A batch of unknown outcome is sent again for so long, less than a key lasts.
RETRY_S: Final = 12.0


class WholeBatches(Repeated):
    """Schedules atomic batches in these topics while the load runs. `strict` has the strict ones. `in_flight` counts
    the batches without a final outcome. `leaps` is explained at Sender."""

    def __init__(
        self,
        caller: Caller[Client],
        history: History,
        topics: Sequence[str],
        strict: Collection[str],
        leaps: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(caller, EVERY_S)
        self._caller, self._history, self._topics, self._strict = caller, history, topics, strict
        self._leaps = leaps
        self._number = FIRST_NUMBER
        self._taken: Offer | None = None  # a message that has its key

    async def _once(self) -> None:
        chance, now_ms = self._chance, self._history.now()[1]
        offers = []
        for _ in range(chance.randint(*LINES)):
            due_ms = now_ms + chance.randint(*SOON_MS)
            offers.append(Offer(self._number, chance.choice(self._topics), due_ms, keyed=True))
            self._number += 1
        taken = self._taken if chance.random() < CONFLICT_SHARE else None
        if taken is not None:
            offers[-1] = Offer(offers[-1].number, taken.topic, offers[-1].asked_due_ms, keyed=True)
        for offer in offers:  # told as one without a key, or other clients would send it again with its own
            self._history.record(
                Offered(
                    **self._history.stamp(), number=offer.number, keyed=False, asked_due_ms=offer.asked_due_ms,
                    strict=offer.topic in self._strict, topic=offer.topic,
                )
            )  # fmt: skip
        self._runner.start(self._send(offers, taken))
        self._next()

    async def _send(self, offers: list[Offer], taken: Offer | None) -> None:
        self.in_flight += 1
        runner, history, leaps = self._runner, self._history, self._leaps()
        deadline_s, doubtful = runner.now_s() + RETRY_S, False
        while True:
            client, sent_ms = self._caller.any(), history.now()[0]
            outcome = await client.schedule_all(offers, taken)
            name = str(offers[0].number)
            history.record(RequestAnswered(**history.stamp(), kind="batch", name=name, asked_mono_ms=sent_ms))
            doubtful = doubtful or outcome.kind == "unknown"
            if not outcome.may_go_again(True) or runner.now_s() >= deadline_s or self._leaps() != leaps:
                break
            await self._caller.pause()
        self.in_flight -= 1
        placed = outcome.value or ()
        if placed:
            self._taken = offers[0]
        kind = "acknowledged" if placed else outcome.after(doubtful).kind
        replayed = tuple(each.replayed for each in placed)
        numbers = tuple(offer.number for offer in offers)
        history.record(BatchAnswered(**history.stamp(), numbers=numbers, outcome=kind, replayed=replayed))
        for row, number in enumerate(numbers):
            told: dict[str, Any] = {"number": number, "node": client.node, "sent_mono_ms": sent_ms, "outcome": kind}
            if placed:
                told |= {"message_id": placed[row].id, "due_ms": placed[row].due_ms}
                told["detail"] = "replayed" if placed[row].replayed else ""
            history.record(Answered(**history.stamp(), **told))
