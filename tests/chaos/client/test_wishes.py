"""What a client says of the messages whose keys it sends again, and of their holders."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.client.client import Wish, WishAnswer
from chaos.client.outcome import Outcome
from chaos.client.wishes import FIRST_NUMBER, Wishes
from chaos.history.event import Acked, Cancelled, Rescheduled
from chaos.history.history import History
from tests.chaos.history.planted import EPOCH_MS, at


class _Scripted:
    """A client that is told its answers."""

    node = "n1"

    def __init__(self) -> None:
        self.acks: list[int] = []
        self.history: History | None = None

    async def wish(self, wish: Wish) -> Outcome[WishAnswer]:
        """The first wish is created. The message ends while the second one is on its way, whose outcome is unknown."""
        if wish.number == FIRST_NUMBER:
            return Outcome("ok", WishAnswer("id0", wish.due_ms, "created"))
        assert self.history is not None
        for moment_ms in self.acks:
            told: dict[str, Any] = {"term": 1, "attempt": 1, "result": "acked", "asked_wall_ms": EPOCH_MS}
            self.history.record(Acked(**at(moment_ms), number=FIRST_NUMBER, message_id="id0", **told))
        return Outcome("unknown", None, "outcome-unknown")


@pytest.mark.parametrize("acked", [False, True])
def test_4314_a_wish_of_unknown_outcome_may_have_changed_what_has_ended_since(acked: bool) -> None:
    """It was extended, and delivered at the new time, before the wish timed out."""
    client = _Scripted()
    history = client.history = History(now=lambda: (500.0, EPOCH_MS + 500))
    client.acks = [500] if acked else []
    caller: Any = SimpleNamespace(runner=SimpleNamespace(), chance=random.Random(1), any=lambda: client)
    wishes = Wishes(caller, history, ["t"], ())
    for _ in range(2):
        asyncio.run(wishes._wish(("t", "k")))
    changed = [event for event in history.events if isinstance(event, Rescheduled | Cancelled)]
    assert [(each.message_id, each.outcome) for each in changed] == [("id0", "unknown")]
    assert len(history.of(Acked)) == acked
