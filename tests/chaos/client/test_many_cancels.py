"""Which messages an operation cancelled, as its client finds out."""

import asyncio
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.client.client import View
from chaos.client.many import Asked
from chaos.client.many_cancels import ManyCancels
from chaos.client.outcome import Outcome
from chaos.history.event import Answered, Gone, Offered
from chaos.history.history import History
from tests.chaos.history.planted import EPOCH_MS, at


@pytest.mark.parametrize(("offered_ms", "gone"), [(90, [7]), (110, [])])
def test_1261_a_message_may_be_cancelled_before_its_client_has_the_answer(offered_ms: int, gone: list[int]) -> None:
    """Its batch was sent again after the leader had died. The operation had ended meanwhile, and its messages were
    looked at. One that was sent after the operation's answer is not of its set."""
    history = History(now=lambda: (500.0, EPOCH_MS + 500))
    under_way: list[Coroutine[Any, Any, None]] = []
    runner = SimpleNamespace(start=under_way.append)

    async def insist(ask: Any, *, for_s: float, again: bool) -> Outcome[Any]:
        return Outcome("ok", (View("cancelled", EPOCH_MS, 0, None, None, ()), None))

    caller: Any = SimpleNamespace(runner=runner, chance=random.Random(1), insist=insist)
    many = ManyCancels(caller, history, ["t"], 1.0)
    asked = Asked("t", range(EPOCH_MS, EPOCH_MS + 9_000), EPOCH_MS + 95, stamp=at(100), sure=True)
    history.record(Offered(**at(offered_ms), number=7, keyed=False, asked_due_ms=EPOCH_MS, topic="t"))
    asyncio.run(many._look(asked, 1.0))
    told: dict[str, Any] = {"node": "n1", "outcome": "acknowledged", "sent_mono_ms": 90.0, "message_id": "id7"}
    history.record(Answered(**at(500), number=7, due_ms=EPOCH_MS, **told))
    assert many.in_flight == len(gone)
    for task in under_way:
        asyncio.run(task)
    assert [each.number for each in history.of(Gone)] == gone
    assert many.in_flight == 0
