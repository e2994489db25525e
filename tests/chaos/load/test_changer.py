"""The racer aims at the moment from which commands come too late, wherever a node's slowness puts it."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from chaos.cluster.local_nodes import LocalNode
from chaos.history.event import Answered, Cancelled
from chaos.history.history import History
from chaos.load.changer import CommandAnswer, Racer
from chaos.plan.load_plan import Plan
from tests.virtual_time import passes, virtually

SLOW_MS = 150
COUNT = 300
LATE = "HTTP 409"


@pytest.mark.parametrize(("slow_ms", "busy"), [(0, False), (SLOW_MS, False), (SLOW_MS, True)])
def test_some_commands_are_in_time_and_some_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_ms: int, busy: bool
) -> None:
    """Of a node that comes to a command so late too: by then the message has gone out. One that refuses every second
    command because it is busy says nothing of the time."""
    due_ms = {f"http://127.0.0.1:1/v1/messages/{number}": 300 + 20 * number for number in range(0, 4 * COUNT, 4)}

    async def scene() -> History:
        loop = asyncio.get_running_loop()
        history = History(now=lambda: (loop.time() * 1000, round(loop.time() * 1000)))
        begun_ms = history.now()[1]

        async def ask(_http: object, _method: str, url: str) -> CommandAnswer:
            if busy and due_ms[url] % 160 == 60:
                return CommandAnswer("refused", {}, "HTTP 503")
            if history.now()[1] - begun_ms > due_ms[url] - slow_ms:
                return CommandAnswer("refused", {}, LATE, late=True)
            return CommandAnswer("done", {"prior": "pending", "attempts_made": 0}, "")

        async def looked(*_: object) -> None:
            return None

        monkeypatch.setattr("chaos.load.changer.ask", ask)
        monkeypatch.setattr("chaos.load.changer.look", looked)
        node = LocalNode("n1", 1, 2, tmp_path)
        racing = asyncio.create_task(Racer([node], Plan(rate=1, duration_s=1, cancel_share=1.0), history).run())
        for number, due in zip(range(0, 4 * COUNT, 4), due_ms.values(), strict=True):
            await passes((begun_ms + due - 300 - history.now()[1]) / 1000)
            mono_ms, wall_ms = history.now()
            history.record(
                Answered(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    number=number,
                    node="n1",
                    outcome="acknowledged",
                    sent_mono_ms=mono_ms,
                    message_id=str(number),
                    due_ms=begun_ms + due,
                )
            )
        await passes(2.0)
        racing.cancel()
        with suppress(asyncio.CancelledError):
            await racing
        return history

    cancels = virtually(scene).of(Cancelled)
    assert len(cancels) == COUNT
    in_time = sum(event.outcome == "cancelled" for event in cancels)
    late = sum(event.detail == LATE for event in cancels)
    assert min(in_time, late) > (25 if busy else 50), (in_time, late)
