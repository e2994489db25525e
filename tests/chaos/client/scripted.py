"""A node that answers as a test says, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from api.port.port import CancelResult, Delivery, RescheduleResult
from chaos.client.client import Account, Many, Offer, Placed, Sums, Verb, View, Wish, WishAnswer
from chaos.client.outcome import Outcome
from chaos.history.history import History
from tests.virtual_time import passes


class ScriptedClient:
    """Answers every call with `said`, or with what is put in its place; `asked` are the calls, (time, call, receipts).
    A pull without messages waits."""

    node = "n1"

    def __init__(self) -> None:
        self.asked: list[tuple[float, str, list[str]]] = []
        self.messages: list[Delivery] = []
        self.refuses = ""
        self.change: Callable[[str], Outcome[CancelResult]] = lambda name: Outcome("ok", CancelResult(name, 0, "none"))

    def _settle(self, call: str, result: str, receipts: Sequence[str]) -> Outcome[Sequence[str]]:
        self.asked.append((asyncio.get_running_loop().time(), call, list(receipts)))
        return Outcome("refused", None, self.refuses) if self.refuses else Outcome("ok", [result] * len(receipts))

    async def pull(self, topic: str, most: int, wait_ms: int) -> Outcome[Sequence[Delivery]]:
        """All messages at once."""
        if not self.messages:
            await passes(wait_ms / 1000)
        messages, self.messages = self.messages, []
        return Outcome("ok", messages)

    async def ack(self, topic: str, receipts: Sequence[str]) -> Outcome[Sequence[str]]:
        """Acked."""
        return self._settle("ack", "acked", receipts)

    async def nack(self, topic: str, receipts: Sequence[str], delay_ms: int | None) -> Outcome[Sequence[str]]:
        """Given back."""
        return self._settle("nack", "nacked", receipts)

    async def extend(self, topic: str, receipts: Sequence[str], lease_ms: int) -> Outcome[Sequence[str]]:
        """Extended."""
        return self._settle("extend", "extended", receipts)

    async def cancel(self, message_id: str) -> Outcome[CancelResult]:
        """As `change` says."""
        return self.change(message_id)

    async def schedule(self, offers: Sequence[Offer]) -> Sequence[Outcome[Placed]]:
        """Not asked here."""
        raise NotImplementedError

    async def reschedule(self, message_id: str, due_ms: int, if_match: int | None) -> Outcome[RescheduleResult]:
        """Not asked here."""
        raise NotImplementedError

    async def look(self, message_id: str, *, ledger: bool) -> Outcome[tuple[View, Account | None]]:
        """Not asked here."""
        raise NotImplementedError

    async def change_many(
        self, kind: str, topic: str, window: range, by_ms: int | None, rate: int | None
    ) -> Outcome[Many]:
        """Not asked here."""
        raise NotImplementedError

    async def schedule_all(self, offers: Sequence[Offer], taken: Offer | None) -> Outcome[Sequence[Placed]]:
        """Not asked here."""
        raise NotImplementedError

    async def wish(self, wish: Wish) -> Outcome[WishAnswer]:
        """Not asked here."""
        raise NotImplementedError

    async def wish_all(self, wishes: Sequence[Wish]) -> Outcome[Sequence[WishAnswer]]:
        """Not asked here."""
        raise NotImplementedError

    async def change_operation(self, name: str, verb: Verb) -> Outcome[Many]:
        """Not asked here."""
        raise NotImplementedError

    async def operation(self, name: str) -> Outcome[Many]:
        """Not asked here."""
        raise NotImplementedError

    async def sums(self) -> Outcome[Sums]:
        """Not asked here."""
        raise NotImplementedError


def virtual_history() -> History:
    """On the time of the running loop."""
    loop = asyncio.get_running_loop()
    return History(now=lambda: (loop.time() * 1000, round(loop.time() * 1000)))
