"""Asks GET and the ledger what became of messages, and writes it down as it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import asdict

from chaos.client.caller import Caller
from chaos.client.client import Client, View
from chaos.history.event import Accounted, Answered, Cancelled, Looked, Rescheduled, Summed
from chaos.history.history import History

#: A question without an answer is asked again for so long.
ACCOUNT_S: Final = 20.0
#: What the ledger says of a message some of whose records are gone.
OUTSIDE: Final = "outside_window"
FORGOTTEN: Final = frozenset({OUTSIDE, "records_missing"})


def tells_all(complete: bool, flags: Iterable[str]) -> bool:
    """Whether the ledger lacked nothing of what it tells of: no node's account, no record."""
    return complete and not FORGOTTEN.intersection(flags)


class Accounts:
    """One asker. `in_flight`: questions that are not answered yet."""

    def __init__(self, caller: Caller[Client], history: History) -> None:
        self.in_flight = 0
        self._caller, self._history = caller, history

    def begin(self, messages: Iterable[Answered], at_once: int) -> None:
        """Asks GET and the ledger of each, so many at a time."""
        left = deque(messages)
        self.in_flight += len(left)
        for _ in range(at_once):
            self._caller.runner.start(self._each(left))

    async def _each(self, left: deque[Answered]) -> None:
        while left:
            await self._account(left.popleft())

    async def _account(self, message: Answered) -> None:
        asked_mono_ms, asked_wall_ms = self._history.now()
        outcome = await self._caller.insist(
            lambda client: client.account(message.message_id), for_s=ACCOUNT_S, again=True
        )
        self.in_flight -= 1
        if outcome.value is None:
            return
        view, account = outcome.value
        self._looked(message, asked_wall_ms, view)
        if account is not None:
            about: dict[str, Any] = {"number": message.number, "message_id": message.message_id}
            self._history.record(
                Accounted(**self._history.stamp(), **about, asked_mono_ms=asked_mono_ms, **asdict(account))
            )

    async def look(self, message: Answered | Cancelled | Rescheduled) -> None:
        """One GET, told of where it was answered."""
        asked_ms = self._history.now()[1]
        outcome = await self._caller.any().look(message.message_id)
        if outcome.value is not None:
            self._looked(message, asked_ms, outcome.value)

    def _looked(self, message: Answered | Cancelled | Rescheduled, asked_ms: int, view: View) -> None:
        about: dict[str, Any] = {"number": message.number, "message_id": message.message_id}
        self._history.record(Looked(**self._history.stamp(), **about, asked_wall_ms=asked_ms, **asdict(view)))

    async def sum_up(self) -> None:
        """The ledger's sums."""
        self.in_flight += 1
        asked_ms = self._history.now()[0]
        outcome = await self._caller.insist(lambda client: client.sums(), for_s=ACCOUNT_S, again=True)
        self.in_flight -= 1
        if outcome.value is not None:
            self._history.record(Summed(**self._history.stamp(), asked_mono_ms=asked_ms, **asdict(outcome.value)))
