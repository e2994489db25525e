"""Asks a node about messages, by GET `/v1/messages/{id}` and by its ledger, and records the answers in the history."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import asdict

from chaos.client.caller import Caller
from chaos.client.client import Account, Client, View
from chaos.client.outcome import Outcome
from chaos.history.event import Accounted, Answered, Cancelled, Looked, Rescheduled, Summed
from chaos.history.history import History

#: A question without an answer is repeated for this long.
ACCOUNT_S: Final = 20.0

Named = Answered | Cancelled | Rescheduled


class Accounts:
    """Asks members about messages and records their answers. `in_flight` counts the questions that have no answer
    yet."""

    def __init__(self, caller: Caller[Client], history: History) -> None:
        self.in_flight = 0
        self._caller, self._history = caller, history

    def begin(self, messages: Iterable[Answered], at_once: int) -> None:
        """Begin to ask GET and the ledger about each of these messages, with at most `at_once` requests open at a
        time."""
        left = deque(messages)
        self.in_flight += len(left)
        for _ in range(at_once):
            self._caller.runner.start(self._each(left))

    async def _each(self, left: deque[Answered]) -> None:
        while left:
            await self._account(left.popleft())

    async def _account(self, message: Answered) -> None:
        asked, name = self._history.now(), message.message_id
        outcome = await self._caller.insist(lambda client: client.look(name, ledger=True), for_s=ACCOUNT_S, again=True)
        self.in_flight -= 1
        self._record(message, asked, outcome)

    async def look(self, message: Named) -> None:
        """Ask a random member once for the message by GET, without the ledger. Record the answer, if there is one."""
        asked = self._history.now()
        self._record(message, asked, await self._caller.any().look(message.message_id, ledger=False))

    def _record(self, message: Named, asked: tuple[float, int], outcome: Outcome[tuple[View, Account | None]]) -> None:
        if outcome.value is None:
            return
        view, account = outcome.value
        about: dict[str, Any] = {"number": message.number, "message_id": message.message_id, **self._history.stamp()}
        self._history.record(Looked(**about, asked_wall_ms=asked[1], **asdict(view)))
        if account is not None:
            self._history.record(Accounted(**about, asked_mono_ms=asked[0], **asdict(account)))

    async def sum_up(self) -> None:
        """Ask the ledger for its sums over all messages, for ACCOUNT_S at most. Record the answer, if there is one."""
        self.in_flight += 1
        asked_ms = self._history.now()[0]
        outcome = await self._caller.insist(lambda client: client.sums(), for_s=ACCOUNT_S, again=True)
        self.in_flight -= 1
        if outcome.value is not None:
            self._history.record(Summed(**self._history.stamp(), asked_mono_ms=asked_ms, **asdict(outcome.value)))
