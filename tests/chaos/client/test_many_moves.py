"""Which messages an operation may have moved, as its client finds out."""

import asyncio
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.client.many import Asked
from chaos.client.many_moves import ManyMoves
from chaos.history.event import Answered, Offered, Rescheduled
from chaos.history.history import History
from tests.chaos.history.planted import EPOCH_MS, at


@pytest.mark.parametrize(("offered_ms", "moved"), [(90, [(7, "unknown")]), (110, [])])
def test_1824_a_message_may_be_moved_before_its_client_has_the_answer(
    offered_ms: int, moved: list[tuple[int, str]]
) -> None:
    """Its batch was sent again after the leader had died. The operation had ended meanwhile. One that was sent after
    the operation's answer is not of its set."""
    history = History(now=lambda: (500.0, EPOCH_MS + 500))
    under_way: list[Coroutine[Any, Any, None]] = []
    caller: Any = SimpleNamespace(runner=SimpleNamespace(start=under_way.append), chance=random.Random(1))
    many = ManyMoves(caller, history, ["t"], 1.0)
    asked = Asked("t", range(EPOCH_MS, EPOCH_MS + 9_000), EPOCH_MS + 95, stamp=at(100), sure=True)
    history.record(Offered(**at(offered_ms), number=7, keyed=False, asked_due_ms=EPOCH_MS, topic="t"))
    assert asyncio.run(many._look(asked, 1.0))
    told: dict[str, Any] = {"node": "n1", "outcome": "acknowledged", "sent_mono_ms": 90.0, "message_id": "id7"}
    history.record(Answered(**at(500), number=7, due_ms=EPOCH_MS, **told))
    for task in under_way:
        asyncio.run(task)
    assert [(each.number, each.outcome) for each in history.of(Rescheduled)] == moved
